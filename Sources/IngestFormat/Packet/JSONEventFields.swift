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
/// `platform`, `campaign`, `source`. The impression is measured if viewability and duration are both
/// there. A value of a kind that its field cannot be makes the event malformed, but for the last three:
/// they are dropped.
struct JSONEventFields {
    enum Field: Int, CaseIterable {
        case type, reward, business, timestamp, eventID, session, consent, metadata
        case viewability, duration, format, platform, revenue, spend, campaign, source
        case metadataEventID, metadataSession, metadataConsent
    }

    private static let fieldCount = 19
    private static let firstOfMetadata = Field.viewability.rawValue
    private var tokens = InlineArray<19, JSONToken>(repeating: JSONToken())

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
                if let field { self[field] = token }
            }
        } while cursor.accept(UInt8(ascii: ","))
        return cursor.accept(UInt8(ascii: "}")) && cursor.isAtEnd()
    }

    private mutating func readMetadata(
        _ base: UnsafeMutablePointer<UInt8>, _ cursor: inout JSONCursor
    ) -> Bool {
        for i in Self.firstOfMetadata..<Self.fieldCount { tokens[i] = JSONToken() }
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
            if let field = unsafe Self.metadataField(base, key) {
                let isEmpty = token.kind == .string && token.place.byteCount == 0
                self[field] = isEmpty ? JSONToken() : token
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
