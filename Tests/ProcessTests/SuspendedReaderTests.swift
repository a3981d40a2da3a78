import Foundation
import Glibc
import IngestFormat
import TestSupport
import Testing

extension ProcessSuite {
    /// Real readers that are stopped by SIGSTOP while a daemon lets the rows expire that they are on.
    struct SuspendedReaderTests {
        private static let segments = ["--segment-bytes-max", "65536"]

        /// A directory from which some segments have expired, before anybody reads it.
        private struct Scene {
            let folder = try! TemporaryFolder()
            let reader: Reader
            /// The last segment that had expired then; a lease begins behind it.
            private(set) var firstExpired: UInt32 = 0

            init() throws {
                reader = Reader(folder: folder)
                let daemon = try DaemonProcess(in: folder, SuspendedReaderTests.segments)
                #expect(try daemon.send(try SampleEvents.file(in: folder)).code == 0)
                #expect(daemon.stop().code == 0)
                firstExpired = try expire(to: "220000")
                #expect(firstExpired >= 1)
            }

            func newest() throws -> Manifest {
                let name = try #require(folder.files(ending: ".manifest").last)
                return try Manifest.decode(folder.bytes(name))
            }

            /// - Returns: the last segment that has expired.
            func expire(to byteCount: String) throws -> UInt32 {
                let before = try newest().lastExpired
                let daemon = try DaemonProcess(
                    in: folder, SuspendedReaderTests.segments + ["--retention-bytes", byteCount])
                #expect(eventually { (try? newest().lastExpired) ?? before > before })
                #expect(daemon.stop().code == 0)
                return try newest().lastExpired.rawValue
            }

            /// As if what has expired had done so that long ago.
            func age(seconds: Int64) throws {
                var manifest = try newest()
                manifest.droppedSegment = manifest.lastExpired
                manifest.droppedAt =
                    Int64(Date().timeIntervalSince1970 - Double(seconds)) * 1_000_000
                try folder.replace(
                    try #require(folder.files(ending: ".manifest").last), manifest.encode())
            }

            func isThere(_ number: UInt32) -> Bool {
                FileManager.default.fileExists(
                    atPath:
                        "\(folder.data)/\(FileName.segment(SegmentNumber(rawValue: number)).text)")
            }

            /// Runs a daemon until it has removed what expired first, and sees whether what did later is there.
            func remove(leased last: UInt32, isLeft: Bool) throws {
                let daemon = try DaemonProcess(in: folder, SuspendedReaderTests.segments)
                #expect(eventually { !isThere(1) })
                #expect(eventually { isThere(last) == isLeft })
                #expect((firstExpired + 1...last).allSatisfy { isThere($0) == isLeft })
                #expect(daemon.stop().code == 0)
            }
        }

        private func isStopped(_ pid: Int32) -> Bool {
            let status = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
            return status.contains("\nState:\tT") || status.contains("\nState:\tt")
        }

        @Test(arguments: [120, 7_200] as [Int64])
        func `an export that was stopped has all rows of its cut, or says that some are gone`(
            seconds: Int64
        ) throws {
            let scene = try Scene()
            let words = ["export", "events", "--format", "ndjson", "--out", "-"]
            let whole = try run(
                "ingest-reader", words + ["--data", scene.folder.data], in: scene.folder)
            #expect(whole.code == 0 && whole.output.utf8.count > 1 << 20)
            // It has begun when there is something in the pipe, and cannot end before that is read.
            let pipe = Pipe()
            let export = try Running(
                "ingest-reader", words + ["--data", scene.folder.data], in: scene.folder,
                output: pipe.fileHandleForWriting)
            try pipe.fileHandleForWriting.close()
            let start = try #require(try pipe.fileHandleForReading.read(upToCount: 1))
            export.send(SIGSTOP)
            #expect(eventually { isStopped(export.pid) })
            let last = try scene.expire(to: "1")
            #expect(last > scene.firstExpired)
            try scene.age(seconds: seconds)
            try scene.remove(leased: last, isLeft: seconds < 3_600)
            export.send(SIGCONT)
            let rest = try pipe.fileHandleForReading.readToEnd() ?? Data()
            let ended = export.end()
            let text = String(decoding: start + rest, as: UTF8.self)
            // It reads ahead of the pipe, and may have had all rows when it was stopped; LeaseTests stops at each open.
            if seconds < 3_600 || ended.code == 0 {
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(text == whole.output)
            } else {
                #expect(ended.code == 74 && ended.errorLines.count == 1, "\(ended.errors)")
                #expect(ended.errors.contains("retention removed rows before they were read"))
                #expect(whole.output.hasPrefix(text))
            }
            #expect(try scene.reader.run("verify").code == 0)
        }

        private static let strace = "/usr/bin/strace"
        private static let hasStrace = FileManager.default.isExecutableFile(atPath: strace)

        /// Which of the opens of verify's first thread is that of the durable mark: it has its lease then, and no segment.
        private func markOpen(_ folder: TemporaryFolder) throws -> Int {
            let log = "\(folder.path)/opens"
            let ended = try run(
                Self.strace,
                ["-f", "-q", "-o", log, "-e", "trace=openat"]
                    + [Programs.path("ingest-reader"), "verify", "--data", folder.data],
                in: folder)
            #expect(ended.code == 0, "\(ended.errors)")
            let opens = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
                .filter { $0.contains(" openat(") }
            let mark = try #require(opens.firstIndex { $0.contains("durable-mark") })
            let thread = opens[mark].prefix { $0 != " " } + " "
            return opens[...mark].count { $0.hasPrefix(thread) }
        }

        @Test(
            .enabled(if: hasStrace, "strace stops a program at an open"),
            arguments: [120, 7_200] as [Int64])
        func `verify finds nothing wrong, and says so where the rows are gone`(
            seconds: Int64
        ) throws {
            let scene = try Scene()
            let number = try markOpen(scene.folder)
            let verify = try Running(
                Self.strace,
                ["-D", "-f", "-q", "-o", "/dev/null", "-e", "trace=openat"]
                    + ["-e", "inject=openat:signal=SIGSTOP:when=\(number)"]
                    + [Programs.path("ingest-reader"), "verify", "--data", scene.folder.data]
                    + ["--format", "json"], in: scene.folder)
            #expect(eventually { isStopped(verify.pid) || !verify.isRunning })
            #expect(verify.isRunning)
            let last = try scene.expire(to: "1")
            try scene.age(seconds: seconds)
            try scene.remove(leased: last, isLeft: seconds < 3_600)
            verify.send(SIGCONT)
            let ended = verify.end()
            #expect(ended.code == 0, "\(ended.output)")
            #expect(ended.output.contains("\"corruptions\":0"))
            #expect(
                ended.output.contains("expired while verify ran") == (seconds > 3_600),
                "\(ended.output)")
        }
    }
}
