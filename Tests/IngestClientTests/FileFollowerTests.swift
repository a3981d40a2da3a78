import Foundation
import Glibc
import IngestClient
import TestSupport
import Testing

@testable import IngestSend

/// The order in which the files of a name are read, by a clock of the test's own.
struct FileFollowerTests {
    /// A follower of `log` in a folder, and what it says.
    private struct Following {
        private final class Said { var lines: [String] = [] }

        let path: String
        private let said = Said()
        private var follower: FileFollower
        private var note: SpoolNote
        var now: UInt64 = 1_000_000_000

        init(
            _ folder: TemporaryFolder, _ name: String = "log", from note: SpoolNote = SpoolNote()
        ) throws {
            path = folder.path + "/" + name
            self.note = note
            let said = said
            follower = try FileFollower(path: path, from: note, hasEnded: false, now: now) {
                said.lines.append($0)
            }
        }

        /// The same after a restart.
        func again(_ folder: TemporaryFolder, _ name: String = "log") throws -> Following {
            try Following(folder, name, from: note)
        }

        var messages: [String] { said.lines }

        /// All that there is to read now.
        mutating func lines() throws -> [String] {
            var lines: [String] = []
            while let (file, isFinal) = try follower.advance(now: now) {
                while let line = file.takeLine(isFinal: isFinal) {
                    lines.append(String(decoding: file.buffer.bytes[line], as: UTF8.self))
                    note = file.note
                }
            }
            return lines
        }
    }

    private static func append(_ text: String, to path: String) {
        let file = fopen(path, "a")
        fputs(text, file)
        fclose(file)
    }

    /// Waits until the clock of the file system has gone on: what is made then is younger than all that is there.
    private static func tick(_ folder: TemporaryFolder) throws {
        func time() throws -> UInt64 {
            try FollowedFile(path: folder.write("probe", "")).times.modified
        }
        let before = try time()
        #expect(try eventually { try time() > before })
    }

    @Test func `files that have lost their name long ago are not waited for`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "0\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["0"])
        for number in 1...10 {
            rename(path, "\(path).\(number)")
            try Self.tick(folder)
            try folder.write("log", "\(number)\n")
        }
        #expect(try following.lines() == [])
        // The last of them is still written to, and so waited for.
        following.now += 1_500_000_000
        Self.append("late\n", to: path + ".10")
        #expect(try following.lines() == [])
        following.now += 500_000_000
        #expect(try following.lines() == (1...9).map(String.init) + ["late"])
        following.now += 1_499_999_999
        #expect(try following.lines() == [])
        following.now += 1
        #expect(try following.lines() == ["10"])
    }

    @Test(arguments: ["", "n\n", "new 1\nnew 2\nnew 3\nnew 4\nnew 5\n"])
    func `what was cut off is said of a file that waits for its turn, and of the one that is read`(
        new: String
    ) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "first\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["first"])
        rename(path, path + ".1")
        try folder.write("log", "old 1\nold 2\nold 3\n")
        #expect(try following.lines() == [])
        // In place, as copytruncate does.
        truncate(path, 0)
        Self.append(new, to: path)
        #expect(try following.lines() == [])
        #expect(following.messages.count == 1)
        let first = following.messages.first ?? ""
        let lost = "behind its byte 0 before the truncation, at least 18 bytes"
        #expect(first.contains(lost), "\(first)")
        following.now += 2_000_000_000
        let expected = new.split(separator: "\n").map(String.init)
        #expect(try following.lines() == expected)
        Self.append("half a line", to: path)
        #expect(try following.lines() == [])
        truncate(path, 0)
        Self.append("end\n", to: path)
        #expect(try following.lines() + following.lines() == ["end"])
        #expect(following.messages.count == 2)
        let place = "behind its byte \(new.utf8.count) before the truncation, at least 11 bytes"
        #expect(following.messages.last?.contains(place) == true, "\(following.messages)")
    }

    /// That of a file which is found renamed beside others.
    @Test(arguments: [["log.2", "log.1"], ["log-20261124", "log-20261125"]])
    func `an agent that starts again reads no file twice that was written last in the same moment`(
        names: [String]
    ) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "1\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["1"])
        let places = names.map { "\(folder.path)/\($0)" }
        for (number, name) in places.enumerated() {
            rename(path, name)
            try Self.tick(folder)
            try folder.write("log", "\(number + 2)\n")
            if number == 1 { break }
            following.now += 2_000_000_000
            #expect(try following.lines() == [])
            following.now += 2_000_000_000
            #expect(try following.lines() == ["2"])
        }
        let time = timeval(tv_sec: 1_700_000_000, tv_usec: 0)
        for name in places { #expect(utimes(name, [time, time]) == 0) }
        var again = try following.again(folder)
        #expect(try again.lines() == [])
        again.now += 2_000_000_000
        #expect(try again.lines() == ["3"])
    }

    /// As logrotate names them, also by `extension .log`.
    @Test(arguments: ["ads.log.%", "ads.log-%", "ads-%.log", "ads.%.log"])
    func `what was renamed while the agent was stopped is read, its extension last or not`(
        name: String
    ) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("ads.log", "1\n")
        var following = try Following(folder, "ads.log")
        #expect(try following.lines() == ["1"])
        Self.append("2\n", to: path)
        for (day, line) in [("20261125", "3\n"), ("20261126", "4\n")] {
            rename(path, "\(folder.path)/" + name.replacingOccurrences(of: "%", with: day))
            try Self.tick(folder)
            try folder.write("ads.log", line)
        }
        // Other logs, and a copy.
        for name in ["ads-1.log.gz", "ads-old.log", "ads-2.log", "adserver.log", "ads-1.txt"] {
            try folder.write(name, "no line of this one\n")
        }
        var again = try following.again(folder, "ads.log")
        #expect(try again.lines() == ["2"])
        again.now += 2_000_000_000
        #expect(try again.lines() == ["3", "4"])
    }

    @Test func `what is written to a file that was left is said, and the file not read again`()
        throws
    {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "1\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["1"])
        rename(path, path + ".1")
        try Self.tick(folder)
        try folder.write("log", "2\n")
        #expect(try following.lines() == [])
        following.now += 2_000_000_000
        #expect(try following.lines() == ["2"])
        Self.append("late\n", to: path + ".1")
        #expect(try following.lines() == [])
        #expect(following.messages.count == 1)
        #expect(following.messages.first?.contains("5 bytes were") == true)
        // Two at once, so that the directory is searched.
        rename(path + ".1", path + ".3")
        rename(path, path + ".2")
        try Self.tick(folder)
        try folder.write("log", "3\n")
        rename(path, path + ".1")
        try Self.tick(folder)
        try folder.write("log", "4\n")
        #expect(try following.lines() == [])
        following.now += 2_000_000_000
        #expect(try following.lines() == ["3", "4"])
    }

    @Test func `of a truncated file no byte of what took its place is called lost`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "1\n22\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["1", "22"])
        // Longer than before, so that the next read is of the middle of it.
        truncate(path, 0)
        Self.append(String(repeating: "longer\n", count: 100), to: path)
        #expect(try following.lines() == Array(repeating: "longer", count: 100))
        #expect(following.messages.count == 1)
        let first = following.messages.first ?? ""
        #expect(first.contains("behind its byte 5 before the truncation was not read"), "\(first)")
    }

    /// A directory in the place of a file, since a test may run as root, who may read all.
    @Test func `a renamed file that cannot be read is said`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "1\n")
        var following = try Following(folder)
        #expect(try following.lines() == ["1"])
        rename(path, path + ".2")
        #expect(mkdir(path + ".1", 0o700) == 0)
        try folder.write("log", "3\n")
        #expect(try following.lines() == [])
        #expect(following.messages.count == 1)
        #expect(following.messages.first?.contains("log.1\" is no regular file") == true)
        following.now += 2_000_000_000
        #expect(try following.lines() == ["3"])
    }
}
