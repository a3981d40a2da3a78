import Foundation

/// The keys of a JSON object in their order, repeats included, which a decoder into a dictionary drops
/// silently.
struct TopLevelKeys {
    private(set) var keys: [String] = []

    /// - Parameter bytes: an object of valid JSON in UTF-8.
    init(_ bytes: Data) {
        let bytes = [UInt8](bytes)
        var depth = 0
        var at = 0
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "\""):
                let end = Self.endOfString(bytes, from: at)
                if depth == 1, Self.isKey(bytes, endingAt: end) { append(bytes[at..<end]) }
                at = end - 1
            default: break
            }
            at += 1
        }
    }

    /// The first key that comes a second time.
    var repeated: String? {
        var seen: Set<String> = []
        return keys.first { !seen.insert($0).inserted }
    }

    /// As the decoder reads it, its escapes undone.
    private mutating func append(_ literal: ArraySlice<UInt8>) {
        if let key = try? JSONDecoder().decode(String.self, from: Data(literal)) {
            keys.append(key)
        }
    }

    /// The place after the closing quote.
    private static func endOfString(_ bytes: [UInt8], from start: Int) -> Int {
        var at = start + 1
        while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
            at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(bytes.count, at + 1)
    }

    /// Whether a colon follows, and not a comma or the end.
    private static func isKey(_ bytes: [UInt8], endingAt end: Int) -> Bool {
        bytes[end...].first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: ":")
    }
}
