import IngestPipeline
import IngestStorage
import Testing

@testable import IngestFormat

/// Which merges are ordered of a manifest, over thousands of generations: by entries alone, without a file.
struct MergeOrderTests {
    /// A log that grows by a sealed segment a generation.
    private struct Growing {
        var manifest = Manifest(
            directory: DirectoryID(rawValue: 1), createdAt: 0, hashAlgorithm: 1,
            hashKey: [UInt8](repeating: 0, count: 16))
        private var segment: UInt32 = 0
        private var name: UInt32 = 1

        /// Rows that merges have written.
        private(set) var writtenSegmentCount: UInt64 = 0

        mutating func append(namesRunCount: Int) {
            segment += 1
            let number = SegmentNumber(rawValue: segment)
            manifest.sealed.append(
                SealedSegment(
                    number: number, byteCount: 64, footerChecksum: 0, blockCount: 1, rowCount: 1,
                    minTimestamp: 0, maxTimestamp: 0, lastCommitTime: 0))
            manifest.shard.cut = LogPosition(segment: number, blockCount: 1)
            for _ in 0..<namesRunCount {
                manifest.namesRuns.append(names(name..<name + 1, take()))
                name += 1
            }
        }

        private mutating func take() -> FileNumber {
            defer { manifest.nextFileNumber = manifest.nextFileNumber.next }
            return manifest.nextFileNumber
        }

        private func names(_ names: Range<UInt32>, _ number: FileNumber) -> NamesRunEntry {
            NamesRunEntry(
                fileNumber: number, byteCount: 64, checksum: 0, names: names, keys: 0..<0)
        }

        /// What carrying it out gives.
        mutating func carryOut(_ order: MergeOrder, refusesTables: Bool = false) {
            var merged = MergedRuns()
            if let (inputs, number) = order.names {
                let first = inputs[0].names.lowerBound
                merged.names = (
                    inputs, names(first..<inputs[inputs.count - 1].names.upperBound, number)
                )
            }
            if let tables = order.tables, !refusesTables {
                let span = tables.span
                merged.tables = (
                    tables,
                    TableKind.counterTables.enumerated().map { place, table in
                        RunEntry(
                            table: table, fileNumber: tables.firstNumber.advanced(by: place),
                            byteCount: 64, checksum: 0, span: span, rowCount: 1)
                    }
                )
                writtenSegmentCount += span.segmentCount
            }
            manifest.replace(merged)
        }

        /// Whether the runs of each table have the segments up to level 0, one behind the other.
        var isWhole: Bool {
            let spans = manifest.runs(of: .rewards).map(\.span)
            var next = SegmentNumber(rawValue: 1)
            for span in spans {
                if span.firstSegment != next { return false }
                next = span.lastSegment.next
            }
            return TableKind.counterTables.allSatisfy { manifest.runs(of: $0).map(\.span) == spans }
                && manifest.level0.map(\.number.rawValue) == Array(next.rawValue..<segment + 1)
        }
    }

    @Test func `level 0 and names never stay full: a merge is due that makes room`() {
        for names in [1, 0, 3, 40] {
            var log = Growing()
            for generation in 1...2_100 {
                log.append(namesRunCount: generation % 7 == 0 ? names : 1)
                var orderCount = 0
                while let order = log.manifest.orderMerge(at: 0) {
                    #expect(order.isNeeded == !log.manifest.hasRoomForSegments)
                    log.carryOut(order)
                    orderCount += 1
                    if orderCount > 4 { break }
                }
                #expect(orderCount <= 4 && log.isWhole)
                #expect(
                    log.manifest.hasRoomForSegments, "\(generation) generations, \(names) names")
                #expect(log.manifest.level0.count < Limits.level0MergeCount)
                #expect(log.manifest.runs(of: .rewards).count <= Limits.runCountMax)
            }
            // Each row is written about once for each doubling of the log.
            #expect(log.writtenSegmentCount < 2_100 * 10)
        }
    }

    @Test func `refused for long, level 0 is full, and one merge makes room`() {
        var log = Growing()
        while log.manifest.hasRoomForSegments {
            log.append(namesRunCount: 1)
            if let order = log.manifest.orderMerge(at: 0) {
                log.carryOut(order, refusesTables: true)
            }
        }
        #expect(log.manifest.level0.count == Limits.level0CountMax)
        for _ in 0..<100 { log.append(namesRunCount: 1) }
        while let order = log.manifest.orderMerge(at: 0) {
            #expect(order.tables.map { $0.span.segmentCount <= 128 } ?? true)
            log.carryOut(order)
        }
        #expect(log.manifest.hasRoomForSegments && log.isWhole)
    }

    @Test func `the least of level 0 is merged where that is asked for`() {
        var log = Growing()
        log.append(namesRunCount: 0)
        #expect(log.manifest.orderMerge(at: 0) == nil)
        let order = log.manifest.orderMerge(at: 0, level0CountMin: 1)
        if let order { log.carryOut(order) }
        #expect(log.manifest.level0.isEmpty && log.isWhole)
        #expect(log.manifest.orderMerge(at: 0, level0CountMin: 1) == nil)
    }

    @Test func `segments expire once runs have them, and first where the order before was refused`()
    {
        var log = Growing()
        for _ in 0..<Limits.level0MergeCount { log.append(namesRunCount: 0) }
        let due = log.manifest.sealed.prefix(3)
        let order = log.manifest.orderMerge(at: 0, expiring: due)
        #expect(order?.tables != nil && order?.expiry == nil)
        if let order { log.carryOut(order) }
        for _ in 0..<Limits.level0MergeCount { log.append(namesRunCount: 0) }
        let second = log.manifest.orderMerge(at: 0, expiring: due)
        #expect(second?.tables != nil && second?.expiry == nil)
        let third = log.manifest.orderMerge(at: 0, expiring: due, isRefused: true)
        #expect(third?.tables == nil && third?.expiry?.segments.count == 3)
        // Nothing else is due, and the next to expire is in no run: level 0 is merged, however little it is.
        if let second { log.carryOut(second) }
        log.append(namesRunCount: 0)
        let last = log.manifest.sealed.suffix(1)
        let fourth = log.manifest.orderMerge(at: 0, expiring: last)
        #expect(fourth?.tables != nil && fourth?.isNeeded == true)
    }
}
