import Foundation
import Glibc
import IngestFormat
import TestSupport
import Testing

extension ProcessSuite {
    /// Directories that a daemon must not take.
    struct DirectoryTests {
        private func start(in folder: TemporaryFolder) throws -> Ended {
            try run("ingestd", ["--data", folder.data, "--udp", "127.0.0.1:0"], in: folder)
        }

        private func expectOneLine(_ ended: Ended, code: Int32, containing words: String...) {
            #expect(ended.code == code, "\(ended.errors)")
            let said = ended.errorLines.filter { $0.hasPrefix("ingestd: ") }
            #expect(said.count == 1, "\(ended.errors)")
            for word in words { #expect(said.first?.contains(word) == true, "\(ended.errors)") }
        }

        @Test func `R1: a second daemon on one directory ends with 69, the first goes on`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            expectOneLine(try start(in: folder), code: 69, containing: folder.data, "\(daemon.pid)")
            #expect(daemon.isRunning)
            #expect(daemon.stop().code == 0)
        }

        @Test func `an address in use ends with 69`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let ended = try run(
                "ingestd", ["--data", "\(folder.path)/other", "--udp", daemon.address], in: folder)
            expectOneLine(ended, code: 69, containing: daemon.address)
            #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/other"))
            #expect(daemon.stop().code == 0)
        }

        @Test func `a manifest of a later version ends with 65 and is left alone`() throws {
            let folder = try SampleEvents.directory()
            let name = try #require(folder.files(ending: ".manifest").last)
            let path = "\(folder.data)/\(name)"
            try makeNewer(path)
            let files = folder.files(ending: "")
            expectOneLine(try start(in: folder), code: 65, containing: "newer", path)
            #expect(folder.files(ending: "") == files)
            for command in ["rewards", "verify"] {
                let ended = try Reader(folder: folder).run(command)
                #expect(
                    ended.code == 65 && ended.errors.contains("use that version"), "\(ended.errors)"
                )
            }
        }

        /// A mark, keys of sessions, and a segment that no manifest has; the place in the mark is no part of its sum.
        @Test(
            arguments: [
                ("durable-mark", 16..<24), ("session-keys", 0..<0), ("0000000002.segment", 0..<0),
            ] as [(String, Range<Int>)])
        func `neither a start nor rebuild changes a directory with a file of a later version`(
            name: String, unsummed: Range<Int>
        ) throws {
            let folder = try SampleEvents.directory()
            let path = "\(folder.data)/\(name)"
            if name.hasSuffix(".segment") {
                let header = SegmentHeader(
                    directory: DirectoryID(rawValue: 0), shard: 0,
                    segment: SegmentNumber(rawValue: 2), createdAt: 1, previousChecksum: 0,
                    firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
                    commitEpoch: 1, origin: DirectoryOrigin())
                try Data(header.encode()).write(to: URL(fileURLWithPath: path))
            }
            try makeNewer(path, without: unsummed)
            // What a start would remove, if it went on.
            try Data([1]).write(to: URL(fileURLWithPath: folder.data + "/0000000099.manifest.tmp"))
            let files = folder.files(ending: "")
            let bytes = FileManager.default.contents(atPath: path)
            expectOneLine(try start(in: folder), code: 65, containing: "newer", path)
            let ended = try Reader(folder: folder).run("rebuild")
            #expect(ended.code == 65 && ended.errors.contains("newer"), "\(ended.errors)")
            #expect(ended.errors.contains(path) && folder.files(ending: "") == files)
            #expect(FileManager.default.contents(atPath: path) == bytes)
        }

        /// The version is at offset 4, the checksum of all before it in the last four bytes.
        private func makeNewer(_ path: String, without range: Range<Int> = 0..<0) throws {
            var bytes = [UInt8](try #require(FileManager.default.contents(atPath: path)))
            bytes[4] = 2
            bytes = bytes.sealed(bytes.count, without: range)
            try Data(bytes).write(to: URL(fileURLWithPath: path))
        }

        @Test(arguments: [false, true])
        func `R1: what is derived from the log is made again, by a start or offline`(
            isOffline: Bool
        ) throws {
            let folder = try SampleEvents.directory()
            let reader = Reader(folder: folder)
            func tables() throws -> [String] {
                try ["rewards", "reward-days", "days"].map {
                    try reader.run($0, "--format", "csv").output
                }
            }
            let before = try tables()
            for name in folder.files(ending: ".manifest") + folder.files(ending: ".run") {
                try FileManager.default.removeItem(atPath: "\(folder.data)/\(name)")
            }
            #expect(try reader.run("rewards").code == 66)
            if isOffline {
                let made = try reader.run("rebuild")
                #expect(made.code == 0 && made.output.contains("reward-days: "), "\(made.errors)")
            } else {
                let daemon = try DaemonProcess(in: folder)
                let ended = daemon.stop()
                #expect(
                    ended.code == 0 && ended.errors.contains("derived files rebuilt from the log"))
            }
            #expect(try tables() == before && before.allSatisfy { $0.count > 100 })
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `runs without a log end with 66, never with a fresh start`() throws {
            let folder = try SampleEvents.directory()
            #expect(try Reader(folder: folder).run("rebuild").code == 0)
            for name in folder.files(ending: ".manifest") + folder.files(ending: ".segment") {
                try FileManager.default.removeItem(atPath: "\(folder.data)/\(name)")
            }
            expectOneLine(try start(in: folder), code: 66, containing: "manifest", folder.data)
            #expect(folder.files(ending: ".manifest").isEmpty)
            #expect(try Reader(folder: folder).run("rebuild").code == 66)
        }

        /// Whether a program can be run as a user who owns nothing, and reaches what the tests write.
        private static let canBeNobody: Bool = {
            guard geteuid() == 0, let folder = try? TemporaryFolder() else { return false }
            let ended = try? run("/usr/bin/env", asNobody("ls", folder.path), in: folder)
            let program = try? run(
                "/usr/bin/env", asNobody(Programs.path("ingest-reader"), "--version"), in: folder)
            return ended?.code == 0 && program?.code == 0
        }()

        private static func asNobody(_ words: String...) -> [String] {
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + words
        }

        @Test(.enabled(if: canBeNobody, "running as another user needs root and setpriv"))
        func `another user's directory ends with 74, its owner and its mode`() throws {
            let folder = try SampleEvents.directory()
            let address = "127.0.0.1:0"
            for words in [
                Self.asNobody(
                    Programs.path("ingestd"), "--data", folder.data, "--udp", address),
                Self.asNobody(
                    Programs.path("ingest-reader"), "status", "--data", folder.data),
            ] {
                let ended = try run("/usr/bin/env", words, in: folder)
                #expect(ended.code == 74, "\(ended.errors)")
                #expect(
                    ended.errors.contains(
                        "\(folder.data) belongs to user 0 with mode 0700, this process is user 65534: "
                            + "run it as that user, or give it access"), "\(ended.errors)")
            }
        }

        @Test func `a data directory that cannot be made ends with one line`() throws {
            let folder = try TemporaryFolder()
            let file = try folder.write("file", "not a directory")
            for path in [file, "\(file)/data", "\(folder.path)/a/b"] {
                let ended = try run(
                    "ingestd", ["--data", path, "--udp", "127.0.0.1:0"], in: folder)
                expectOneLine(ended, code: 66, containing: path, "no such directory", "parent")
            }
        }
    }
}
