import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage

/// Generations whose cut lies in the live segment, made from the reference model and not by the publisher,
/// so that they can be made at any block and kept for as long as a test wants.
extension LogFixture {
    /// Publishes a generation that covers all blocks of the live segment: a run of days and of reward-days that ends there,
    /// in place of the live runs of the generation before. The names stay in the blocks.
    func publishLive() throws {
        var next = sealedManifest
        next.generation = manifest.generation.next
        next.nextFileNumber = manifest.nextFileNumber
        next.shard.cut = position
        next.shard.cutOffset = UInt64(lastBlock.upperBound)
        next.shard.liveTotals = liveTotals
        next.shard.nextName = nextName
        next.shard.nextKey = nextKey
        next.shard.commitEpoch = commitEpoch
        next.shard.lastBlockChecksum = previousChecksum
        let store = ManifestStore(files: files)
        for table in [TableKind.days, .rewardDays] {
            let counters = encoded(table)
            let header = RunHeader(
                table: table, fileNumber: next.nextFileNumber, directory: next.directory,
                span: LogSpan(firstSegment: position.segment, end: position),
                generation: next.generation, createdAt: 6, index: counters.index)
            let entry = header.entry
            try store.write(entry.fileName, [Run(header: header, counters: counters).encode()])
            let place = next.runs.lastIndex { $0.table.rawValue <= table.rawValue }
            next.runs.insert(entry, at: place.map { $0 + 1 } ?? 0)
            next.nextFileNumber = next.nextFileNumber.next
        }
        try store.publish(next)
        take(liveManifest: next)
    }

    /// What the model's facts of the live segment come to.
    private func encoded(_ table: TableKind) -> CounterTable {
        var sums: [UInt64: CounterRow] = [:]
        for fact in model.facts.dropFirst(factCountAtSegment) {
            let business = names[fact.business]!
            let key = keys[
                RewardKey(
                    reward: NameOrdinal(rawValue: names[fact.reward]!),
                    business: NameOrdinal(rawValue: business))]!
            let order = CounterPage.order(
                key: table == .days ? business : key, day: table.hasDay ? fact.day : 0)
            precondition(sums[order, default: CounterRow()].add(fact.row))
        }
        var encoder = CounterTableEncoder(hasDay: table.hasDay)
        for (order, counters) in sums.sorted(by: { $0.key < $1.key }) {
            encoder.append(
                key: UInt32(truncatingIfNeeded: order >> 32), day: CounterPage.day(ofOrder: order),
                counters: counters)
        }
        return encoder.finish()
    }
}
