import IngestFormat
import Testing

/// An event as its decoder gave it, by value: what tests compare.
struct DecodedEvent: Equatable, CustomStringConvertible {
    struct Measured: Equatable {
        var visible: UInt32
        var duration: UInt32
        var format: UInt8
    }

    var type: UInt8 = 1
    var reward: [UInt8] = []
    var business: [UInt8] = []
    var timestamp: Int64 = 0
    var eventID: [UInt8] = []
    var session: [UInt8] = []
    var consent: UInt8 = 0
    var measured: Measured?
    var platform: [UInt8] = []
    var revenue: Int64 = 0
    var spend: Int64 = 0
    var campaign: [UInt8] = []
    var source: [UInt8] = []
    var isInvalidTraffic = false

    init() {}

    /// Reads the descriptor's places out of `packet`, and records an issue for any that lies outside of
    /// `bounds` or has another hash than its bytes.
    init(_ descriptor: EventDescriptor, in packet: [UInt8], bounds: Range<Int>) {
        func bytes(_ offset: UInt16, _ byteCount: UInt8) -> [UInt8] {
            if byteCount == 0 { return [] }
            let range = Int(offset)..<Int(offset) + Int(byteCount)
            let isInside =
                range.lowerBound >= bounds.lowerBound && range.upperBound <= bounds.upperBound
            #expect(isInside, "\(range) is outside of \(bounds)")
            return isInside ? Array(packet[range]) : []
        }
        type = descriptor.type
        reward = bytes(descriptor.rewardOffset, descriptor.rewardByteCount)
        business = bytes(descriptor.businessOffset, descriptor.businessByteCount)
        timestamp = descriptor.timestampMicroseconds
        eventID = bytes(descriptor.eventIDOffset, descriptor.eventIDByteCount)
        session = bytes(descriptor.sessionOffset, descriptor.sessionByteCount)
        consent = descriptor.consent
        if descriptor.flags & EventDescriptor.Flags.isMeasured != 0 {
            measured = Measured(
                visible: descriptor.visiblePartsPerMillion,
                duration: descriptor.durationMilliseconds, format: descriptor.format)
        }
        platform = bytes(descriptor.platformOffset, descriptor.platformByteCount)
        revenue = descriptor.revenueMicros
        spend = descriptor.spendMicros
        campaign = bytes(descriptor.campaignOffset, descriptor.campaignByteCount)
        source = bytes(descriptor.sourceOffset, descriptor.sourceByteCount)
        isInvalidTraffic = descriptor.flags & EventDescriptor.Flags.isInvalidTraffic != 0
        expectHashes(of: descriptor)
    }

    private func expectHashes(of descriptor: EventDescriptor) {
        let hash = DecoderHarness.hash
        func name(_ bytes: [UInt8]) -> UInt64 { bytes.isEmpty ? 0 : hash.name(bytes) }
        #expect(descriptor.rewardHash == name(reward))
        #expect(descriptor.businessHash == name(business))
        #expect(descriptor.platformHash == name(platform))
        #expect(descriptor.campaignHash == name(campaign))
        #expect(descriptor.sourceHash == name(source))
        let hasEventID = descriptor.flags & EventDescriptor.Flags.hasEventID != 0
        #expect(hasEventID == !eventID.isEmpty)
        let eventHash = eventID.withUnsafeBytes { id in
            id.baseAddress.map {
                hash.event(businessHash: descriptor.businessHash, id: $0, id.count)
            }
        }
        #expect(descriptor.eventHash == (hasEventID ? eventHash : 0))
    }

    var description: String {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        return """
            (\(type) \(text(reward)) \(text(business)) \(timestamp) id \(eventID) \
            session \(text(session)) consent \(consent) \(measured.map { "\($0)" } ?? "unmeasured") \
            \(text(platform)) \(revenue) \(spend) \(text(campaign)) \(text(source)) \(isInvalidTraffic))
            """
    }
}
