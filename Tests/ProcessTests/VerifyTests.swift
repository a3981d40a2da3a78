import Foundation
import Glibc
import IngestFormat
import TestSupport
import Testing

extension ProcessSuite {
    /// The exit codes of `verify`, as a script sees them.
    struct VerifyTests {
        @Test(arguments: DirectoryState.allCases)
        func `flipped bits in any file end with 65`(state: DirectoryState) throws {
            let folder = try state.make()
            let reader = Reader(folder: folder)
            #expect(try reader.run("verify").code == 0)
            var random = SeededRandom(seed: 5)
            let names = folder.dataFiles
            #expect(names.contains("LOCK") && names.contains("durable-mark"))
            // The reserve is room and no file of the log: nobody reads it.
            for name in names where name != "reserve" {
                let good = folder.bytes(name)
                if good.isEmpty { continue }
                let content = good.lastIndex { $0 != 0 } ?? 0
                // The first, the last, two anywhere in what was written, one in what was preallocated.
                for offset in [
                    0, content, Int.random(in: 0...content, using: &random),
                    Int.random(in: 0...content, using: &random),
                    Int.random(in: content..<good.count, using: &random),
                ] {
                    var bad = good
                    bad[offset] ^= UInt8(1) << UInt8.random(in: 0..<8, using: &random)
                    try folder.replace(name, bad)
                    let ended = try reader.run("verify")
                    #expect(ended.code == 65, "\(name), byte \(offset)")
                    #expect(ended.errorLines.count == 1, "\(ended.errors)")
                }
                try folder.replace(name, good)
            }
            #expect(try reader.run("verify").code == 0)
        }

        @Test(arguments: DirectoryState.allCases)
        func `a counter altered in any run ends with 1`(state: DirectoryState) throws {
            let folder = try state.make()
            let reader = Reader(folder: folder)
            #expect(try reader.run("rebuild").code == 0)
            let manifest = try #require(folder.files(ending: ".manifest").last)
            let goodManifest = folder.bytes(manifest)
            let runs = folder.files(ending: ".run").filter { !$0.contains("names") }
            #expect(runs.count == 3)
            for name in runs {
                let good = folder.bytes(name)
                let (run, entry) = try Self.altered(good)
                var listing = try Manifest.decode(goodManifest)
                if let index = listing.runs.firstIndex(where: { $0.fileName.text == name }) {
                    listing.runs[index] = entry
                }
                try folder.replace(name, run)
                try folder.replace(manifest, listing.encode())
                let ended = try reader.run("verify")
                #expect(ended.code == 1, "\(name): \(ended.output)")
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
                #expect(ended.output.contains(name), "\(ended.output)")
                try folder.replace(name, good)
                try folder.replace(manifest, goodManifest)
            }
            #expect(try reader.run("verify").code == 0)
        }

        /// A run with one more impression in its last row, all checksums right, and its entry.
        private static func altered(_ bytes: [UInt8]) throws -> ([UInt8], RunEntry) {
            let run = try Run.decode(bytes)
            var encoder = CounterTableEncoder(hasDay: run.counters.hasDay)
            var left = Int(run.header.rowCount)
            let page = CounterPage()
            var cursor = run.counters.makeCursor()
            while try cursor.nextPage(into: page) {
                for row in 0..<page.rowCount {
                    var counters = page.counters(row)
                    left -= 1
                    if left == 0 { counters[.impressions] += 1 }
                    encoder.append(key: page.key(row), day: page.day(row), counters: counters)
                }
            }
            let table = encoder.finish()
            let metadata = RunMetadata(try run.header.decodeMetadata(run.metadata))
            let header = RunHeader(
                table: run.header.table, fileNumber: run.header.fileNumber,
                directory: run.header.directory, span: run.header.span,
                generation: run.header.generation, createdAt: run.header.createdAt,
                index: table.index, metadata: metadata)
            let altered = Run(header: header, counters: table, metadata: metadata.bytes)
            return (altered.encode(), header.entry)
        }

        @Test func `what is no file is reported beside what is damaged`() throws {
            let folder = try DirectoryState.clean.make()
            #expect(try Reader(folder: folder).run("rebuild").code == 0)
            let run = try #require(folder.files(ending: ".days.run").first)
            var bytes = folder.bytes(run)
            bytes[140] ^= 1
            try folder.replace(run, bytes)
            let segment = "0000000099.segment"
            try FileManager.default.createDirectory(
                atPath: folder.data + "/" + segment, withIntermediateDirectories: false)
            try Data().write(to: URL(fileURLWithPath: folder.data + "/aside"))
            let ended = try Reader(folder: folder).run("verify")
            #expect(ended.code == 65 && ended.errorLines.count == 1)
            for name in [run, segment, "aside"] {
                #expect(ended.output.contains(name), "\(ended.output)")
            }
        }

        @Test func `a verdict is lost to no closed pipe and no full disk`() throws {
            let folder = try DirectoryState.clean.make()
            let data = ["--data", folder.data]
            let segment = "0000000001.segment"
            for (arguments, code) in [
                (["verify"] + data, Int32(0)), (["rewards"] + data, 0), (["--help"], 0),
                (["inspect", segment] + data, 0),
            ] {
                #expect(try Self.runWithClosedPipe(arguments, in: folder) == code, "\(arguments)")
            }
            // Closed by who started it, it takes nothing either.
            for arguments in [
                ["rewards"], ["export", "rewards", "--format", "csv", "--out", "-"],
                ["backup", "--out", "-"],
            ] {
                let words = (arguments + data).map { "'\($0)'" }.joined(separator: " ")
                let program = Programs.path("ingest-reader")
                let ended = try TestSupport.run(
                    "/bin/sh", ["-c", "exec '\(program)' \(words) >&-"], in: folder)
                #expect(ended.code == 74, "\(arguments): \(ended.errors)")
            }
            #expect(try Self.runOnFullDisk(["rewards"] + data, in: folder) == 74)
            #expect(try Self.runOnFullDisk(["verify"] + data, in: folder) == 74)
            #expect(try Self.runOnFullDisk(["--help"], in: folder) == 74)
            var bytes = folder.bytes(segment)
            bytes[300] ^= 4
            try folder.replace(segment, bytes)
            for arguments in [["verify"] + data, ["inspect", segment] + data] {
                #expect(try Self.runWithClosedPipe(arguments, in: folder) == 65, "\(arguments)")
                #expect(try Self.runOnFullDisk(arguments, in: folder) == 65, "\(arguments)")
            }
        }

        /// Runs the reader with a standard output that nobody reads.
        private static func runWithClosedPipe(
            _ arguments: [String], in folder: TemporaryFolder
        ) throws -> Int32 {
            let pipe = Pipe()
            try pipe.fileHandleForReading.close()
            return try TestSupport.run(
                "ingest-reader", arguments, in: folder, output: pipe.fileHandleForWriting
            ).code
        }

        private static func runOnFullDisk(
            _ arguments: [String], in folder: TemporaryFolder
        ) throws -> Int32 {
            let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
            return try TestSupport.run("ingest-reader", arguments, in: folder, output: full).code
        }
    }
}
