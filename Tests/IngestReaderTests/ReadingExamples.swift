import IngestReader
import IngestVerify

/// The examples of docs/reading.md and of the library's catalog, line by line (a tidy test holds them to the pages).
/// They see what any program sees that imports the library.
enum ReadingExamples {
    static func first(directory: String) throws -> UInt64? {
        let reader = try IngestReader.open(directory: directory)
        let row = try reader.reward("reward-17")
        print(reader.cut.segment, reader.cut.block, row?.counters.impressions ?? 0)
        return row?.counters.impressions
    }

    static func points(_ reader: IngestReader) throws -> (RewardRow?, DayRow?) {
        let reward = try reader.reward("reward-17", business: "shop")
        let day = try reader.day(business: "shop", date: CivilDay("2026-11-20")!)
        return (reward, day)
    }

    static func listings(_ reader: IngestReader) throws -> (top: [String], refusedCount: Int) {
        let week = DayRange(from: CivilDay("2026-11-14"), to: CivilDay("2026-11-20"))
        let top = try reader.rewards(RewardsQuery(days: week, order: .clicks, limit: 100))

        try reader.forEachReward { row in
            print(row.id, row.counters.impressions, row.counters.revenue)
            return .next
        }

        var refused: [EventRow.Verdict: Int] = [:]
        try reader.forEachEvent(EventsQuery(business: "shop", days: week)) { event in
            if event.verdict != .counted { refused[event.verdict, default: 0] += 1 }
            return .next
        }
        return (top.map(\.id), refused.values.reduce(0, +))
    }

    static func errors(directory: String) {
        do {
            let reader = try IngestReader.open(directory: directory)
            print(try reader.status().rowCount)
        } catch {
            switch error.kind {
            case .notFound, .missingManifest: print("no data directory: \(error.path)")
            case .corrupt, .newerFormat: print("restore \(error.path): \(error.what)")
            case .io: print("try again: \(error)")
            }
        }
    }

    static func verify(directory: String, isCancelled: Bool = false) throws -> VerifyReport {
        let report = try Verifier(directory: directory).run { progress in
            print("\(progress.doneByteCount) of \(progress.totalByteCount) bytes")
            return !isCancelled
        }
        for finding in report.findings { print(finding) }
        print(report.isSound)
        print(report.rowCount, report.differenceCount, report.corruptionCount)
        return report
    }

    /// The whole of docs/reading.md.
    static func page(directory: String) throws -> Int {
        let reader = try IngestReader.open(directory: directory)
        print(reader.cut)

        // One key: a few small reads.
        let reward = try reader.reward("reward-17")
        let day = try reader.day(business: "shop", date: CivilDay("2026-11-20")!)

        // The greatest, and a range of days.
        let week = DayRange(from: CivilDay("2026-11-14"), to: CivilDay("2026-11-20"))
        let top = try reader.rewards(RewardsQuery(days: week, order: .clicks, limit: 100))

        // A row at a time, in bytewise order of id; `.stop` ends it, and so does an error that the body throws.
        try reader.forEachReward { row in
            print(row.id, row.counters.impressions)
            return .next
        }

        // Events, in the order of the log.
        try reader.forEachEvent(EventsQuery(days: week)) { event in
            print(event.rewardID, event.kind, event.verdict)
            return .next
        }

        // Was this event counted? Its rows, with the verdict on each.
        for found in try reader.find(eventID: "order-4711", business: "shop") {
            print(found.row.verdict, found.committedMicroseconds, found.differences ?? [])
        }

        // Every row recounted; the closure sees how far it is, and `false` ends it.
        let report = try Verifier(directory: directory).run { progress in
            print("\(progress.doneByteCount) of \(progress.totalByteCount) bytes")
            return true
        }
        print(report.isSound)
        return (reward == nil ? 0 : 1) + (day == nil ? 0 : 1) + top.count
    }
}
