import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// Copies of a directory that a daemon is writing to.
    struct BackupTests {
        private func backup(_ folder: TemporaryFolder, to out: String) throws -> Ended {
            try run("ingest-reader", ["backup", "--data", folder.data, "--out", out], in: folder)
        }

        /// The impressions of a copy, verified, and of a daemon that goes on with it.
        private func impressions(_ copy: String, in folder: TemporaryFolder) throws -> Int {
            func read(_ arguments: String...) throws -> Ended {
                try run("ingest-reader", arguments + ["--data", copy], in: folder)
            }
            let verified = try read("verify")
            #expect(verified.code == 0, "\(verified.output)")
            let before = try read("rewards", "--format", "ndjson").output
            let daemon = try Running(
                "ingestd", ["--data", copy, "--udp", "127.0.0.1:0", "--http", "off"], in: folder)
            #expect(eventually { daemon.output.contains("ready") || !daemon.isRunning })
            daemon.send(SIGTERM)
            let ended = daemon.end()
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(try read("verify").code == 0)
            #expect(try read("rewards", "--format", "ndjson").output == before)
            return try Reader.sums(of: before)["impressions"] ?? 0
        }

        @Test func `copies beside a daemon are whole, grow, and can be gone on with`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder, ["--segment-bytes-max", "65536", "--retention-bytes", "150000"])
            let sender = try Running(
                "ingest-send",
                ["--to", daemon.address, "--rate", "8000", try SampleEvents.file(in: folder)],
                in: folder)
            var counts: [Int] = []
            for round in 1...6 {
                let copy = "\(folder.path)/copy \(round)"
                let ended = try backup(folder, to: copy)
                #expect(ended.code == 0 && ended.output.contains("\"verify\":\"ok\""), "\(ended)")
                counts.append(try impressions(copy, in: folder))
                #expect(try backup(folder, to: copy).code == 64, "it is not empty")
            }
            #expect(sender.end().code == 0)
            #expect(counts == counts.sorted())
            let reader = Reader(folder: folder)
            #expect(
                try eventually {
                    try reader.sees(
                        impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount)
                })
            // As an archive.
            let target = "\(folder.path)/tar"
            try FileManager.default.createDirectory(
                atPath: target, withIntermediateDirectories: true)
            let archive = try run(
                "/bin/sh",
                [
                    "-c", "\"$0\" backup --data \"$1\" --out - | tar -xf - -C \"$2\"",
                    Programs.path("ingest-reader"), folder.data, target,
                ], in: folder)
            #expect(archive.code == 0, "\(archive.errors)")
            #expect(
                try impressions(target, in: folder) == SampleEvents.impressionCount)
            #expect(daemon.stop().code == 0)
        }

        @Test
        func `what a kill has cut off is not copied, and what lacks durable blocks is refused`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            #expect(try daemon.send(try SampleEvents.file(in: folder)).code == 0)
            daemon.kill()
            let name = try #require(folder.files(ending: ".segment").last)
            let whole = folder.bytes(name)
            let end = (try #require(whole.lastIndex { $0 != 0 }) + 4_096) / 4_096 * 4_096
            var torn = whole
            torn.replaceSubrange(end..<end + 512, with: whole[4_096..<4_608])
            try folder.replace(name, torn)
            let copy = try backup(folder, to: "\(folder.path)/copy")
            #expect(copy.code == 0, "\(copy.errors)")
            #expect(
                try impressions("\(folder.path)/copy", in: folder) == SampleEvents.impressionCount)
            for damaged in [Array(whole[..<(end - 4_096)]), nil] {
                if let damaged {
                    try folder.replace(name, damaged)
                } else {
                    try FileManager.default.removeItem(atPath: "\(folder.data)/\(name)")
                }
                let ended = try backup(folder, to: "\(folder.path)/lacks")
                #expect(ended.code == 65, "\(ended.errors)")
            }
        }

        @Test func `what is no whole directory is not copied`() throws {
            let folder = try TemporaryFolder()
            #expect(try backup(folder, to: "\(folder.path)/copy").code == 66)
            let other = "\(folder.path)/other"
            try FileManager.default.createDirectory(
                atPath: other, withIntermediateDirectories: true)
            #expect(try run("ingest-reader", ["rebuild", "--data", other], in: folder).code == 66)
            #expect(try FileManager.default.contentsOfDirectory(atPath: other).isEmpty)
            let daemon = try DaemonProcess(in: folder, ["--segment-bytes-max", "65536"])
            #expect(try daemon.send(try SampleEvents.file(in: folder)).code == 0)
            #expect(daemon.stop().code == 0)
            let inside = try backup(folder, to: "\(folder.data)/copy/")
            #expect(inside.code == 64 && inside.errors.contains("inside a data directory"))
            // Of an archive nothing but the exit code says whether it is whole.
            let cut = try run(
                "/bin/sh",
                [
                    "-c", "{ \"$0\" backup --data \"$1\" --out -; echo $? >&2; } | true",
                    Programs.path("ingest-reader"), folder.data,
                ], in: folder)
            #expect(cut.errors.hasSuffix("check where it goes\n74\n"))
            let name = try #require(folder.files(ending: ".segment").first)
            // A block of a sealed segment, which is copied as it stands, and found where it is verified.
            let whole = folder.bytes(name)
            var bytes = whole
            bytes[4_096 + 372] ^= 1
            try folder.replace(name, bytes)
            for out in ["-", "\(folder.path)/damaged"] {
                let ended = try backup(folder, to: out)
                #expect(ended.code == 65, "\(out): \(ended.errors)")
                #expect(ended.errors.contains("verify found 0 differences, 1 corruptions"))
            }
            try folder.replace(name, whole)
            #expect(try backup(folder, to: "-").code == 0)
            try FileManager.default.removeItem(atPath: "\(folder.data)/\(name)")
            let ended = try backup(folder, to: "\(folder.path)/copy")
            #expect(ended.code == 65 && ended.errors.contains(name), "\(ended.errors)")
        }
    }
}
