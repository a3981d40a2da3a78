import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// The keys file of the real daemon: who is taken under it, and who vanishes.
    struct TagTests {
        private static let first: [UInt8] = Array(0..<32)
        private static let second: [UInt8] = Array(100..<116)

        private func packets(_ reader: Reader) throws -> [String: Int] {
            try reader.status().packets
        }

        @Test func `with keys only tagged packets count, and nobody else is answered`() throws {
            let folder = try TemporaryFolder()
            let keys = try folder.writeKeys(
                "1 \(Self.first.hex) sender=5\n2 \(Self.second.hex) business=business-0\n")
            let daemon = try DaemonProcess(in: folder, ["--keys", keys])
            let good = HandSender(to: daemon.port, sender: 5, key: (1, Self.first))
            #expect(good.delivers(0..<30))
            let strangers = [
                HandSender(to: daemon.port, sender: 6),
                HandSender(to: daemon.port, sender: 6, key: (1, Self.first)),
                HandSender(to: daemon.port, sender: 5, key: (1, Self.second)),
                HandSender(to: daemon.port, sender: 5, key: (9, Self.first)),
            ]
            for stranger in strangers { stranger.send(40) }
            let plain = Datagrams(to: daemon.port)
            plain.send("{}")
            plain.close()
            for stranger in strangers { #expect(!stranger.listen(withinMilliseconds: 100)) }
            // One bound to a business sends for another: refused, in the ledger only.
            for (id, form) in [(8, .protobuf), (9, .json)] as [(UInt64, HandSender.Form)] {
                let bound = HandSender(
                    to: daemon.port, sender: id, key: (2, Self.second), forms: [form])
                #expect(bound.delivers(0..<6))
            }
            let isTold = eventually {
                daemon.log.contains("as wrong_business: the sender")
            }
            #expect(isTold, "\(daemon.log)")
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            let status = try reader.status()
            #expect(status.events["counted"] == 34)
            #expect(status.events["wrong_business"] == 8)
            #expect(status.packets["bad_tag"] == 3)
            #expect(status.packets["unauthenticated"] == 2)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `SIGHUP reads the keys again, and a file that is not in order changes nothing`()
            throws
        {
            let folder = try TemporaryFolder()
            let keys = try folder.writeKeys("1 \(Self.first.hex)\n")
            let daemon = try DaemonProcess(in: folder, ["--keys", keys])
            let old = HandSender(to: daemon.port, sender: 5, key: (1, Self.first))
            #expect(old.delivers(0..<3))
            _ = try folder.writeKeys("1 nonsense\n")
            daemon.signal(SIGHUP)
            let isRefused = eventually { daemon.log.contains("line 1") }
            #expect(isRefused)
            #expect(old.delivers(3..<6))
            _ = try folder.writeKeys("2 \(Self.second.hex)\n")
            daemon.signal(SIGHUP)
            let isRead = eventually { daemon.log.contains("reloaded: 1 key") }
            #expect(isRead)
            let new = HandSender(to: daemon.port, sender: 6, key: (2, Self.second))
            #expect(new.delivers(0..<3))
            old.send(6)
            #expect(!old.listen(withinMilliseconds: 200))
            #expect(daemon.stop().code == 0)
        }

        @Test
        func `a packet that is sent again under another key is a resend, other bytes are none`()
            throws
        {
            let folder = try TemporaryFolder()
            let keys = try folder.writeKeys("1 \(Self.first.hex)\n2 \(Self.second.hex)\n")
            let daemon = try DaemonProcess(in: folder, ["--keys", keys])
            let old = HandSender(to: daemon.port, sender: 5, key: (1, Self.first))
            #expect(old.delivers(0..<20))
            let new = HandSender(to: daemon.port, sender: 5, key: (2, Self.second))
            #expect(new.delivers(0..<21))
            #expect(new.acks.allSatisfy { $0.status == 0 })
            new.names = { _ in ("reward-9", "business-9") }
            let isRefused = eventually {
                new.send(20)
                new.listen(withinMilliseconds: 20)
                return new.acks.last?.status == 3
            }
            #expect(isRefused)
            #expect(daemon.stop().code == 0)
            let status = try Reader(folder: folder).status()
            #expect(status.events["counted"] == 21 && status.packets["resend"] ?? 0 >= 20)
        }

        @Test func `a keys file that others may read is 78, and keys open the address`() throws {
            let folder = try TemporaryFolder()
            let keys = try folder.writeKeys("1 \(Self.first.hex)\n", mode: 0o644)
            let arguments = ["--data", folder.data, "--http", "off", "--keys", keys]
            let ended = try TestSupport.run("ingestd", arguments, in: folder)
            #expect(ended.code == 78 && ended.errors.contains("0644"))
            _ = try folder.writeKeys("1 \(Self.first.hex)\n")
            let daemon = try DaemonProcess(
                in: folder, ["--keys", keys, "--udp", "0.0.0.0:0"])
            #expect(daemon.stop().code == 0)
        }
    }
}
