import IngestFormat

/// An event as its decoder gave it, by value: what tests and fuzzers compare. Made of a descriptor only if that
/// obeys every rule of decoded events; a decoder that breaks one ends the process.
package struct DecodedEvent: Equatable, CustomStringConvertible {
    package struct Measured: Equatable {
        package var visible: UInt32
        package var duration: UInt32
        package var format: UInt8

        package init(visible: UInt32, duration: UInt32, format: UInt8) {
            (self.visible, self.duration, self.format) = (visible, duration, format)
        }
    }

    package var type: UInt8 = 1
    package var reward: [UInt8] = []
    package var business: [UInt8] = []
    package var timestamp: Int64 = 0
    package var eventID: [UInt8] = []
    package var session: [UInt8] = []
    package var consent: UInt8 = 0
    package var measured: Measured?
    package var platform: [UInt8] = []
    package var revenue: Int64 = 0
    package var spend: Int64 = 0
    package var campaign: [UInt8] = []
    package var source: [UInt8] = []
    package var isInvalidTraffic = false

    package init() {}

    /// Reads the descriptor's places out of `packet`, all of which have to lie inside of `bounds`.
    init(_ found: EventDescriptor, in packet: UnsafeRawBufferPointer, bounds: Range<Int>) {
        func bytes(_ offset: UInt16, _ byteCount: UInt8, max: Int) -> [UInt8] {
            if byteCount == 0 { return [] }
            let (first, end) = (Int(offset), Int(offset) + Int(byteCount))
            expect(byteCount <= max, "\(byteCount) bytes of \(max)")
            expect(bounds.lowerBound <= first && end <= bounds.upperBound, "outside of the packet")
            return Array(packet[first..<end])
        }
        let (name, attribution) = (Limits.nameByteCountMax, Limits.attributionByteCountMax)
        type = found.type
        reward = bytes(found.rewardOffset, found.rewardByteCount, max: name)
        business = bytes(found.businessOffset, found.businessByteCount, max: name)
        timestamp = found.timestampMicroseconds
        eventID = bytes(
            found.eventIDOffset, found.eventIDByteCount, max: Limits.eventIDByteCountMax)
        session = bytes(
            found.sessionOffset, found.sessionByteCount, max: Limits.sessionIDByteCountMax)
        consent = found.consent
        let measured = Measured(
            visible: found.visiblePartsPerMillion, duration: found.durationMilliseconds,
            format: found.format)
        let isMeasured = found.flags & EventDescriptor.Flags.isMeasured != 0
        expect(
            isMeasured || measured == Measured(visible: 0, duration: 0, format: 0), "unmeasured")
        self.measured = isMeasured ? measured : nil
        platform = bytes(found.platformOffset, found.platformByteCount, max: attribution)
        revenue = found.revenueMicros
        spend = found.spendMicros
        campaign = bytes(found.campaignOffset, found.campaignByteCount, max: attribution)
        source = bytes(found.sourceOffset, found.sourceByteCount, max: attribution)
        isInvalidTraffic = found.flags & EventDescriptor.Flags.isInvalidTraffic != 0
        expect(found.flags < 8, "flags")
        checkValues()
        let (hashed, _) = descriptor
        expect(found.flags == hashed.flags, "the flag of an event id")
        expect(
            found.pair == hashed.pair && found.businessHash == hashed.businessHash
                && found.platformHash == hashed.platformHash
                && found.campaignHash == hashed.campaignHash
                && found.sourceHash == hashed.sourceHash && found.eventHash == hashed.eventHash,
            "a hash")
    }

    private func checkValues() {
        expect(EventType(rawValue: type) != nil, "type")
        expect(Consent(rawValue: consent) != nil, "consent")
        expect(AdFormat(rawValue: measured?.format ?? 0) != nil, "format")
        expect(!reward.isEmpty && !business.isEmpty, "a name is missing")
        for text in [reward, business, platform, campaign, source, session] {
            expect(String(validating: text, as: UTF8.self) != nil, "not UTF-8")
        }
        for text in [platform, campaign, source] {
            expect(!text.contains(UInt8(ascii: "@")), "an address")
        }
        expect((0...Limits.timestampMicrosecondsMax).contains(timestamp), "time")
        for money in [revenue, spend] {
            expect((0...Limits.moneyMicrosMax).contains(money), "money")
        }
        expect(measured?.visible ?? 0 <= Limits.visiblePartsPerMillionMax, "visible share")
    }

    /// The event as a decoder has to give it, and the bytes that it points into.
    package var descriptor: (EventDescriptor, [UInt8]) {
        var (made, bytes) = (EventDescriptor(), [UInt8]())
        func put(_ text: [UInt8]) -> (UInt16, UInt8, UInt64) {
            defer { bytes += text }
            let hash = text.isEmpty ? 0 : DecoderHarness.hash.name(text)
            return (UInt16(bytes.count), UInt8(text.count), hash)
        }
        (made.rewardOffset, made.rewardByteCount, _) = put(reward)
        (made.businessOffset, made.businessByteCount, made.businessHash) = put(business)
        made.pair = DecoderHarness.hash.pair(reward: reward, business: business)
        (made.platformOffset, made.platformByteCount, made.platformHash) = put(platform)
        (made.campaignOffset, made.campaignByteCount, made.campaignHash) = put(campaign)
        (made.sourceOffset, made.sourceByteCount, made.sourceHash) = put(source)
        (made.sessionOffset, made.sessionByteCount, _) = put(session)
        (made.eventIDOffset, made.eventIDByteCount, _) = put(eventID)
        made.type = type
        made.timestampMicroseconds = timestamp
        made.consent = consent
        (made.revenueMicros, made.spendMicros) = (revenue, spend)
        if let measured {
            made.flags |= EventDescriptor.Flags.isMeasured
            made.visiblePartsPerMillion = measured.visible
            made.durationMilliseconds = measured.duration
            made.format = measured.format
        }
        if isInvalidTraffic { made.flags |= EventDescriptor.Flags.isInvalidTraffic }
        if !eventID.isEmpty {
            made.flags |= EventDescriptor.Flags.hasEventID
            made.eventHash = eventID.withUnsafeBytes { id in
                DecoderHarness.hash.event(
                    businessHash: made.businessHash, id: id.baseAddress!, id.count)
            }
        }
        return (made, bytes)
    }

    package var description: String {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        return """
            (\(type) \(text(reward)) \(text(business)) \(timestamp) id \(eventID) \
            session \(text(session)) consent \(consent) \(measured.map { "\($0)" } ?? "unmeasured") \
            \(text(platform)) \(revenue) \(spend) \(text(campaign)) \(text(source)) \(isInvalidTraffic))
            """
    }
}

/// Runs the decoders on bytes in a buffer of just their size, into just the room that they ask for, so that a
/// sanitizer sees what goes past either.
package enum DecoderHarness {
    package static let hash = KeyedHash(key: [UInt8](0..<32))!

    /// What a decoder made of a packet: `nil` if all of it is malformed.
    package struct Result: Equatable {
        package var events: [DecodedEvent] = []
        package var malformed = 0

        package init(events: [DecodedEvent] = [], malformed: Int = 0) {
            (self.events, self.malformed) = (events, malformed)
        }
    }

    /// Decodes a protobuf payload that stands behind `headerByteCount` bytes.
    package static func protobuf(_ payload: [UInt8], headerByteCount: Int = 40) -> Result? {
        let packet = [UInt8](repeating: 0xEE, count: headerByteCount) + payload
        _ = isUsual(packet, headerByteCount: headerByteCount)
        return decode(packet, payloadOffset: headerByteCount) { base, room in
            EventDecoder(hash: hash).decode(
                packet: UnsafeRawPointer(base), payloadOffset: headerByteCount,
                payloadByteCount: payload.count, into: room)
        }
    }

    /// Decodes JSON lines that stand behind `headerByteCount` bytes, as in a plain datagram by default. Ends the process if
    /// those of the usual form are not what the decoder of all forms makes of them.
    package static func json(_ lines: [UInt8], headerByteCount: Int = 0) -> Result? {
        let result = anyJSON(lines, headerByteCount: headerByteCount)
        // White space before an event changes nothing, and is not of the usual form.
        var spaced: [UInt8] = []
        for line in lines.split(separator: 0x0A) {
            spaced.append(0x20)
            spaced += line
            spaced.append(0x0A)
        }
        if headerByteCount + spaced.count <= Limits.packetByteCountMax, result != nil {
            expect(
                anyJSON(spaced, headerByteCount: headerByteCount) == result,
                "\(String(decoding: lines, as: UTF8.self))")
        }
        return result
    }

    private static func anyJSON(_ lines: [UInt8], headerByteCount: Int) -> Result? {
        let packet = [UInt8](repeating: 0xEE, count: headerByteCount) + lines
        return decode(packet, payloadOffset: headerByteCount) { base, room in
            JSONEventDecoder(hash: hash).decode(
                packet: base, payloadOffset: headerByteCount, payloadByteCount: lines.count,
                into: room)
        }
    }

    package static func json(_ text: String) -> Result? { json(Array(text.utf8)) }

    private static func decode(
        _ bytes: [UInt8], payloadOffset: Int,
        _ body: (UnsafeMutableRawPointer, UnsafeMutablePointer<EventDescriptor>) -> DecodeOutcome
    ) -> Result? {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyBytes(from: bytes)
        let payloadByteCount = bytes.count - payloadOffset
        let room = UnsafeMutablePointer<EventDescriptor>.allocate(
            capacity: max(1, payloadByteCount / 2))
        defer { room.deallocate() }
        // An empty buffer may have no address of its own.
        let base = copy.baseAddress ?? UnsafeMutableRawPointer(room)
        guard case .events(let count, let malformed, _) = body(base, room) else { return nil }
        expect(malformed >= 0 && count + malformed <= payloadByteCount, "more events than bytes")
        let events = (0..<count).map {
            DecodedEvent(
                room[$0], in: UnsafeRawBufferPointer(copy), bounds: payloadOffset..<bytes.count)
        }
        return Result(events: events, malformed: malformed)
    }
}

/// Ends the process where a decoder's answer cannot be right, in release builds too.
private func expect(_ condition: Bool, _ what: @autoclosure () -> String) {
    if !condition { fatalError("decoded event: \(what())") }
}
