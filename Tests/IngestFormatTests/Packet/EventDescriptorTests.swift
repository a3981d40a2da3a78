import CIngestLinux
import Testing

@testable import IngestFormat

struct EventDescriptorTests {
    /// The groups of fields that are read as arrays, in C too.
    @Test func `A descriptor's hashes, offsets and counts lie where its layout says`() {
        typealias Layout = MemoryLayout<EventDescriptor>
        #expect(Layout.stride == 112)
        #expect(Layout.alignment == 8)
        let hashes: [PartialKeyPath<EventDescriptor>] = [
            \.pairHash, \.businessHash, \.platformHash, \.campaignHash, \.sourceHash, \.eventHash,
        ]
        for (index, path) in hashes.enumerated() {
            #expect(Layout.offset(of: path) == EventDescriptor.Offset.hashes + 8 * index)
        }
        #expect(Layout.offset(of: \.pairTag) == EventDescriptor.Offset.pairTag)
        let offsets: [PartialKeyPath<EventDescriptor>] = [
            \.rewardOffset, \.businessOffset, \.platformOffset, \.campaignOffset, \.sourceOffset,
            \.sessionOffset, \.eventIDOffset,
        ]
        for (index, path) in offsets.enumerated() {
            #expect(Layout.offset(of: path) == EventDescriptor.Offset.offsets + 2 * index)
        }
        let byteCounts: [PartialKeyPath<EventDescriptor>] = [
            \.rewardByteCount, \.businessByteCount, \.platformByteCount, \.campaignByteCount,
            \.sourceByteCount, \.sessionByteCount, \.eventIDByteCount,
        ]
        for (index, path) in byteCounts.enumerated() {
            #expect(Layout.offset(of: path) == EventDescriptor.Offset.byteCounts + index)
        }
        #expect(byteCounts[Int(INGEST_EVENT_REWARD)] == \.rewardByteCount)
        #expect(byteCounts[Int(INGEST_EVENT_BUSINESS)] == \.businessByteCount)
        #expect(byteCounts[Int(INGEST_EVENT_PLATFORM)] == \.platformByteCount)
        #expect(byteCounts[Int(INGEST_EVENT_SOURCE)] == \.sourceByteCount)
        #expect(byteCounts[Int(INGEST_EVENT_SESSION)] == \.sessionByteCount)
        #expect(byteCounts[Int(INGEST_EVENT_ID)] == \.eventIDByteCount)
        #expect(hashes[Int(INGEST_EVENT_ID_HASH)] == \.eventHash)
        #expect(hashes[Int(INGEST_EVENT_PAIR_HASH)] == \.pairHash)
    }
}
