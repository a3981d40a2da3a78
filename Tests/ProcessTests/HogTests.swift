import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// A daemon on a real file system on which somebody else takes every byte, or every inode, that becomes free: killed at
    /// random moments, told to stop, and started again, over several lives.
    struct HogTests {
        private static let options = ["--segment-bytes-max", "65536"]

        /// A daemon with a sender, through its lives.
        private final class Scene {
            let folder: TemporaryFolder
            let disk: SmallDisk
            let reader: Reader
            private(set) var daemon: DaemonProcess
            private let sender: HandSender
            private let port: UInt16
            private var sentCount: UInt64 = 200
            private var random: SeededRandom
            private(set) var ends: Set<Int32> = []

            init(_ kind: SmallDisk.Kind, inodes: Int? = nil, seed: UInt64) throws {
                folder = try TemporaryFolder()
                disk = try SmallDisk(
                    at: folder.data, in: folder, megabytes: 32, kind, inodes: inodes)
                reader = Reader(folder: folder)
                daemon = try DaemonProcess(in: folder, HogTests.options)
                port = daemon.port
                sender = HandSender(to: port, sender: seed)
                random = SeededRandom(seed: seed)
                #expect(sender.delivers(0..<sentCount))
            }

            /// Everything below it was acked.
            private var ackedCount: UInt64 {
                sender.acks.filter { $0.status == 0 }.map(\.floor).max() ?? 0
            }

            /// Sends new packets and old ones for a while, whatever becomes of them.
            func send(atMost count: UInt64) {
                let end = sentCount + 1 + random.below(count)
                while sentCount < end {
                    sentCount += 1
                    for sequence in ackedCount..<min(ackedCount + 32, sentCount) {
                        sender.send(sequence)
                    }
                    sender.listen(withinMilliseconds: 2)
                }
            }

            /// Ends the daemon, now and then by SIGTERM, and looks at what it has left.
            func end(_ place: String) throws {
                if random.below(4) == 0 {
                    let ended = daemon.stop()
                    #expect(ended.code == 0 || ended.code == 74, "\(place): \(ended.errors)")
                    ends.insert(ended.code)
                } else {
                    daemon.kill()
                }
                sender.listen(withinMilliseconds: 1)
                let verify = try reader.run("verify")
                #expect(verify.code == 0, "\(place): \(verify.output)")
                #expect(try reader.totals()["clicks", default: 0] >= Int(ackedCount), "\(place)")
            }

            /// Nothing is free, and a start needs nothing, but where two segments were left unsealed.
            /// - Returns: whether it is ready.
            func start() throws -> Bool {
                do {
                    daemon = try DaemonProcess(
                        in: folder, HogTests.options + ["--udp", "127.0.0.1:\(port)"])
                    return true
                } catch let error as DaemonProcess.NotReady {
                    #expect(error.ended.code == 74, "\(error)")
                    #expect(
                        error.ended.errors.contains("copy of a segment of "), "\(error)")
                    return false
                }
            }

            func isTold(_ status: UInt32) -> Bool {
                eventually {
                    send(atMost: 1)
                    return sender.acks.last?.status == status
                }
            }

            func expectAllDelivered() throws {
                #expect(sender.delivers(0..<sentCount))
                #expect(try eventually { try reader.totals()["clicks"] == Int(sentCount) })
                let ended = daemon.stop()
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(try reader.totals()["clicks"] == Int(sentCount))
                let verify = try reader.run("verify")
                #expect(verify.code == 0, "\(verify.output)")
                #expect(folder.files(ending: ".tmp").isEmpty)
            }
        }

        @Test(
            .enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"),
            arguments: SmallDisk.Kind.allCases, [1, 2] as [UInt64])
        func `beside one who takes every byte no acked event is lost, over six lives`(
            kind: SmallDisk.Kind, seed: UInt64
        ) throws {
            let scene = try Scene(kind, seed: seed)
            defer { scene.disk.unmount() }
            var hog: DiskHog?
            for life in 0..<6 {
                scene.send(atMost: 60)
                // In the middle of what is received, and over two lives.
                if life % 3 == 0 { hog = try DiskHog(on: scene.folder.data, .bytes) }
                scene.send(atMost: 60)
                if life == 4 { #expect(scene.isTold(2)) }
                try scene.end("\(kind), seed \(seed), life \(life)")
                if life % 3 == 2 { hog?.stop() }
                if try scene.start() { continue }
                hog?.stop()
                try #require(try scene.start())
            }
            try scene.expectAllDelivered()
        }

        @Test(.enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"))
        func `without an inode it starts, sheds, and goes on when there is one`() throws {
            let scene = try Scene(.tmpfs, inodes: 200, seed: 5)
            defer { scene.disk.unmount() }
            let hog = try DiskHog(on: scene.folder.data, .inodes)
            for life in 0..<3 {
                #expect(scene.isTold(2))
                #expect(eventually { scene.daemon.log.contains("no inode is free") })
                try scene.end("life \(life)")
                try #require(try scene.start())
            }
            hog.stop()
            try scene.expectAllDelivered()
        }
    }
}
