import Foundation
import Testing

extension ProcessSuite {
    /// What `ingest-reader` answers with, as a script sees it.
    struct ReaderTests {
        @Test func `a directory that is not there ends with 66`() throws {
            let reader = Reader(folder: try TemporaryFolder())
            for command in ["rewards", "days", "reward-days", "status", "verify"] {
                let ended = try reader.run(command)
                #expect(ended.code == 66, "\(command): \(ended.errors)")
                #expect(ended.output.isEmpty)
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
            }
        }

        @Test func `keys that were never seen end with 66 and an empty listing with 0`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            for command in ["rewards", "days", "reward-days"] {
                let ended = try reader.run(command)
                #expect(ended.code == 0, "\(command): \(ended.errors)")
                #expect(ended.output.isEmpty)
            }
            for ended in [
                try reader.run("reward", "no"), try reader.run("day", "no", "2026-11-20"),
            ] {
                #expect(ended.code == 66)
                #expect(ended.output.isEmpty)
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
            }
            #expect(try reader.run("verify").code == 0)
            #expect(daemon.stop().code == 0)
        }

        @Test func `wrong usage ends with 64`() throws {
            let reader = Reader(folder: try TemporaryFolder())
            #expect(try reader.run("rewards", "--by", "luck").code == 64)
            #expect(try reader.run("rewards", "--from", "yesterday").code == 64)
            #expect(try reader.run("rewards", "--format", "xml").code == 64)
            #expect(try reader.run("reward").code == 64)
            #expect(try reader.run("frobnicate").code == 64)
        }

        @Test func `verify ends with 65 for one flipped bit in any file`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--segment-bytes-max", "65536"])
            #expect(try daemon.send(try SampleEvents.file(in: folder)).code == 0)
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            #expect(try reader.run("verify").code == 0)
            var random = SplitMix64(state: 5)
            for name in folder.files(ending: "") where name != "LOCK" && name != "aside" {
                let path = "\(folder.data)/\(name)"
                let good = try #require(FileManager.default.contents(atPath: path))
                if good.isEmpty { continue }
                var bad = good
                let offset = Int.random(in: 0..<good.count, using: &random)
                bad[offset] ^= UInt8(1) << UInt8.random(in: 0..<8, using: &random)
                try bad.write(to: URL(fileURLWithPath: path))
                #expect(try reader.run("verify").code == 65, "\(name), byte \(offset)")
                try good.write(to: URL(fileURLWithPath: path))
            }
            #expect(try reader.run("verify").code == 0)
        }
    }
}
