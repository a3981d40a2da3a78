import IngestFormat
import IngestPipeline
import IngestStorage
import Testing

/// Which merges are ordered of a manifest, over thousands of generations: by entries alone, without a file.
struct MergeOrderTests {
    /// A log that grows by a sealed segment a generation.
    private struct Growing {
        var manifest = Manifest(
            directory: DirectoryID(rawValue: 1), createdAt: 0, hashAlgorithm: 1,
            hashKey: [UInt8](repeating: 0, count: 16))
        private var segment: UInt32 = 0
        private var name: UInt32 = 1

        mutating func append(namesRunCount: Int) {
            segment += 1
            let number = SegmentNumber(rawValue: segment)
            let span = LogSpan(
                firstSegment: number, end: LogPosition(segment: number, blockCount: 1))
            manifest.shard.cut = span.end
            for table in [TableKind.days, .rewardDays] { manifest.insert(run(table, span)) }
            for _ in 0..<namesRunCount {
                manifest.namesRuns.append(
                    NamesRunEntry(
                        fileNumber: take(), byteCount: 64, checksum: 0, names: name..<name + 1,
                        keys: 0..<0))
                name += 1
            }
        }

        private mutating func take() -> FileNumber {
            defer { manifest.nextFileNumber = manifest.nextFileNumber.next }
            return manifest.nextFileNumber
        }

        private mutating func run(_ table: TableKind, _ span: LogSpan) -> RunEntry {
            RunEntry(
                table: table, fileNumber: take(), byteCount: 64, checksum: 0, span: span,
                rowCount: 1)
        }

        /// What carrying it out gives.
        mutating func carryOut(_ order: MergeOrder, refusesRewards: Bool = false) {
            var merged = MergedRuns()
            for part in order.parts {
                switch part {
                case .names(let inputs, let number):
                    let names =
                        inputs[0].names.lowerBound..<inputs[inputs.count - 1].names.upperBound
                    merged.names = (
                        inputs,
                        NamesRunEntry(
                            fileNumber: number, byteCount: 64, checksum: 0, names: names,
                            keys: 0..<0)
                    )
                case .counters(let table, let inputs, let number):
                    if refusesRewards && table != .days { continue }
                    let span = LogSpan(
                        firstSegment: inputs[0].span.firstSegment,
                        end: inputs[inputs.count - 1].span.end)
                    merged.counters.append(
                        (
                            inputs,
                            RunEntry(
                                table: table, fileNumber: number, byteCount: 64, checksum: 0,
                                span: span, rowCount: 1)
                        ))
                }
            }
            manifest.replace(merged)
        }
    }

    @Test func `of a table that is full a merge is always due, which makes room`() {
        for names in [1, 0, 3, 40] {
            var log = Growing()
            var mostRewards = 0
            for generation in 0..<2_100 {
                log.append(namesRunCount: generation % 7 == 0 ? names : 1)
                var orderCount = 0
                while let order = log.manifest.orderMerge(at: 0) {
                    #expect(order.isNeeded == !log.manifest.hasRoomForRuns)
                    log.carryOut(order)
                    orderCount += 1
                    if orderCount > 4 { break }
                }
                #expect(orderCount <= 4)
                #expect(log.manifest.hasRoomForRuns, "\(generation) generations, \(names) names")
                mostRewards = max(mostRewards, log.manifest.ownRuns(of: .rewards).count)
            }
            // As many as a merge leaves, and no reason to wait for one.
            #expect(mostRewards == Limits.runCountMax)
        }
    }

    @Test func `refused for long, a table has its runs, one more at the end, and merges them then`()
    {
        var log = Growing()
        var last = 0
        while log.manifest.hasRoomForRuns {
            log.append(namesRunCount: 1)
            if let order = log.manifest.orderMerge(at: 0) {
                log.carryOut(order, refusesRewards: true)
            }
            last += 1
        }
        #expect(last == Limits.runCountMax && log.manifest.hasRoomForLastRuns)
        log.append(namesRunCount: 1)
        #expect(!log.manifest.hasRoomForLastRuns)
        if let order = log.manifest.orderMerge(at: 0) { log.carryOut(order) }
        #expect(log.manifest.hasRoomForRuns)
    }
}
