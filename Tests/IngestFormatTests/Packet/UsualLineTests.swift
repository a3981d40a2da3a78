import CIngestLinux
import IngestFormat
import TestSupport
import Testing

/// Lines of the usual form, which are decoded in C. What they are decoded to `DecoderHarness` compares with the decoder of
/// all forms.
struct UsualLineTests {
    private static let line =
        #"{"eventType":"redemption","rewardId":"r-1","businessId":"b-1","timestamp":"2026-11-20T10:00:00.5Z","#
        + #""eventId":"424dc7f0-7a1c-5502-bfd1-562d5e27f831","sessionId":"s-1","consent":"optIn","#
        + #""metadata":{"viewability":"0.75","duration":1.5,"format":"video","platform":"iOS","position":3,"#
        + #""revenue":"12.50","spend":0.000001,"campaign":"c","source":"s","x":null,"invalidTraffic":true}}"#

    /// Whether a line is of the usual form; compares what both decoders make of it in any case.
    private static func isUsual(_ line: [UInt8]) -> Bool {
        _ = DecoderHarness.json(line)
        // A buffer of just its size, so that a sanitizer sees what goes past it.
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: line.count)
        defer { copy.deallocate() }
        _ = copy.initialize(from: line)
        guard let base = copy.baseAddress else { return false }
        var event = ingest_event()
        let next = ingest_decode_line(base, 0, line.count, &event)
        if next == 0 { #expect(Array(copy) == line, "one of another form was changed") }
        return next != 0
    }

    private static func isUsual(_ line: String) -> Bool { isUsual(Array(line.utf8)) }

    private static func with(_ old: String, _ new: String) -> String {
        let parts = line.split(separator: old, omittingEmptySubsequences: false)
        precondition(parts.count == 2, "\(old) is there once")
        return parts.joined(separator: new)
    }

    @Test func `A line with every field has the usual form`() {
        #expect(Self.isUsual(Self.line))
        #expect(Self.isUsual(Self.line + " \r\n"))
        #expect(DecoderHarness.json(Self.line)?.events.count == 1)
    }

    @Test func `Spaces behind commas and colons are usual`() {
        let spaced = Self.line.replacing(#"":"#, with: #"": "#).replacing(#",""#, with: #", ""#)
        #expect(Self.isUsual(spaced))
        #expect(DecoderHarness.json(spaced) == DecoderHarness.json(Self.line))
    }

    static let usual: [(String, String)] = [
        (#""2026-11-20T10:00:00.5Z""#, "1795168800123"), (#""2026-11-20T10:00:00.5Z""#, "0"),
        ("2026-11-20T10:00:00.5Z", "1970-01-01T00:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2024-02-29T23:59:59.999999Z"),
        ("2026-11-20T10:00:00.5Z", "2100-03-01T00:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2261-12-31T23:59:59Z"),
        (#""0.75""#, "1"), (#""0.75""#, "1.0000000000"), (#""0.75""#, "0.12345678901234567890"),
        ("1.5,", "4294967.295,"), ("12.50", "1000000000"), ("12.50", "0.1234560000"),
        (#""iOS""#, #""a@b""#), (#""r-1""#, "\"" + String(repeating: "r", count: 128) + "\""),
        (#""s-1""#, "\"" + String(repeating: "s", count: 64) + "\""), ("invalidTraffic", "other"),
        ("true", #""false""#), ("424dc7f0-", "424dc7f0_"), (#""x":null"#, #""x":"{}""#),
    ]

    @Test(arguments: usual)
    func `What most writers give is decoded in C`(old: String, new: String) {
        #expect(Self.isUsual(Self.with(old, new)))
    }

    static let others: [(String, String)] = [
        ("redemption", "view"), ("r-1", ""), ("r-1", "ü"), ("r-1", #"\u0041"#), ("r-1", "a\tb"),
        ("r-1", String(repeating: "r", count: 129)), (#""r-1""#, "5"), (#""b-1""#, "null"),
        ("s-1", String(repeating: "s", count: 65)), ("s-1", ""), ("optIn", "yes"),
        ("2026-11-20T10:00:00.5Z", "2026-11-20T10:00:00.5+01:00"),
        ("2026-11-20T10:00:00.5Z", "2026-11-20T10:00:60Z"),
        ("2026-11-20T10:00:00.5Z", "2026-11-20T24:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2023-02-29T10:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2100-02-29T10:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "1969-12-31T23:59:59Z"),
        ("2026-11-20T10:00:00.5Z", "2262-01-02T00:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2026-13-01T00:00:00Z"),
        ("2026-11-20T10:00:00.5Z", "2026-11-20T10:00:00.Z"),
        ("2026-11-20T10:00:00.5Z", "2026-11-20T1o:00:00.5Z"),
        (#""2026-11-20T10:00:00.5Z""#, "-1"), (#""2026-11-20T10:00:00.5Z""#, "01"),
        (#""2026-11-20T10:00:00.5Z""#, "1795168800123.5"),
        (#""2026-11-20T10:00:00.5Z""#, "999999999999999"), ("0.75", "1.0000001"), ("0.75", "01"),
        ("0.75", "1."), ("0.75", ".5"), ("0.75", "-0"), ("0.75", "1e0"), ("0.75", ""),
        ("1.5,", "4294967.296,"), ("12.50", "1000000000.000001"), ("12.50", "0.0000001"),
        ("video", "film"), ("true", "1"), ("true", #""true"#), (#""x":null"#, #""x":[]"#),
        (#""x":null"#, #""x":{}"#), (#""x":null"#, #""spend":1"#),
        (#""x":null"#, #""eventId":"e""#),
        ("eventType", "kind"), (#"{"eventType"#, #" {"eventType"#), ("}}", "}} x"), ("}}", "}},"),
        ("}}", ",}}"), ("}}", "}"), ("metadata\":{", #"metadata":"{""#),
    ]

    @Test(arguments: others)
    func `What a rule refuses or changes, and what few write, is left to the other decoder`(
        old: String, new: String
    ) {
        #expect(!Self.isUsual(Self.with(old, new)))
    }

    @Test func `Names and ids of any length are the same to both`() {
        for length in 0...140 {
            let text = String(repeating: "n", count: length)
            for old in ["r-1", "b-1", "s-1", "iOS", "424dc7f0-7a1c-5502-bfd1-562d5e27f831"] {
                _ = Self.isUsual(Self.with(old, text))
            }
        }
    }

    @Test func `One cut at any byte is the same to both`() {
        let line = Array(Self.line.utf8)
        for end in line.indices { #expect(!Self.isUsual(Array(line[..<end])), "\(end)") }
    }

    @Test func `One with any byte changed is the same to both`() {
        let line = Array(Self.line.utf8)
        let bytes = Array("\0\n \r\"\\{}[]:,.0129-+eEtnuzTZ@a\u{7F}".utf8) + [0x80, 0xC3, 0xFF]
        for at in line.indices {
            for byte in bytes {
                var changed = line
                changed[at] = byte
                _ = Self.isUsual(changed)
            }
        }
    }

    @Test(arguments: 0..<8)
    func `Lines made of parts of others are the same to both`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let parts = Self.line.split(separator: ",").map { Array($0.utf8) }
        for _ in 0..<1_000 {
            var line = Array(Self.line.utf8)
            switch random.below(3) {
            case 0:
                var changed = parts
                changed.swapAt(random.below(parts.count), random.below(parts.count))
                line = Array(changed.joined(separator: [UInt8(ascii: ",")]))
            case 1:
                var changed = parts
                changed[random.below(parts.count)] = parts[random.below(parts.count)]
                line = Array(changed.joined(separator: [UInt8(ascii: ",")]))
            default:
                let at = random.below(line.count)
                line.removeSubrange(at..<min(line.count, at + 1 + random.below(4)))
            }
            _ = Self.isUsual(line)
        }
    }

    @Test func `Each line of a packet is decoded by itself`() {
        let lines = [Self.line, " " + Self.line, "x", "", Self.line, Self.line].joined(
            separator: "\n")
        let result = DecoderHarness.json(lines)
        #expect(result?.events.count == 4)
        #expect(result?.malformed == 1)
        #expect(Set(result?.events.map(\.description) ?? []).count == 1)
    }
}
