import CIngestLinux
import Testing

@testable import IngestFormat

/// What C writes has to lie where Swift reads it.
struct EventDescriptorTests {
    @Test func `A descriptor is 112 bytes`() {
        #expect(MemoryLayout<EventDescriptor>.stride == 112)
        #expect(MemoryLayout<EventDescriptor>.alignment == 8)
    }

    @Test func `An event lies in C as in Swift`() {
        typealias Made = MemoryLayout<ingest_event>
        typealias Read = MemoryLayout<EventDescriptor>
        #expect(Made.stride == Read.stride && Made.alignment == Read.alignment)
        let fields: [(PartialKeyPath<ingest_event>, PartialKeyPath<EventDescriptor>)] = [
            (\.timestampMicroseconds, \.timestampMicroseconds), (\.pairHash, \.pairHash),
            (\.businessHash, \.businessHash), (\.platformHash, \.platformHash),
            (\.campaignHash, \.campaignHash), (\.sourceHash, \.sourceHash),
            (\.eventHash, \.eventHash), (\.revenueMicros, \.revenueMicros),
            (\.spendMicros, \.spendMicros),
            (\.visiblePartsPerMillion, \.visiblePartsPerMillion),
            (\.durationMilliseconds, \.durationMilliseconds),
            (\.rewardOffset, \.rewardOffset), (\.businessOffset, \.businessOffset),
            (\.platformOffset, \.platformOffset), (\.campaignOffset, \.campaignOffset),
            (\.sourceOffset, \.sourceOffset), (\.sessionOffset, \.sessionOffset),
            (\.eventIDOffset, \.eventIDOffset), (\.rewardByteCount, \.rewardByteCount),
            (\.businessByteCount, \.businessByteCount),
            (\.platformByteCount, \.platformByteCount),
            (\.campaignByteCount, \.campaignByteCount), (\.sourceByteCount, \.sourceByteCount),
            (\.sessionByteCount, \.sessionByteCount), (\.eventIDByteCount, \.eventIDByteCount),
            (\.type, \.type), (\.consent, \.consent), (\.format, \.format), (\.flags, \.flags),
            (\.pairTag, \.pairTag),
        ]
        for (made, read) in fields {
            #expect(Made.offset(of: made) == Read.offset(of: read), "\(read)")
        }
    }

    @Test func `A row lies in C as in Swift`() {
        typealias Made = MemoryLayout<ingest_row>
        typealias Read = MemoryLayout<PacketRow>
        #expect(Made.stride == Read.stride && Made.alignment == Read.alignment)
        let fields: [(PartialKeyPath<ingest_row>, PartialKeyPath<PacketRow>)] = [
            (\.timestampMicroseconds, \.timestampMicroseconds), (\.pairHash, \.pairHash),
            (\.eventHash, \.eventHash), (\.platform, \.platform), (\.pairTag, \.pairTag),
            (\.visiblePartsPerMillion, \.visiblePartsPerMillion),
            (\.durationMilliseconds, \.durationMilliseconds),
            (\.rewardOffset, \.rewardOffset), (\.businessOffset, \.businessOffset),
            (\.side, \.side), (\.sessionOffset, \.sessionOffset),
            (\.sessionByteCount, \.sessionByteCount), (\.rewardByteCount, \.rewardByteCount),
            (\.businessByteCount, \.businessByteCount), (\.type, \.type),
            (\.consent, \.consent), (\.format, \.format), (\.flags, \.flags),
        ]
        for (made, read) in fields {
            #expect(Made.offset(of: made) == Read.offset(of: read), "\(read)")
        }
    }

    @Test func `A side record lies in C as in Swift`() {
        typealias Made = MemoryLayout<ingest_side>
        typealias Read = MemoryLayout<PacketSide>
        #expect(Made.stride == Read.stride && Made.alignment == Read.alignment)
        let fields: [(PartialKeyPath<ingest_side>, PartialKeyPath<PacketSide>)] = [
            (\.revenueMicros, \.revenueMicros), (\.spendMicros, \.spendMicros),
            (\.campaign, \.campaign), (\.source, \.source),
        ]
        for (made, read) in fields {
            #expect(Made.offset(of: made) == Read.offset(of: read), "\(read)")
        }
        typealias MadeName = MemoryLayout<ingest_row_name>
        typealias ReadName = MemoryLayout<PacketRow.Name>
        #expect(MadeName.offset(of: \.hash) == ReadName.offset(of: \.hash))
        #expect(MadeName.offset(of: \.offset) == ReadName.offset(of: \.offset))
        #expect(MadeName.offset(of: \.byteCount) == ReadName.offset(of: \.byteCount))
    }

    @Test func `Flags and limits are the same in C`() {
        #expect(UInt8(INGEST_ROW_MEASURED) == EventDescriptor.Flags.isMeasured)
        #expect(UInt8(INGEST_ROW_EVENT_ID) == EventDescriptor.Flags.hasEventID)
        #expect(UInt8(INGEST_ROW_INVALID_TRAFFIC) == EventDescriptor.Flags.isInvalidTraffic)
        #expect(UInt8(INGEST_ROW_WRONG_BUSINESS) == EventDescriptor.Flags.isWrongBusiness)
        #expect(UInt32(INGEST_ROW_VISIBLE_MAX) == Limits.visiblePartsPerMillionMax)
        #expect(Int64(INGEST_ROW_MONEY_MAX) == Limits.moneyMicrosMax)
        #expect(Int64(INGEST_ROW_TIMESTAMP_MAX) == Limits.timestampMicrosecondsMax)
    }
}
