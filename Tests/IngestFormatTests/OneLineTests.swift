import Testing

@testable import IngestFormat

/// What is printed of texts that others chose.
struct OneLineTests {
    @Test(arguments: [
        ("plain: ä, 東, \"quoted\" \\ 🙂", "plain: ä, 東, \"quoted\" \\ 🙂"),
        ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
        ("\u{1B}[31mred\u{7F}\0", "\\u{1b}[31mred\\u{7f}\\u{0}"),
        // One-byte forms of terminal sequences (C1), in UTF-8.
        ("\u{9B}31m\u{85}next", "\\u{9b}31m\\u{85}next"),
        ("\u{2028}\u{202E}\u{200F}\u{FEFF}", "\\u{2028}\\u{202e}\\u{200f}\\u{feff}"),
        ("", ""),
    ])
    func `What a terminal would act on is escaped, the rest is not`(text: String, shown: String) {
        #expect(OneLine.escaped(text) == shown)
    }

    @Test func `A text of any length is a line of bounded length, with both its ends`() {
        for filler in ["x", "\u{1B}", "東", "\n"] {
            let text = "first" + String(repeating: filler, count: 1 << 20) + "last"
            let line = OneLine.escaped(text)
            #expect(line.utf8.count <= OneLine.byteCountMax)
            #expect(line.utf8.count > OneLine.byteCountMax - 20)
            #expect(line.hasPrefix("first") && line.hasSuffix("last"))
            #expect(!line.contains("\n") && !line.contains("\u{1B}"))
        }
        let fits = String(repeating: "x", count: OneLine.byteCountMax)
        #expect(OneLine.escaped(fits) == fits)
        #expect(OneLine.escaped(fits + "x").contains(" … "))
        #expect(OneLine.escaped("abc", byteCountMax: 0) == " … ")
    }

    @Test func `Lines of a message become one without its full stop`() {
        #expect(OneLine.joined("one\ntwo.\n") == "one two")
        #expect(OneLine.joined("") == "")
    }
}
