// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// What seems to be meant by keys and times of an event that the decoder takes for something else, or passes over: for who
/// writes the events.
///
/// **Cost** A copy of the line: only for the first lines of an input, and for lines that are refused.
package enum JSONEventAdvice {
    private static let required = ["eventType", "rewardId", "businessId", "timestamp"]
    private static let both = ["eventId", "sessionId", "consent"]
    private static let measures = [
        "viewability", "duration", "format", "platform", "revenue", "spend", "campaign", "source",
        "invalidTraffic",
    ]
    /// Seconds since 1970 of 2001 to 2286, which as milliseconds are of its first months.
    private static let seconds: ClosedRange<Int64> = 1_000_000_000...9_999_999_999

    /// Sentences without an end, of ASCII alone; none for a line that is no JSON object.
    package static func advice(on line: Span<UInt8>) -> [String] {
        var bytes = (0..<line.count).map { line[$0] }
        guard bytes.count < 1 << 16 else { return [] }
        // SAFETY: every place lies in the copy.
        return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress,
                unsafe UTF8Text.isValid(base, buffer.count)
            else { return [] }
            var found: [String] = []
            var cursor = unsafe JSONCursor(base, JSONPlace(offset: 0, byteCount: buffer.count))
            return unsafe read(base, &cursor, isMetadata: false, into: &found) ? found : []
        }
    }

    /// - Returns: whether there is an object.
    @unsafe private static func read(
        _ base: UnsafeMutablePointer<UInt8>, _ cursor: inout JSONCursor, isMetadata: Bool,
        into found: inout [String]
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
                found.append("timestamp is taken for milliseconds of 1970, are they seconds?")
            }
        } while cursor.accept(UInt8(ascii: ","))
        return cursor.accept(UInt8(ascii: "}"))
    }

    private static func advice(onKey key: String, isMetadata: Bool) -> String? {
        let known = both + measures + (isMetadata ? [] : required + ["metadata"])
        if known.contains(key) { return nil }
        if required.contains(key) { return "\(key) is not read in metadata, it belongs beside it" }
        let plain = plain(key)
        let meant = (required + both + measures + ["metadata"]).first { self.plain($0) == plain }
        return meant.map { "unknown key \(key), is \($0) meant?" }
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
