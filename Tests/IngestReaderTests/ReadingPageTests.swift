import Foundation
import IngestReader
import Testing

@Suite struct ReadingPageTests {
    /// The example of docs/reading.md, line by line.
    private func example(directory: String) throws -> (row: RewardRow?, day: DayRow?, top: Int) {
        let reader = try IngestReader.open(directory: directory)
        print(reader.cut)

        // One key: a few small reads.
        let reward = try reader.reward("reward-17")
        let day = try reader.day(business: "shop", date: CivilDay("2026-11-20")!)

        // The greatest, and a range of days.
        let week = DayRange(from: CivilDay("2026-11-14"), to: CivilDay("2026-11-20"))
        let top = try reader.rewards(RewardsQuery(days: week, order: .clicks, top: 100))

        // A row at a time, in bytewise order of id; `false` ends it.
        try reader.forEachReward { row in
            print(row.id, row.counters.impressions)
            return true
        }
        return (reward, day, top.count)
    }

    @Test("The example of the page is code that compiles")
    func compiles() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/reading.md"), encoding: .utf8)
        let source = Set(
            try String(contentsOf: here, encoding: .utf8).split(separator: "\n").map {
                $0.trimmingCharacters(in: .whitespaces)
            })
        let lines = page.split(separator: "\n").filter { $0.hasPrefix("    ") }.map {
            $0.trimmingCharacters(in: .whitespaces)
        }.filter { !$0.hasPrefix("let reader =") && !$0.hasPrefix("ingest-reader ") }
        #expect(lines.count > 10)
        for line in lines { #expect(source.contains(line), "\(line)") }
        #expect(throws: ReaderError.self) { _ = try example(directory: "/nowhere/at/all") }
    }
}
