import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// Disks that are full, and fail, under the real daemon: real file systems of 64 MiB, and calls that the kernel
    /// is made to refuse.
    struct ShortageTests {
        private static let full = "ingestion paused, retrying: disk full"

        /// A daemon that has taken something in, and then has no room for more.
        private struct Scene {
            let folder: TemporaryFolder
            let disk: SmallDisk
            let sender: HandSender
            let reader: Reader
            var daemon: DaemonProcess

            /// - Parameter options: as it is, a segment is full after a few packets, and the next one needs new room.
            init(
                _ kind: SmallDisk.Kind, _ options: [String] = ["--segment-bytes-max", "65536"]
            ) throws {
                folder = try TemporaryFolder()
                disk = try SmallDisk(at: folder.data, in: folder, megabytes: 64, kind)
                daemon = try DaemonProcess(in: folder, options)
                sender = HandSender(to: daemon.port, sender: 31)
                reader = Reader(folder: folder)
                #expect(sender.delivers(0..<200))
            }

            /// Sends until the daemon says that the disk is full; then once more by a heartbeat.
            func isToldThatItIsFull() -> Bool {
                var number: UInt64 = 0
                let isTold = eventually {
                    sender.send(200 + number % 400)
                    number += 1
                    sender.listen(withinMilliseconds: 10)
                    return sender.acks.last?.status == 2
                }
                let count = sender.acks.count
                return isTold
                    && eventually {
                        sender.heartbeat(next: 600, base: 200)
                        sender.listen(withinMilliseconds: 10)
                        return sender.acks.count > count && sender.acks.last?.status == 2
                    }
            }

            /// What is acked is there for readers, and `verify` finds nothing.
            func expectAcked() throws {
                let acked = sender.acks.filter { $0.status == 0 }.map(\.floor).max() ?? 0
                #expect(acked >= 200)
                #expect(try reader.totals()["clicks", default: 0] >= Int(acked))
                #expect(try reader.run("day", "business-1", "2000-01-01").code == 66)
                let verify = try reader.run("verify")
                #expect(verify.code == 0, "\(verify.output)")
            }

            /// Gives the room back, and expects that everything is delivered, once.
            func expectAllDelivered() throws {
                try disk.free()
                #expect(sender.delivers(0..<600))
                #expect(sender.acks.last { $0.status == 0 }?.floor == 600)
                #expect(try eventually { try reader.totals()["clicks"] == 600 })
                // The counts of what was shed wait in memory while nothing can be written.
                #expect(try eventually { try reader.status().packets["shed", default: 0] > 0 })
                let ended = daemon.stop()
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(ended.errors.contains("ingestion resumed after "))
                #expect(try reader.totals()["clicks"] == 600)
                let verify = try reader.run("verify")
                #expect(verify.code == 0, "\(verify.output)")
            }
        }

        @Test func `a log of more segments than there may be open files is started and verified`()
            throws
        {
            let folder = try TemporaryFolder()
            let lives = 60
            for life in 0..<lives {
                let daemon = try DaemonProcess(in: folder)
                let line =
                    #"{"eventType":"impression","rewardId":"r","businessId":"b","#
                    + #""sessionId":"s\#(life)","timestamp":\#(1_700_000_000_000 + life)}"#
                #expect(try daemon.send(folder.write("event.ndjson", line + "\n")).code == 0)
                #expect(daemon.stop().code == 0)
            }
            let reader = Reader(folder: folder)
            #expect(try reader.status().segments.sealed == lives)
            let daemon = try DaemonProcess(
                in: folder, under: ["/bin/bash", "-c", "ulimit -n 128; exec \"$0\" \"$@\""])
            #expect(daemon.stop().code == 0)
            for command in ["verify", "verify --deep"] {
                let ended = try run(
                    "/bin/bash",
                    [
                        "-c", "ulimit -n 64; exec \"$0\" \(command) --data \"$1\"",
                        Programs.path("ingest-reader"), folder.data,
                    ], in: folder)
                #expect(ended.code == 0, "\(ended.errors)")
            }
        }

        @Test(
            .enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"),
            arguments: SmallDisk.Kind.allCases)
        func `on a full disk it sheds, answers queries, and goes on when there is room`(
            kind: SmallDisk.Kind
        ) throws {
            let scene = try Scene(kind)
            defer { scene.disk.unmount() }
            try scene.disk.fill()
            #expect(scene.isToldThatItIsFull())
            #expect(scene.daemon.log.contains(Self.full))
            try scene.expectAcked()
            #expect(scene.daemon.isRunning)
            try scene.expectAllDelivered()
        }

        @Test(
            .enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"),
            arguments: SmallDisk.Kind.allCases)
        func `killed on a full disk it starts there, sheds, and goes on when there is room`(
            kind: SmallDisk.Kind
        ) throws {
            var scene = try Scene(kind)
            defer { scene.disk.unmount() }
            try scene.disk.fill()
            #expect(scene.isToldThatItIsFull())
            let port = scene.daemon.port
            for _ in 0..<2 {
                scene.daemon.kill()
                try scene.disk.fill()
                scene.daemon = try DaemonProcess(in: scene.folder, ["--udp", "127.0.0.1:\(port)"])
                // A start frees what was preallocated behind the last block.
                try scene.disk.fill()
                #expect(scene.isToldThatItIsFull())
                try scene.expectAcked()
            }
            try scene.expectAllDelivered()
        }

        @Test(.enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"))
        func `a start on a full disk that has to copy the log has the room of the reserve`() throws
        {
            // Nothing of the log is published, so that none of it can be sealed where it is.
            var scene = try Scene(.tmpfs, ["--compact-interval-seconds", "3600"])
            defer { scene.disk.unmount() }
            try scene.disk.fill()
            scene.daemon.kill()
            try scene.disk.fill()
            let port = scene.daemon.port
            scene.daemon = try DaemonProcess(in: scene.folder, ["--udp", "127.0.0.1:\(port)"])
            #expect(scene.daemon.log.contains("recovery used the reserve"))
            #expect(scene.daemon.log.contains("sealed by copy"))
            try scene.expectAcked()
            try scene.disk.free()
            #expect(scene.sender.delivers(200..<300))
            #expect(scene.daemon.stop().code == 0)
            #expect(try scene.reader.totals()["clicks"] == 300)
            #expect(try scene.reader.run("verify").code == 0)
        }

        @Test(
            .enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"),
            arguments: SmallDisk.Kind.allCases)
        func `a start on a full disk copies many segments with the room of one`(
            kind: SmallDisk.Kind
        ) throws {
            let options = ["--segment-bytes-max", "65536", "--compact-interval-seconds", "3600"]
            var scene = try Scene(kind, options)
            defer { scene.disk.unmount() }
            let events = try SampleEvents.file(in: scene.folder)
            for _ in 0..<2 { #expect(try scene.daemon.send(events).code == 0) }
            let segments = try FileManager.default.contentsOfDirectory(atPath: scene.folder.data)
                .filter { $0.hasSuffix(".segment") }
            // Together they are far more than the reserve.
            #expect(segments.count >= 8)
            try scene.disk.fill()
            let port = scene.daemon.port
            for _ in 0..<2 {
                scene.daemon.kill()
                try scene.disk.fill()
                scene.daemon = try DaemonProcess(
                    in: scene.folder, options + ["--udp", "127.0.0.1:\(port)"])
                try scene.expectAcked()
            }
            try scene.disk.free()
            #expect(scene.sender.delivers(200..<300))
            #expect(scene.daemon.stop().code == 0)
            #expect(try scene.reader.run("verify").code == 0)
        }

        @Test(.enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"))
        func `told to stop on a full disk it writes into the reserve, and loses nothing acked`()
            throws
        {
            let scene = try Scene(.tmpfs)
            defer { scene.disk.unmount() }
            try scene.disk.fill()
            #expect(scene.isToldThatItIsFull())
            // The reserve is there for this too, and it is enough.
            let ended = scene.daemon.stop()
            #expect(ended.code == 0, "\(ended.errors)")
            try scene.expectAcked()
        }

        @Test(.enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"))
        func `on a disk that has become read-only it sheds, and answers queries`() throws {
            let scene = try Scene(.ext4)
            defer { scene.disk.unmount() }
            try scene.disk.failReadOnly()
            #expect(scene.isToldThatItIsFull())
            #expect(scene.daemon.log.contains("Read-only file system"))
            try scene.expectAcked()
            let ended = scene.daemon.stop()
            #expect(ended.code == 74, "\(ended.errors)")
            #expect(ended.errorLines.last?.contains("remount it read-write") == true)
            try scene.expectAcked()
        }

        @Test func `without descriptors it goes on as far as it can, and wholly when it has some`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--segment-bytes-max", "65536"])
            func limit(_ count: String) throws {
                let ended = try run(
                    "/usr/bin/env", ["prlimit", "--pid", "\(daemon.pid)", "--nofile=\(count):"],
                    in: folder)
                #expect(ended.code == 0, "\(ended.errors)")
            }
            let hand = HandSender(to: daemon.port, sender: 32)
            #expect(hand.delivers(0..<20))
            try limit("3")
            let sender = try Running(
                "ingest-send", ["--to", daemon.address, try SampleEvents.file(in: folder)],
                in: folder)
            #expect(eventually { daemon.log.contains("Too many open files") })
            let isTold = eventually {
                hand.send(20)
                hand.listen(withinMilliseconds: 10)
                return hand.acks.last?.status == 1
            }
            #expect(isTold)
            #expect(daemon.isRunning)
            try limit("256")
            let sent = sender.end()
            #expect(sent.code == 0, "\(sent.errors)")
            #expect(hand.delivers(20..<21))
            let reader = Reader(folder: folder)
            let ended = daemon.stop()
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(
                try reader.sees(
                    impressions: SampleEvents.impressionCount,
                    clicks: SampleEvents.clickCount + 21))
            #expect(try reader.run("verify").code == 0)
        }

        private static let strace = "/usr/bin/strace"
        private static let hasStrace = FileManager.default.isExecutableFile(atPath: strace)

        /// A daemon whose `number`-th fdatasync the kernel is made to refuse.
        private func daemon(
            in folder: TemporaryFolder, refusingSync number: Int, with error: String
        ) throws -> DaemonProcess {
            try DaemonProcess(
                in: folder,
                under: [
                    Self.strace, "-D", "-f", "-q", "-o", "/dev/null", "-e", "trace=fdatasync",
                    "-e", "inject=fdatasync:error=\(error):when=\(number)",
                ])
        }

        @Test(.enabled(if: hasStrace, "strace makes the kernel refuse a call"))
        func `a sync that fails ends it with 71, and nothing acked is lost`() throws {
            let folder = try TemporaryFolder()
            let daemon = try daemon(in: folder, refusingSync: 6, with: "EIO")
            let sender = HandSender(to: daemon.port, sender: 33)
            var number: UInt64 = 0
            let isOver = eventually {
                sender.send(number)
                number += 1
                sender.listen(withinMilliseconds: 10)
                return !daemon.isRunning
            }
            #expect(isOver)
            let ended = daemon.end()
            #expect(ended.code == 71)
            let said = ended.errorLines.filter { $0.hasPrefix("ingestd: ") }
            #expect(said.count == 1)
            for word in ["durability lost", "fdatasync", folder.data, "check the disk"] {
                #expect(said.first?.contains(word) == true, "\(ended.errors)")
            }
            let acked = sender.acks.map(\.floor).max() ?? 0
            #expect(acked > 0 && acked < number)
            let next = try DaemonProcess(in: folder)
            let again = HandSender(to: next.port, sender: 33)
            #expect(again.delivers(0..<number))
            #expect(next.stop().code == 0)
            let reader = Reader(folder: folder)
            #expect(try reader.totals()["clicks"] == Int(number))
            #expect(try reader.run("verify").code == 0)
        }

        @Test(.enabled(if: hasStrace, "strace makes the kernel refuse a call"))
        func `a sync that has no space is waited for, and its block written again`() throws {
            let folder = try TemporaryFolder()
            let daemon = try daemon(in: folder, refusingSync: 6, with: "ENOSPC")
            let sender = HandSender(to: daemon.port, sender: 34)
            for start in stride(from: 0, to: 100, by: 10) as StrideTo<UInt64> {
                #expect(sender.delivers(start..<start + 10))
            }
            let ended = daemon.stop()
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.errors.contains(Self.full))
            let reader = Reader(folder: folder)
            #expect(try reader.totals()["clicks"] == 100)
            #expect(try reader.run("verify").code == 0)
        }
    }
}
