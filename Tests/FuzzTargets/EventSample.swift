import IngestFormat

/// A decoded event by value, checked against the rules that every decoded event obeys.
struct EventSample: Equatable {
    private var numbers: EventDescriptor
    private var texts: [[UInt8]]

    static func == (a: Self, b: Self) -> Bool {
        a.texts == b.texts
            && withUnsafeBytes(of: a.numbers) { a in
                withUnsafeBytes(of: b.numbers) { b in a.elementsEqual(b) }
            }
    }

    /// Reads the event's places out of `packet` and takes them off the descriptor, so that what is left can
    /// be compared.
    private init(_ descriptor: EventDescriptor, _ packet: UnsafeRawBufferPointer, _ hash: KeyedHash)
    {
        func text(_ offset: UInt16, _ byteCount: UInt8, max: Int) -> [UInt8] {
            fuzzExpect(byteCount <= max, "\(byteCount) bytes of \(max)")
            fuzzExpect(Int(offset) + Int(byteCount) <= packet.count, "outside of the packet")
            return byteCount == 0 ? [] : Array(packet[Int(offset)..<Int(offset) + Int(byteCount)])
        }
        let e = descriptor
        texts = [
            text(e.rewardOffset, e.rewardByteCount, max: Limits.nameByteCountMax),
            text(e.businessOffset, e.businessByteCount, max: Limits.nameByteCountMax),
            text(e.platformOffset, e.platformByteCount, max: Limits.attributionByteCountMax),
            text(e.campaignOffset, e.campaignByteCount, max: Limits.attributionByteCountMax),
            text(e.sourceOffset, e.sourceByteCount, max: Limits.attributionByteCountMax),
            text(e.sessionOffset, e.sessionByteCount, max: Limits.sessionIDByteCountMax),
            text(e.eventIDOffset, e.eventIDByteCount, max: Limits.eventIDByteCountMax),
        ]
        numbers = e
        numbers.rewardOffset = 0
        numbers.businessOffset = 0
        numbers.platformOffset = 0
        numbers.campaignOffset = 0
        numbers.sourceOffset = 0
        numbers.sessionOffset = 0
        numbers.eventIDOffset = 0
        check(hash)
    }

    private func check(_ hash: KeyedHash) {
        fuzzExpect(EventType(rawValue: numbers.type) != nil, "type")
        fuzzExpect(Consent(rawValue: numbers.consent) != nil, "consent")
        fuzzExpect(AdFormat(rawValue: numbers.format) != nil, "format")
        fuzzExpect(numbers.flags < 8, "flags")
        fuzzExpect(!texts[0].isEmpty && !texts[1].isEmpty, "a name is missing")
        for text in texts[..<6] {
            fuzzExpect(String(validating: text, as: UTF8.self) != nil, "not UTF-8")
        }
        for text in texts[2..<5] { fuzzExpect(!text.contains(UInt8(ascii: "@")), "an address") }
        let time = 0...Limits.timestampMicrosecondsMax
        fuzzExpect(time.contains(numbers.timestampMicroseconds), "time")
        fuzzExpect((0...Limits.moneyMicrosMax).contains(numbers.revenueMicros), "revenue")
        fuzzExpect((0...Limits.moneyMicrosMax).contains(numbers.spendMicros), "spend")
        fuzzExpect(
            numbers.visiblePartsPerMillion <= Limits.visiblePartsPerMillionMax, "visible share")
        let hashes = [
            numbers.rewardHash, numbers.businessHash, numbers.platformHash, numbers.campaignHash,
            numbers.sourceHash,
        ]
        for (text, value) in zip(texts, hashes) {
            fuzzExpect(value == (text.isEmpty ? 0 : hash.name(text)), "hash")
        }
        let hasEventID = numbers.flags & EventDescriptor.Flags.hasEventID != 0
        fuzzExpect(hasEventID == !texts[6].isEmpty, "event id")
        let eventHash = texts[6].withUnsafeBytes { id in
            id.baseAddress.map { hash.event(businessHash: numbers.businessHash, id: $0, id.count) }
        }
        fuzzExpect(numbers.eventHash == (hasEventID ? eventHash : 0), "hash of the event id")
    }

    /// A descriptor and the bytes that it points into.
    var descriptor: (EventDescriptor, [UInt8]) {
        var e = numbers
        var source: [UInt8] = []
        func place(_ text: [UInt8]) -> UInt16 {
            defer { source += text }
            return UInt16(source.count)
        }
        e.rewardOffset = place(texts[0])
        e.businessOffset = place(texts[1])
        e.platformOffset = place(texts[2])
        e.campaignOffset = place(texts[3])
        e.sourceOffset = place(texts[4])
        e.sessionOffset = place(texts[5])
        e.eventIDOffset = place(texts[6])
        return (e, source)
    }

    // MARK: Decoders, with just the room that they ask for

    static func decodeProtobuf(_ payload: UnsafeRawBufferPointer, _ hash: KeyedHash) -> [Self]? {
        withRoom(payload.count) { room in
            // An empty buffer has no address of its own.
            let base = payload.baseAddress ?? UnsafeRawPointer(room)
            let outcome = EventDecoder(hash: hash).decode(
                packet: base, payloadOffset: 0, payloadByteCount: payload.count, into: room)
            return samples(outcome, room, payload, hash)
        }
    }

    static func decodeJSON(_ datagram: UnsafeRawBufferPointer, _ hash: KeyedHash) -> [Self]? {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: datagram.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyMemory(from: datagram)
        return withRoom(datagram.count) { room in
            let base = copy.baseAddress ?? UnsafeMutableRawPointer(room)
            let outcome = JSONEventDecoder(hash: hash).decode(
                packet: base, byteCount: copy.count, into: room)
            return samples(outcome, room, UnsafeRawBufferPointer(copy), hash)
        }
    }

    private static func withRoom<Result>(
        _ byteCount: Int, _ body: (UnsafeMutablePointer<EventDescriptor>) -> Result
    ) -> Result {
        let room = UnsafeMutablePointer<EventDescriptor>.allocate(capacity: max(1, byteCount / 2))
        defer { room.deallocate() }
        return body(room)
    }

    private static func samples(
        _ outcome: DecodeOutcome, _ room: UnsafeMutablePointer<EventDescriptor>,
        _ packet: UnsafeRawBufferPointer, _ hash: KeyedHash
    ) -> [Self]? {
        guard case .events(let count, let malformed) = outcome else { return nil }
        fuzzExpect(malformed >= 0 && count + malformed <= packet.count, "more events than bytes")
        return (0..<count).map { Self(room[$0], packet, hash) }
    }

    // MARK: Seeds

    /// A line with everything, one with metadata in a string, and three lines in one datagram.
    static let lines: [[UInt8]] = [
        Array(
            #"""
            {"eventType":"redemption","rewardId":"r-1","businessId":"b-ü","timestamp":1795168800123,\#
            "eventId":"424dc7f0-7a1c-5502-bfd1-562d5e27f831","sessionId":"s\u00e9\ud83d\ude00",\#
            "consent":"optIn","metadata":{"viewability":"0.75","duration":1.5e0,"format":"video",\#
            "platform":"iOS","revenue":"12.50","spend":0.000001,"campaign":"c","source":7,"x":[null,{}]}}
            """#.utf8),
        Array(
            #"""
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2026-11-20T10:00:00.5+01:00",\#
            "metadata":"{\"viewability\":1,\"duration\":\"2\",\"eventId\":\"e\",\"consent\":\"notSet\"}"}
            """#.utf8),
        Array(
            #"""
            {"eventType":"impression","rewardId":"r","businessId":"b","timestamp":0}
            {}
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2024-02-29T23:59:60Z"}
            """#.utf8),
    ]

    /// The events of the lines as a batch, with unknown fields of every wire type behind them.
    static let payload: [UInt8] = {
        let hash = KeyedHash(key: [UInt8](0..<32))!
        var encoder = EventBatchEncoder(packetByteCountMax: 1472)
        for line in lines {
            let events = line.withUnsafeBytes { decodeJSON($0, hash) } ?? []
            for event in events {
                let (descriptor, source) = event.descriptor
                _ = source.withUnsafeBytes { encoder.append(descriptor, from: $0) }
            }
        }
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1),
            sequence: PacketSequence(rawValue: 0))
        let unknown: [UInt8] = [
            0xA0, 0x01, 0x96, 0x01, 0xA1, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0xA2, 0x01, 2, 9, 9,
            0xA3, 0x01, 0x08, 0x01, 0xA4, 0x01, 0xA5, 0x01, 1, 2, 3, 4, 0x7A, 0x02, 0, 0,
        ]
        let event: [UInt8] = [0x0A, UInt8(unknown.count)] + unknown
        return Array(encoder.seal(header)[PacketHeader.byteCount...]) + event + unknown
    }()
}
