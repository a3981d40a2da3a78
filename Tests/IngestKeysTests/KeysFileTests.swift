import Foundation
import IngestFormat
import IngestKeys
import TestSupport
import Testing

struct KeysFileTests {
    private static let secret = "000102030405060708090a0b0c0d0e0f"

    private static func parse(_ text: String) -> Result<KeysFile, KeysError> {
        do throws(KeysError) {
            return .success(try KeysFile(Array(text.utf8), path: "/etc/keys"))
        } catch {
            return .failure(error)
        }
    }

    @Test func `The page's example is taken`() throws {
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "docs/format/keys.md"), encoding: .utf8)
        let example = page.components(separatedBy: "```")[3]
        let file = try Self.parse(example).get()
        #expect(file.keys.map(\.id) == [1, 2, 3])
        #expect(file.keys.map { $0.sender?.rawValue } == [77, 77, nil])
        #expect(file[3]?.business == Array("b-1".utf8))
        #expect(file[1]?.business == nil)
        #expect(file[1]?.isFor(SenderID(rawValue: 77)) == true)
        #expect(file[1]?.isFor(SenderID(rawValue: 78)) == false)
        #expect(file[3]?.isFor(SenderID(rawValue: 78)) == true)
        #expect(file[0] == nil)
        #expect(file[4] == nil)
        #expect(file[65_535] == nil)
    }

    @Test func `Blanks, comments, cases of digits, line ends and a byte order mark are free`()
        throws
    {
        #expect(try Self.parse("\u{FEFF}7 \(Self.secret)\n").get().keys.map(\.id) == [7])
        let text =
            "\n  # a comment\r\n\t65535 \t \(Self.secret.uppercased())  sender=* business=*\r\n"
            + "7 \(Self.secret) business=b=1#2 # a comment, sender=5\n\n"
            + "1 \(String(repeating: "ab", count: 64)) sender=18446744073709551615"
        let file = try Self.parse(text).get()
        #expect(file.keys.map(\.id) == [65_535, 7, 1])
        #expect(file[65_535]?.sender == nil)
        #expect(file[65_535]?.business == nil)
        #expect(file[7]?.business == Array("b=1#2".utf8))
        #expect(file[7]?.sender == nil)
        #expect(file[1]?.sender?.rawValue == .max)
        var same: [UInt8] = [1, 2, 3]
        var other = same
        file[7]?.tag.append(to: &same)
        TagKey([UInt8](0..<16)).append(to: &other)
        #expect(same == other)
    }

    static let faults: [(String, KeysError.Fault)] = [
        ("0 \(secret)", .id), ("65536 \(secret)", .id), ("-1 \(secret)", .id),
        ("x \(secret)", .id), ("\(secret) 1", .id), ("99999999999999999999 \(secret)", .id),
        ("1", .noKey), ("1 # \(secret)", .noKey), ("1 sender=5 \(secret)", .notHex),
        ("1 0x\(secret)", .notHex), ("1 \(secret)0", .halfByte),
        ("1 \(secret.dropLast(2))", .keyByteCount(got: 15, allowed: 16...64)),
        (
            "1 \(String(repeating: "0", count: 130))",
            .keyByteCount(got: 65, allowed: 16...64)
        ),
        ("1 \(secret) \(secret)", .unknownField(place: 3)),
        ("1 \(secret) sender", .unknownField(place: 3)),
        ("1 \(secret) sender=5 Business=b", .unknownField(place: 4)),
        ("1 \(secret) sender=5 sender=5", .repeatedField("sender")),
        ("1 \(secret) business=* business=b", .repeatedField("business")),
        ("1 \(secret) sender=", .sender), ("1 \(secret) sender=0", .sender),
        ("1 \(secret) sender=18446744073709551616", .sender), ("1 \(secret) sender=+5", .sender),
        ("1 \(secret) business=", .business),
        ("1 \(secret) business=\(String(repeating: "b", count: 129))", .business),
        ("1 \(secret)\n1 \(secret)", .repeatedID(1)),
        (
            "1 \(secret) sender=5\n2 \(secret) sender=5\n3 \(secret) sender=5",
            .tooManyKeys(SenderID(rawValue: 5))
        ),
    ]

    @Test(arguments: faults)
    func `A line that breaks a rule is named, and never quoted`(
        text: String, fault: KeysError.Fault
    ) {
        let number = 2 + text.split(separator: "\n").count
        let lines = "# keys\n9 \(Self.secret)\n" + text + "\n"
        guard case .failure(let error) = Self.parse(lines) else {
            Issue.record("taken: \(text)")
            return
        }
        #expect(error == .line(path: "/etc/keys", number: number, fault))
        #expect(error.description.hasPrefix("/etc/keys line \(number): "))
        #expect(!error.description.contains("00010203"))
        #expect(!error.description.contains(text))
    }

    @Test func `A business that is not UTF-8 is refused, and so is a file without keys`() {
        let line = Array("1 \(Self.secret) business=".utf8) + [0xFF, 0xFE]
        #expect(throws: KeysError.line(path: "k", number: 1, .business)) {
            try KeysFile(line, path: "k")
        }
        #expect(throws: KeysError.noKeys(path: "k")) { try KeysFile([], path: "k") }
        #expect(throws: KeysError.noKeys(path: "k")) {
            try KeysFile(Array("\n # 1 abc\n".utf8), path: "k")
        }
    }

    @Test func `Any sender may have keys without bound if they name none`() throws {
        let text = (1...100).map { "\($0) \(Self.secret) business=b-\($0)" }
        #expect(try Self.parse(text.joined(separator: "\n")).get().keys.count == 100)
    }

    @Test func `Only a regular file of mode 0400 or 0600 is read`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("keys", "1 \(Self.secret)\n")
        for mode in 0...0o7777 as ClosedRange<mode_t> where mode & 0o400 != 0 {
            chmod(path, mode)
            if mode == 0o400 || mode == 0o600 {
                #expect(try KeysFile(path: path).keys.count == 1)
            } else {
                #expect(throws: KeysError.mode(path: path, mode: mode)) {
                    try KeysFile(path: path)
                }
            }
        }
        #expect(throws: KeysError.notAFile(path: folder.path)) { try KeysFile(path: folder.path) }
        let pipe = folder.path + "/pipe"
        #expect(mkfifo(pipe, 0o600) == 0)
        #expect(throws: KeysError.notAFile(path: pipe)) { try KeysFile(path: pipe) }
        #expect(throws: KeysError.unreadable(path: path + "x", errno: ENOENT)) {
            try KeysFile(path: path + "x")
        }
    }
}
