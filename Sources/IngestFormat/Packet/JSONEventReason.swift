// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

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
