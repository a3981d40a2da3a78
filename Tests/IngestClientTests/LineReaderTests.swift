import Foundation
import TestSupport
import Testing

@testable import IngestSend

/// Lines out of a file, whatever it holds.
struct LineReaderTests {
    /// The lines of a file with these bytes, by number.
    private static func lines(of bytes: Data) throws -> [(number: Int, text: String)] {
        var reader = try reader(of: bytes)
        var lines: [(Int, String)] = []
        while try reader.fill() {
            while reader.hasLine {
                let line = reader.takeLine()
                lines.append(
                    (line.number, String(decoding: reader.buffer.bytes[line.range], as: UTF8.self)))
            }
        }
        return lines
    }

    @Test(arguments: [
        ("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\nb", ["a", "b"]),
        ("\n\na\n\n", ["", "", "a", ""]), ("a\r\nb\n", ["a\r", "b"]),
    ])
    func `A line ends at its newline or with the file`(text: String, expected: [String]) throws {
        let lines = try Self.lines(of: Data(text.utf8))
        #expect(lines.map(\.text) == expected)
        #expect(lines.map(\.number) == Array(1..<expected.count + 1))
    }

    @Test func `Lines that lie across reads are whole`() throws {
        let expected = (0..<60_000).map { "\($0) " + String(repeating: "x", count: $0 % 97) }
        let lines = try Self.lines(of: Data(expected.joined(separator: "\n").utf8))
        #expect(lines.map(\.text) == expected)
    }

    @Test func `A line beyond the buffer is cut and the next one is whole`() throws {
        let long = String(repeating: "y", count: 5 << 19)
        let lines = try Self.lines(of: Data("a\n\(long)\nb\n\(long)".utf8))
        #expect(lines.map(\.number) == [1, 2, 3, 4])
        #expect(lines.map { $0.text.prefix(1) } == ["a", "y", "b", "y"])
        #expect(lines[1].text.utf8.count == 1 << 20)
        #expect(lines[2].text == "b")
    }

    /// A reader of a file with these bytes; the file is gone when this returns.
    private static func reader(of bytes: Data) throws -> LineReader {
        let folder = try TemporaryFolder()
        return try LineReader(path: folder.write("lines", bytes))
    }

    @Test func `A reader goes on behind every line that another has taken`() throws {
        let long = String(repeating: "y", count: 5 << 19)
        let bytes = Data("a\r\n\n\(long)\nbb\n\(long)\nccc".utf8)
        var first = try Self.reader(of: bytes)
        var notes = [first.note]
        while try first.fill() {
            while first.hasLine {
                _ = first.takeLine()
                notes.append(first.note)
            }
        }
        #expect(notes.count == 7)
        for (taken, note) in notes.enumerated() {
            var reader = try Self.reader(of: bytes)
            let beginning = try reader.skip(to: note)
            // No event is in a line beyond the buffer, so no note is behind its front.
            if [3, 5].contains(taken) {
                #expect(beginning == .longerLine(number: taken))
                continue
            }
            #expect(beginning == .same)
            var rest = 0
            while try reader.fill() {
                while reader.hasLine {
                    let line = reader.takeLine()
                    rest += 1
                    #expect(line.number == taken + rest)
                }
            }
            #expect(taken + rest == 6)
        }
    }

    @Test func `Another input, and one that is too short, is told`() throws {
        var reader = try Self.reader(of: Data("one\ntwo\nthree\n".utf8))
        _ = try reader.fill()
        _ = reader.takeLine()
        _ = reader.takeLine()
        let note = reader.note
        #expect(note.position == 8)
        for other in ["one\ntwx\nthree\n", "one\n", "", "one\ntwo", "one\ntwothree\n"] {
            var reader = try Self.reader(of: Data(other.utf8))
            let beginning = try reader.skip(to: note)
            #expect(beginning == .other, "\(other)")
        }
    }

    @Test(
        arguments: [
            ("", .same, []), ("\n", .same, []), ("\nthree", .same, ["three"]),
            (" \r\nthree\nfour\n", .same, ["three", "four"]), ("  ", .same, []),
            ("x", .longerLine(number: 2), []), ("two\nthree\n", .longerLine(number: 2), []),
            (" x\n", .longerLine(number: 2), []),
            (String(repeating: " ", count: 3 << 19) + "x\n", .longerLine(number: 2), []),
        ] as [(String, LineReader.Beginning, [String])])
    func `Behind a last line that had no newline one may have come, and nothing else`(
        more: String, expected: LineReader.Beginning, lines: [String]
    ) throws {
        var first = try Self.reader(of: Data("one\ntwo".utf8))
        while try first.fill() { _ = first.takeLine() }
        let (endsInLine, note, lineNote) = (first.endsInLine, first.note, first.lineNote)
        #expect(endsInLine && note.position == 7 && lineNote.position == 4)
        var reader = try Self.reader(of: Data("one\ntwo\(more)".utf8))
        let beginning = try reader.skip(to: first.note)
        #expect(beginning == expected)
        guard expected == .same else { return }
        var rest: [String] = []
        while try reader.fill() {
            let line = reader.takeLine()
            rest.append(String(decoding: reader.buffer.bytes[line.range], as: UTF8.self))
            #expect(line.number == 2 + rest.count)
        }
        #expect(rest == lines)
    }

    @Test func `A pipe that gives nothing is waited for as long as a line is wanted`() throws {
        let pipe = Pipe()
        var reader = try LineReader(
            path: "/proc/self/fd/\(pipe.fileHandleForReading.fileDescriptor)")
        pipe.fileHandleForWriting.write(Data("one\ntw".utf8))
        let hasFirst = try reader.fill(while: { false })
        #expect(hasFirst)
        _ = reader.takeLine()
        var count = 0
        let hasSecond = try reader.fill {
            count += 1
            return count < 2
        }
        #expect(!hasSecond && count == 2)
        pipe.fileHandleForWriting.write(Data("o\n".utf8))
        let hasThird = try reader.fill(while: { false })
        #expect(hasThird)
        let line = reader.takeLine()
        #expect(String(decoding: reader.buffer.bytes[line.range], as: UTF8.self) == "two")
    }

    @Test func `A file that is not there is no input, and says so`() {
        do {
            _ = try LineReader(path: "/nowhere/at all")
            Issue.record("opened")
        } catch {
            #expect(error.exitCode == 66)
            #expect(error.description.hasPrefix("\"/nowhere/at all\": "))
        }
    }
}
