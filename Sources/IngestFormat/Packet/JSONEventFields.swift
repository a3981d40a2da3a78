// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// The fields of one JSON event, first as tokens (so that the last of a repeated key counts), then as
/// an `EventDescriptor`.
///
/// **Rules** `eventType`, `rewardId`, `businessId` (strings) and `timestamp` (string of `TimestampText`,
/// or a number of milliseconds) are required. `eventId`, `sessionId` (strings) and `consent` may stand
/// beside them or in `metadata`; the one beside them wins. `metadata` is an object or a string that
/// holds one; a string that holds nothing or `null` is as if absent. In it a value may be a string or a
/// number, and an empty string is as if absent: `viewability` 0 … 1, cut to ppm; `duration` in seconds,
/// cut to ms and to `UInt32.max` of them; `revenue` and `spend` with at most 6 decimals; `format`;
/// `invalidTraffic`, `true` or `false`, also in a string; `platform`, `campaign`, `source`. Each of
/// these may stand beside `metadata` too, by the same rules; one that does, and is neither empty
/// nor `null`, wins. The impression is measured if viewability and duration are both there. A value
/// of a kind that its field cannot be makes the event malformed, but for the last three: they are
/// dropped.
struct JSONEventFields {
    enum Field: Int, CaseIterable {
        case type, reward, business, timestamp, eventID, session, consent, metadata
        case viewability, duration, format, platform, revenue, spend, campaign, source
        case invalidTraffic, metadataEventID, metadataSession, metadataConsent
    }

    private static let fieldCount = 20
    private static let firstOfMetadata = Field.viewability.rawValue
    private var tokens = InlineArray<20, JSONToken>(repeating: JSONToken())
    /// Fields of metadata that stand beside it, a bit each.
    private var besideMetadata: UInt32 = 0

    subscript(_ field: Field) -> JSONToken {
        get { tokens[field.rawValue] }
        set { tokens[field.rawValue] = newValue }
    }

    /// Reads the object that is all of `line`; `false` if that is not JSON or not an object.
    mutating func read(_ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace) -> Bool {
        // SAFETY: the caller vouches for the line.
        var cursor = unsafe JSONCursor(base, line)
        guard cursor.accept(UInt8(ascii: "{")) else { return false }
        if cursor.accept(UInt8(ascii: "}")) { return cursor.isAtEnd() }
        repeat {
            guard let key = cursor.key() else { return false }
            let field = unsafe Self.field(base, key)
            if field == .metadata {
                guard unsafe readMetadata(base, &cursor) else { return false }
            } else {
                guard let token = cursor.value(depth: 1) else { return false }
                if let field {
                    self[field] = token
                } else if let field = unsafe Self.metadataField(base, key),
                    token.kind != .absent, !token.isEmpty
                {
                    self[field] = token
                    besideMetadata |= 1 << UInt32(field.rawValue)
                }
            }
        } while cursor.accept(UInt8(ascii: ","))
        return cursor.accept(UInt8(ascii: "}")) && cursor.isAtEnd()
    }

    private func isBesideMetadata(_ field: Int) -> Bool {
        besideMetadata >> UInt32(field) & 1 != 0
    }

    private mutating func readMetadata(
        _ base: UnsafeMutablePointer<UInt8>, _ cursor: inout JSONCursor
    ) -> Bool {
        for i in Self.firstOfMetadata..<Self.fieldCount where !isBesideMetadata(i) {
            tokens[i] = JSONToken()
        }
        if cursor.peek() == UInt8(ascii: "{") {
            self[.metadata] = JSONToken(.object)
            return unsafe readMetadataObject(base, &cursor)
        }
        guard let token = cursor.value(depth: 1) else { return false }
        self[.metadata] = token
        if token.kind == .string {
            // SAFETY: the string's place lies inside the line.
            var inner = unsafe JSONCursor(base, token.place)
            if Self.isNothing(inner) {
                self[.metadata] = JSONToken()
                return true
            }
            let isObject = unsafe readMetadataObject(base, &inner) && inner.isAtEnd()
            self[.metadata] = JSONToken(isObject ? .object : .other)
        }
        return true
    }

    /// Whether a text holds nothing, or `null`: what a client writes that encodes no metadata.
    private static func isNothing(_ text: JSONCursor) -> Bool {
        var cursor = text
        if cursor.isAtEnd() { return true }
        // Nothing else is read here: it would be unescaped, and not be what it was.
        guard cursor.peek() == UInt8(ascii: "n") else { return false }
        return cursor.value(depth: 1) != nil && cursor.isAtEnd()
    }

    private mutating func readMetadataObject(
        _ base: UnsafeMutablePointer<UInt8>, _ cursor: inout JSONCursor
    ) -> Bool {
        guard cursor.accept(UInt8(ascii: "{")) else { return false }
        if cursor.accept(UInt8(ascii: "}")) { return true }
        repeat {
            guard let key = cursor.key(), let token = cursor.value(depth: 2) else { return false }
            if let field = unsafe Self.metadataField(base, key), !isBesideMetadata(field.rawValue) {
                self[field] = token.isEmpty ? JSONToken() : token
            }
        } while cursor.accept(UInt8(ascii: ","))
        return cursor.accept(UInt8(ascii: "}"))
    }

    private static func field(_ base: UnsafeMutablePointer<UInt8>, _ key: JSONPlace) -> Field? {
        func isKey(_ name: StaticString) -> Bool { unsafe equals(base, key, name) }
        return switch key.byteCount {
        case 7: isKey("eventId") ? .eventID : isKey("consent") ? .consent : nil
        case 8: isKey("rewardId") ? .reward : isKey("metadata") ? .metadata : nil
        case 9:
            isKey("eventType")
                ? .type : isKey("timestamp") ? .timestamp : isKey("sessionId") ? .session : nil
        case 10: isKey("businessId") ? .business : nil
        default: nil
        }
    }

    private static func metadataField(
        _ base: UnsafeMutablePointer<UInt8>, _ key: JSONPlace
    ) -> Field? {
        func isKey(_ name: StaticString) -> Bool { unsafe equals(base, key, name) }
        return switch key.byteCount {
        case 5: isKey("spend") ? .spend : nil
        case 6: isKey("format") ? .format : isKey("source") ? .source : nil
        case 7:
            isKey("eventId")
                ? .metadataEventID
                : isKey("revenue") ? .revenue : isKey("consent") ? .metadataConsent : nil
        case 8:
            isKey("duration")
                ? .duration : isKey("platform") ? .platform : isKey("campaign") ? .campaign : nil
        case 9: isKey("sessionId") ? .metadataSession : nil
        case 11: isKey("viewability") ? .viewability : nil
        case 14: isKey("invalidTraffic") ? .invalidTraffic : nil
        default: nil
        }
    }

    static func equals(
        _ base: UnsafeMutablePointer<UInt8>, _ place: JSONPlace, _ text: StaticString
    ) -> Bool {
        guard place.byteCount == text.utf8CodeUnitCount else { return false }
        for i in 0..<place.byteCount {
            // SAFETY: i is inside both texts.
            if unsafe base[place.offset + i] != text.utf8Start[i] { return false }
        }
        return true
    }
}

// MARK: From tokens to the descriptor

extension JSONEventFields {
    /// Fills `event`; `false` if a field breaks its rule. Byte counts, ranges and hashes are left to
    /// `EventCompletion`.
    func fill(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        let isMetadata = self[.metadata].kind == .object || self[.metadata].kind == .absent
        guard isMetadata, let type = unsafe type(base), let timestamp = unsafe timestamp(base),
            self[.reward].kind == .string, self[.business].kind == .string,
            let consent = unsafe consent(base)
        else { return false }
        unsafe event.pointee.type = type.rawValue
        unsafe event.pointee.timestampMicroseconds = timestamp
        unsafe event.pointee.consent = consent.rawValue
        unsafe Self.place(
            self[.reward], &event.pointee.rewardOffset, &event.pointee.rewardByteCount)
        unsafe Self.place(
            self[.business], &event.pointee.businessOffset, &event.pointee.businessByteCount)
        unsafe fillAttribution(event)
        return unsafe fillIDs(event, base) && fillViewability(event, base)
            && fillMoney(event, base) && fillMark(event, base)
    }

    private static func place(
        _ token: JSONToken, _ offset: inout UInt16, _ byteCount: inout UInt8
    ) {
        offset = UInt16(truncatingIfNeeded: token.place.offset)
        // 255 is over every limit, as any greater count is.
        byteCount = UInt8(truncatingIfNeeded: min(token.place.byteCount, 255))
    }

    private func type(_ base: UnsafeMutablePointer<UInt8>) -> EventType? {
        unsafe Self.choice(
            base, self[.type], absent: nil, ("impression", .impression), ("click", .click),
            ("redemption", .redemption))
    }

    /// Which of the words a string is; `absent` if there is none, `nil` if it is something else.
    @inline(__always)
    private static func choice<Code>(
        _ base: UnsafeMutablePointer<UInt8>, _ token: JSONToken, absent: Code?,
        _ first: (StaticString, Code), _ second: (StaticString, Code), _ third: (StaticString, Code)
    ) -> Code? {
        if token.kind == .absent { return absent }
        guard token.kind == .string else { return nil }
        if unsafe equals(base, token.place, first.0) { return first.1 }
        if unsafe equals(base, token.place, second.0) { return second.1 }
        return unsafe equals(base, token.place, third.0) ? third.1 : nil
    }

    private func timestamp(_ base: UnsafeMutablePointer<UInt8>) -> Int64? {
        let place = self[.timestamp].place
        switch self[.timestamp].kind {
        case .string:
            // SAFETY: a token's place lies inside the packet.
            return unsafe TimestampText.microseconds(base + place.offset, place.byteCount)
        case .number:
            // A number that is no decimal is negative: before 1970, where `EventCompletion` begins.
            return unsafe Self.decimal(base, self[.timestamp], scale: 3).map {
                Int64(clamping: $0.value)
            } ?? 0
        default: return nil
        }
    }

    private func consent(_ base: UnsafeMutablePointer<UInt8>) -> Consent? {
        let token = self[.consent].kind == .absent ? self[.metadataConsent] : self[.consent]
        return unsafe Self.choice(
            base, token, absent: .notSet, ("optIn", .optIn), ("optOut", .optOut),
            ("notSet", .notSet))
    }

    private func fillIDs(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        guard let id = text(.eventID, or: .metadataEventID),
            let session = text(.session, or: .metadataSession)
        else { return false }
        unsafe Self.place(session, &event.pointee.sessionOffset, &event.pointee.sessionByteCount)
        unsafe Self.place(id, &event.pointee.eventIDOffset, &event.pointee.eventIDByteCount)
        if id.place.byteCount == UUIDText.byteCount {
            // SAFETY: the id's 36 bytes lie inside the packet; its 16 take the place of the first of them.
            let text = unsafe base + id.place.offset
            guard let uuid = unsafe UUIDText.parse(UnsafeRawPointer(text)) else { return true }
            for i in 0..<16 { unsafe text[i] = uuid[i] }
            unsafe event.pointee.eventIDByteCount = 16
        }
        return true
    }

    /// An id: a string, or in metadata also a number, whose digits it then is.
    private func text(_ field: Field, or metadataField: Field) -> JSONToken? {
        switch self[field].kind {
        case .string: self[field]
        case .absent:
            switch self[metadataField].kind {
            case .string, .number, .absent: self[metadataField]
            default: nil
            }
        default: nil
        }
    }

    private func fillViewability(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        guard let format = unsafe format(base) else { return false }
        var visible: UInt64 = 0
        var duration: UInt64 = 0
        if self[.viewability].kind != .absent {
            guard let share = unsafe Self.decimal(base, self[.viewability], scale: 6) else {
                return false
            }
            visible = share.value
            // Just above 1 is cut to 1, but it is above.
            let max = UInt64(Limits.visiblePartsPerMillionMax)
            guard visible < max || (visible == max && share.isExact) else { return false }
        }
        if self[.duration].kind != .absent {
            guard let time = unsafe Self.decimal(base, self[.duration], scale: 3) else {
                return false
            }
            duration = time.value
        }
        if self[.viewability].kind == .absent || self[.duration].kind == .absent { return true }
        unsafe event.pointee.flags |= EventDescriptor.Flags.isMeasured
        unsafe event.pointee.visiblePartsPerMillion = UInt32(truncatingIfNeeded: visible)
        unsafe event.pointee.durationMilliseconds = UInt32(clamping: duration)
        unsafe event.pointee.format = format.rawValue
        return true
    }

    private func format(_ base: UnsafeMutablePointer<UInt8>) -> AdFormat? {
        unsafe Self.choice(
            base, self[.format], absent: .display, ("display", .display),
            ("largeDisplay", .largeDisplay), ("video", .video))
    }

    private func fillMoney(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        guard let revenue = unsafe Self.micros(base, self[.revenue]),
            let spend = unsafe Self.micros(base, self[.spend])
        else { return false }
        unsafe event.pointee.revenueMicros = revenue
        unsafe event.pointee.spendMicros = spend
        return true
    }

    /// Micros of a currency unit; `nil` where a seventh decimal is not 0.
    private static func micros(_ base: UnsafeMutablePointer<UInt8>, _ token: JSONToken) -> Int64? {
        if token.kind == .absent { return 0 }
        guard let amount = unsafe decimal(base, token, scale: 6), amount.isExact else { return nil }
        return Int64(exactly: amount.value)
    }

    /// The sender's mark of invalid traffic.
    private func fillMark(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ base: UnsafeMutablePointer<UInt8>
    ) -> Bool {
        let token = self[.invalidTraffic]
        func isText(_ text: StaticString) -> Bool {
            unsafe token.kind == .string && Self.equals(base, token.place, text)
        }
        if token.kind == .absent || token.kind == .false || isText("false") { return true }
        guard token.kind == .true || isText("true") else { return false }
        unsafe event.pointee.flags |= EventDescriptor.Flags.isInvalidTraffic
        return true
    }

    private func fillAttribution(_ event: UnsafeMutablePointer<EventDescriptor>) {
        func fill(_ field: Field, _ offset: inout UInt16, _ byteCount: inout UInt8) {
            guard self[field].kind == .string || self[field].kind == .number else { return }
            Self.place(self[field], &offset, &byteCount)
        }
        unsafe fill(.platform, &event.pointee.platformOffset, &event.pointee.platformByteCount)
        unsafe fill(.campaign, &event.pointee.campaignOffset, &event.pointee.campaignByteCount)
        unsafe fill(.source, &event.pointee.sourceOffset, &event.pointee.sourceByteCount)
    }

    /// A number, or a string that is one by JSON's grammar.
    private static func decimal(
        _ base: UnsafeMutablePointer<UInt8>, _ token: JSONToken, scale: Int
    ) -> DecimalText? {
        let place = token.place
        if token.kind == .string {
            // SAFETY: a token's place lies inside the packet.
            var cursor = unsafe JSONCursor(base, place)
            guard let number = cursor.number(), number.byteCount == place.byteCount else {
                return nil
            }
        } else if token.kind != .number {
            return nil
        }
        // SAFETY: as above; a number has at least one byte.
        return unsafe DecimalText(base + place.offset, place.byteCount, scale: scale)
    }
}
