import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-send check` against the real daemon.
    struct CheckTests {
        private struct Answer: Decodable {
            let directory: String
            let roundTripMicroseconds: UInt64
            let clockLeadMicroseconds: Int64
            let versions: [Int]
            let packetBytesMax: Int
        }

        private func check(
            _ port: UInt16, _ further: [String] = [], in folder: TemporaryFolder
        ) throws -> Ended {
            try run("ingest-send", ["check", "--to", "127.0.0.1:\(port)"] + further, in: folder)
        }

        @Test
        func `a daemon that is there says who it is and what time it has, and counts nothing`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let ended = try check(UInt16(daemon.port), in: folder)
            #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
            let answer = try JSONDecoder().decode(Answer.self, from: Data(ended.output.utf8))
            #expect(answer.directory.count == 16 && answer.versions == [1, 1])
            #expect(answer.packetBytesMax == 65_507)
            // One clock, read twice: the round trip bounds the difference.
            #expect(answer.clockLeadMicroseconds.magnitude <= answer.roundTripMicroseconds + 1)
            let again = try check(UInt16(daemon.port), in: folder)
            let second = try JSONDecoder().decode(Answer.self, from: Data(again.output.utf8))
            #expect(second.directory == answer.directory)
            #expect(daemon.stop().code == 0)
            let packets = try Reader(folder: folder).status().packets
            #expect(packets.values.allSatisfy { $0 == 0 }, "\(packets)")
            // Nobody there now, which the machine itself says.
            let gone = try check(UInt16(daemon.port), in: folder)
            #expect(
                gone.code == 69 && gone.errors.contains("nothing listens on"), "\(gone.errors)")
        }

        @Test func `only a key of the daemon's gets an answer`() throws {
            let folder = try TemporaryFolder()
            func keys(_ name: String, _ text: String) throws -> String {
                let path = "\(folder.path)/\(name)"
                try text.write(toFile: path, atomically: false, encoding: .utf8)
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o600], ofItemAtPath: path)
                return path
            }
            let (good, other) = (
                String(repeating: "0a", count: 32), String(repeating: "0b", count: 32)
            )
            let path = try keys("keys", "1 \(good) sender=5\n2 \(other)\n")
            let wrong = try keys("wrong", "1 \(other) sender=5\n2 \(other)\n")
            let daemon = try DaemonProcess(in: folder, ["--keys", path])
            let port = UInt16(daemon.port)
            for (arguments, code) in [
                (["--key-id", "1", "--key-file", path], 0),
                (["--key-id", "2", "--key-file", path, "--sender-id", "77"], 0),
                (["--key-id", "1", "--key-file", wrong], 69), ([], 69),
                (["--key-id", "3", "--key-file", path], 78),
            ] as [([String], Int32)] {
                let ended = try check(port, arguments, in: folder)
                #expect(ended.code == code, "\(arguments): \(ended.errors)")
                if code == 69 {
                    #expect(ended.errors.contains(arguments.isEmpty ? "--key-id" : "this key"))
                }
            }
            #expect(daemon.stop().code == 0)
        }

        @Test func `wrong usage is one line and 64`() throws {
            let folder = try TemporaryFolder()
            for arguments in [
                [], ["--to", "x"], ["--key-id", "1", "--to", "127.0.0.1:1"], ["--spool", "x"],
            ] {
                let ended = try run("ingest-send", ["check"] + arguments, in: folder)
                #expect(ended.code == 64 && ended.output.isEmpty, "\(arguments): \(ended.errors)")
                #expect(ended.errors.filter { $0 == "\n" }.count == 1)
            }
            let help = try run("ingest-send", ["check", "--help"], in: folder)
            #expect(help.code == 0 && help.output.contains("clockLead") == false)
            #expect(help.output.contains("--key-file") && help.output.contains("probes"))
        }
    }
}
