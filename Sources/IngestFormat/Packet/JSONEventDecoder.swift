// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

import CIngestLinux

/// Decodes plain datagrams and the payloads of JSON batches: events, a line each, by a parser of bytes made for this
/// schema.
///
/// A line is one event. A line that is not strictly JSON (RFC 8259: UTF-8 throughout, no lone
/// surrogate, nothing after the object) or breaks a rule of the schema is malformed by itself; the
/// others live. Blank lines are nothing. Of a key that comes twice the last counts, `null` is as if
/// absent, keys that the schema does not know may hold anything. The rules of each field are in
/// `JSONEventFields`.
///
/// Escapes are undone in the packet's own buffer, so that descriptors can point into it.
///
/// A line of the usual form is decoded by `ingest_decode_line`, any other from its first byte by `JSONEventFields`.
///
/// Owned by the receive queue. **Cost** No allocation; see `ingest-bench micro json`.
package struct JSONEventDecoder: ~Copyable, Sendable {
    private let completion: EventCompletion

    /// - Parameter hash: what hashes are taken with; `nil` = they are not asked for.
    package init(hash: KeyedHash?) { completion = EventCompletion(hash: hash) }

    /// Decodes `payloadByteCount` bytes at `payloadOffset` of `packet`, which it may overwrite, into `descriptors`.
    ///
    /// The caller vouches for the bytes and for room for `payloadByteCount / 2` descriptors. Offsets in them count from
    /// `packet`. The answer is `.malformed` only for what ends beyond `Limits.packetByteCountMax`.
    @unsafe package func decode(
        packet: UnsafeMutableRawPointer, payloadOffset: Int, payloadByteCount: Int,
        into descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        guard Limits.holdsPayload(at: payloadOffset, byteCount: payloadByteCount) else {
            return .malformed
        }
        let base = unsafe packet.assumingMemoryBound(to: UInt8.self)
        let end = payloadOffset + payloadByteCount
        return unsafe decodeLines(base, payloadOffset..<end, descriptors)
    }

    /// As above, into `rows`; those of another business than `businessHash`, if it is given, are marked.
    @unsafe package func decode(
        packet: UnsafeMutableRawPointer, payloadOffset: Int, payloadByteCount: Int,
        onlyOf businessHash: UInt64?, into rows: inout PacketRows,
        by scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        // SAFETY: the scratch has room for any packet.
        let outcome = unsafe decode(
            packet: packet, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            into: scratch.descriptors)
        rows.set(to: scratch, outcome, onlyOf: businessHash)
        return outcome
    }

    /// As the first, for a buffer of nothing but lines, into the scratch.
    package func decode(
        _ lines: UnsafeMutableRawBufferPointer, into scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        guard let base = lines.baseAddress else { return .events(count: 0, malformed: 0) }
        // SAFETY: the buffer is the caller's and holds `count` bytes.
        return unsafe decode(
            packet: base, payloadOffset: 0, payloadByteCount: lines.count,
            into: scratch.descriptors)
    }

    private func decodeLines(
        _ base: UnsafeMutablePointer<UInt8>, _ payload: Range<Int>,
        _ descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        var count = 0
        var malformed = 0
        var start = payload.lowerBound
        while start < payload.upperBound {
            // SAFETY: as below; C events have the layout of descriptors, by a test.
            let next = unsafe UnsafeMutableRawPointer(descriptors + count).withMemoryRebound(
                to: ingest_event.self, capacity: 1
            ) { unsafe ingest_decode_line(base, start, payload.upperBound, $0) }
            if next != 0 {
                start = next
                count &+= 1
                continue
            }
            let line = unsafe Self.line(base, start, payload.upperBound)
            start = line.offset + line.byteCount + 1
            if unsafe Self.isBlank(base, line) { continue }
            // SAFETY: a live event takes far more than two bytes of its line, so there is room.
            if unsafe decodeLine(base, line, descriptors + count) {
                count &+= 1
            } else {
                malformed &+= 1
            }
        }
        let (live, dropped) = unsafe completion.complete(descriptors, count, base)
        return .events(
            count: live, malformed: malformed &+ count &- live, dropped: dropped)
    }

    /// The line that begins at `start`, without its end of line.
    private static func line(
        _ base: UnsafeMutablePointer<UInt8>, _ start: Int, _ end: Int
    ) -> JSONPlace {
        var at = start
        // SAFETY: at < end.
        while at < end, unsafe base[at] != 0x0A { at &+= 1 }
        return JSONPlace(offset: start, byteCount: at - start)
    }

    private static func isBlank(_ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace) -> Bool {
        // SAFETY: the line lies inside the packet.
        var cursor = unsafe JSONCursor(base, line)
        return cursor.isAtEnd()
    }

    private func decodeLine(
        _ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        // SAFETY: the line lies inside the packet, and so does every place that the fields name.
        guard unsafe UTF8Text.isValid(base + line.offset, line.byteCount) else { return false }
        var fields = JSONEventFields()
        guard unsafe fields.read(base, line) else { return false }
        unsafe event.initialize(to: EventDescriptor())
        return unsafe fields.fill(event, base) && EventCompletion.accepts(event)
    }
}

/// Reads one JSON event from one line, with the parser that the daemon uses, so that what passes here passes there.
///
/// **Cost** A copy of the line beside that of the parser; address space for the descriptors of a packet.
package struct JSONLineDecoder: ~Copyable {
    /// Why a line is not one event.
    package enum Refusal: Equatable, Sendable {
        /// Longer than the largest datagram.
        case tooLong(byteCountMax: Int)
        /// The reason names the key that is wrong.
        case malformed(reason: String)
    }

    /// A copy of the last line, in which the decoder has unescaped its texts in place.
    package private(set) var bytes: [UInt8] = []
    private let scratch = EventScratch()
    private let decoder: JSONEventDecoder

    /// - Parameter hash: what the event's hashes are taken with; `nil` = they are not asked for.
    package init(hash: KeyedHash?) {
        decoder = JSONEventDecoder(hash: hash)
        bytes.reserveCapacity(4096)
    }

    /// The event of the last line that `decode` accepted; its offsets point into `bytes`.
    package var event: EventDescriptor { scratch[0] }

    /// `nil` if the line is one valid event, which is then in `event` and `bytes`; else why not.
    package mutating func decode(_ line: Span<UInt8>) -> Refusal? {
        guard line.count <= Limits.packetByteCountMax else {
            return .tooLong(byteCountMax: Limits.packetByteCountMax)
        }
        // SAFETY: the line's bytes are only copied.
        unsafe line.withUnsafeBufferPointer { unsafe bytes.replaceSubrange(0..., with: $0) }
        // SAFETY: the decoder stays within the copy.
        let outcome = unsafe bytes.withUnsafeMutableBytes {
            unsafe decoder.decode($0, into: scratch)
        }
        if case .events(count: 1, malformed: 0, dropped: _) = outcome { return nil }
        // Asked of the line itself: the decoder may have unescaped texts in the copy.
        return .malformed(reason: JSONEventReason.why(line))
    }
}

/// Why a line is not one valid event, for the operator who has to correct the file. The daemon only
/// counts such lines; a sender asks here once the decoder has refused one.
///
/// The rules are not written a second time: the decoder's own are tried again with one key after the other
/// put right, and the key that makes the event valid is to blame.
///
/// **Cost** A copy of the line and about twenty trials: only for lines that are reported.
package enum JSONEventReason {
    private typealias Field = JSONEventFields.Field

    /// What is wrong with a line that the decoder has refused.
    package static func why(_ line: Span<UInt8>) -> String {
        let samples: [(Field, String)] = [
            (.type, "click"), (.reward, "r"), (.business, "b"),
            (.timestamp, "2019-11-24T00:00:00Z"),
        ]
        var bytes = (0..<line.count).map { line[$0] }
        // Places of tokens are 16 bits, and good values are put behind the line.
        guard bytes.count + 64 < 1 << 16 else { return "too long for an event" }
        var good: [(field: Field, token: JSONToken)] = []
        for (field, text) in samples {
            let place = JSONPlace(offset: bytes.count, byteCount: text.utf8.count)
            good.append((field, JSONToken(.string, place)))
            bytes += text.utf8
        }
        // SAFETY: every token lies in the line or in one of the good values, inside the bytes.
        return unsafe bytes.withUnsafeMutableBufferPointer {
            unsafe why($0.baseAddress!, JSONPlace(offset: 0, byteCount: line.count), good)
        }
    }

    @unsafe private static func why(
        _ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace,
        _ good: [(field: Field, token: JSONToken)]
    ) -> String {
        guard unsafe UTF8Text.isValid(base, line.byteCount) else { return "not UTF-8" }
        var cursor = unsafe JSONCursor(base, line)
        if cursor.peek() == 0xEF { return "unexpected bytes before the object" }
        guard cursor.peek() == UInt8(ascii: "{") else { return "not a JSON object" }
        var fields = JSONEventFields()
        guard unsafe fields.read(base, line) else { return "invalid JSON" }
        for (field, _) in good where fields[field].kind == .absent {
            return "\(words(of: field).key) is missing"
        }
        for (field, token) in good where unsafe isValid(fields, with: field, as: token, base) {
            return "\(words(of: field).key) \(words(of: field).rule)"
        }
        for field in optional where unsafe isValid(fields, with: field, as: JSONToken(), base) {
            return "\(words(of: field).key) \(words(of: field).rule)"
        }
        return "several keys have invalid values"
    }

    private static let optional: [Field] = [
        .eventID, .session, .consent, .viewability, .duration, .format, .revenue, .spend,
        .invalidTraffic, .metadataEventID, .metadataSession, .metadataConsent, .metadata,
    ]

    /// Whether the event would be valid if one of its keys had this value.
    @unsafe private static func isValid(
        _ fields: JSONEventFields, with field: Field, as token: JSONToken,
        _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        var fields = fields
        fields[field] = token
        var event = EventDescriptor()
        // SAFETY: the descriptor is this function's own.
        return unsafe withUnsafeMutablePointer(to: &event) {
            unsafe fields.fill($0, base) && EventCompletion.accepts($0)
        }
    }

    private static func words(of field: Field) -> (key: String, rule: String) {
        let name = "must be a string of 1 to \(Limits.nameByteCountMax) bytes"
        let id = "must be a string of at most \(Limits.eventIDByteCountMax) bytes"
        let amount = "must be a non-negative amount with at most 6 decimals"
        let consent = "must be optIn, optOut or notSet"
        return switch field {
        case .type: ("eventType", "must be impression, click or redemption")
        case .reward: ("rewardId", name)
        case .business: ("businessId", name)
        case .timestamp: ("timestamp", "must be RFC 3339 with a zone, or milliseconds since 1970")
        case .eventID: ("eventId", id)
        case .session: ("sessionId", id)
        case .consent: ("consent", consent)
        case .metadata: ("metadata", "must be an object, or a string that holds one")
        case .viewability: ("viewability", "must be a number from 0 to 1")
        case .duration: ("duration", "must be a number of seconds")
        case .format: ("format", "must be display, largeDisplay or video")
        case .platform: ("platform", id)
        case .revenue: ("revenue", amount)
        case .spend: ("spend", amount)
        case .campaign: ("campaign", id)
        case .source: ("source", id)
        case .invalidTraffic: ("invalidTraffic", "must be true or false")
        case .metadataEventID: ("metadata.eventId", id)
        case .metadataSession: ("metadata.sessionId", id)
        case .metadataConsent: ("metadata.consent", consent)
        }
    }
}

/// What seems to be meant by keys and times of events that the decoder takes for something else, or passes over: for who
/// writes the events. Each sentence is given once.
///
/// **Cost** A copy of the line: only for the first lines of an input, and for lines that are refused.
package struct JSONEventAdvice: Sendable {
    /// So many keys that look like none that is read are named.
    static let otherKeyCountMax = 16
    /// Of the name of a key.
    static let keyByteCountMax = 64
    private static let required = ["eventType", "rewardId", "businessId", "timestamp"]
    private static let both = ["eventId", "sessionId", "consent"]
    private static let measures = [
        "viewability", "duration", "format", "platform", "revenue", "spend", "campaign", "source",
        "invalidTraffic",
    ]
    /// Seconds since 1970 of 2001 to 2286, which as milliseconds are of its first months.
    private static let seconds: ClosedRange<Int64> = 1_000_000_000...9_999_999_999

    private struct Sentence {
        let text: String
        /// Of a key that looks like none that is read.
        var isOfOtherKey = false
    }

    private var given: Set<String> = []
    private var otherKeyCount = 0

    package init() {}

    /// Sentences without an end, on one line each, that were not given before; none for a line that is no JSON object.
    package mutating func advice(on line: Span<UInt8>) -> [String] {
        var bytes = (0..<line.count).map { line[$0] }
        guard bytes.count < 1 << 16 else { return [] }
        // SAFETY: every place lies in the copy.
        let found = unsafe bytes.withUnsafeMutableBufferPointer { buffer -> [Sentence] in
            guard let base = buffer.baseAddress,
                unsafe UTF8Text.isValid(base, buffer.count)
            else { return [] }
            var found: [Sentence] = []
            var cursor = unsafe JSONCursor(base, JSONPlace(offset: 0, byteCount: buffer.count))
            return unsafe Self.read(base, &cursor, isMetadata: false, into: &found) ? found : []
        }
        return found.filter { isNew($0) }.map(\.text)
    }

    private mutating func isNew(_ sentence: Sentence) -> Bool {
        if sentence.isOfOtherKey, otherKeyCount == Self.otherKeyCountMax { return false }
        guard given.insert(sentence.text).inserted else { return false }
        if sentence.isOfOtherKey { otherKeyCount += 1 }
        return true
    }

    /// - Returns: whether there is an object.
    @unsafe private static func read(
        _ base: UnsafeMutablePointer<UInt8>, _ cursor: inout JSONCursor, isMetadata: Bool,
        into found: inout [Sentence]
    ) -> Bool {
        guard cursor.accept(UInt8(ascii: "{")) else { return false }
        if cursor.accept(UInt8(ascii: "}")) { return true }
        repeat {
            guard let place = cursor.key() else { return false }
            let key = unsafe text(base, place)
            if key == "metadata", !isMetadata, cursor.peek() == UInt8(ascii: "{") {
                guard unsafe read(base, &cursor, isMetadata: true, into: &found) else {
                    return false
                }
                continue
            }
            guard let value = cursor.value(depth: isMetadata ? 2 : 1) else { return false }
            if key == "metadata", !isMetadata, value.kind == .string {
                var inner = unsafe JSONCursor(base, value.place)
                _ = unsafe read(base, &inner, isMetadata: true, into: &found)
            } else if let advice = advice(onKey: key, isMetadata: isMetadata) {
                found.append(advice)
            } else if key == "timestamp", !isMetadata, value.kind == .number,
                let number = unsafe Int64(text(base, value.place)), seconds.contains(number)
            {
                found.append(
                    Sentence(text: "timestamp is taken for milliseconds of 1970, are they seconds?")
                )
            }
        } while cursor.accept(UInt8(ascii: ","))
        return cursor.accept(UInt8(ascii: "}"))
    }

    private static func advice(onKey key: String, isMetadata: Bool) -> Sentence? {
        let known = both + measures + (isMetadata ? [] : required + ["metadata"])
        if known.contains(key) { return nil }
        if required.contains(key) {
            return Sentence(text: "\(key) is not read in metadata, it belongs beside it")
        }
        let name = OneLine.escaped(key, byteCountMax: keyByteCountMax)
        let plain = plain(key)
        let meant = (required + both + measures + ["metadata"]).first { self.plain($0) == plain }
        if let meant { return Sentence(text: "unknown key \(name), is \(meant) meant?") }
        let path = isMetadata ? "metadata.\(name)" : name
        return Sentence(
            text: "unknown key \(path) is not read, correct its name or leave it out",
            isOfOtherKey: true)
    }

    private static func plain(_ key: String) -> String {
        String(key.lowercased().filter { $0 != "_" && $0 != "-" })
    }

    @unsafe private static func text(
        _ base: UnsafeMutablePointer<UInt8>, _ place: JSONPlace
    ) -> String {
        unsafe String(
            decoding: UnsafeBufferPointer(start: base + place.offset, count: place.byteCount),
            as: UTF8.self)
    }
}
