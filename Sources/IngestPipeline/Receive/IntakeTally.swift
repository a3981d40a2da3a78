// [packet] → [decode] → [ring] → admit → block → segment → compaction → snapshot → query
import IngestFormat

/// What the intake counts while it works on a batch: plain integers, carried to the shared counters
/// once a batch.
struct IntakeTally {
    static let resultCount = 15

    var datagramCount: UInt64 = 0
    var byteCount: UInt64 = 0
    var eventCount: UInt64 = 0
    /// Platforms, campaigns and sources.
    var droppedCount: UInt64 = 0
    /// Packets by `PacketResult` since the last flush: those refused here.
    var results = InlineArray<15, UInt64>(repeating: 0)
    /// Likewise, since the last refusals record, without those that have a record of their own.
    var unrecorded = InlineArray<15, UInt64>(repeating: 0)

    var hasUnrecorded: Bool {
        for index in 0..<Self.resultCount where unrecorded[index] != 0 { return true }
        return false
    }

    mutating func flush(into counters: PipelineCounters, bufferCount: Int) {
        counters.receive.add(.batches)
        counters.receive.add(.buffers, UInt64(bufferCount))
        counters.receive.add(.datagrams, datagramCount)
        counters.receive.add(.bytes, byteCount)
        counters.receive.add(.events, eventCount)
        if droppedCount > 0 { counters.receive.add(.attributionsDropped, droppedCount) }
        for index in 0..<Self.resultCount where results[index] != 0 {
            guard let result = PacketResult(rawValue: UInt8(truncatingIfNeeded: index)) else {
                continue
            }
            counters.packetsOfReceive.add(result, results[index])
            results[index] = 0
        }
        datagramCount = 0
        byteCount = 0
        eventCount = 0
        droppedCount = 0
    }
}
