import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// Acks of the real daemon, over real sockets: what they promise, and that nothing counts twice.
    struct AckTests {
        /// The clicks of packets 0 ..< count, by reward.
        private func clicks(_ count: UInt64) -> [String: Int] {
            (0..<count).reduce(into: [:]) { $0["reward-\($1 % 7)", default: 0] += 1 }
        }

        private func counted(_ reader: Reader) throws -> [String: Int] {
            let rows = try Reader.rows(of: reader.run("rewards", "--format", "ndjson").output)
            return Dictionary(
                uniqueKeysWithValues: rows.map { ($0["id"] as! String, $0["clicks"] as! Int) })
        }

        private func ledger(_ reader: Reader, _ sender: UInt64) throws -> [String: Any] {
            let text = try reader.run(
                "ledger", "--sender", "\(sender)", "--format", "ndjson"
            ).output
            return try Reader.rows(of: text).first ?? [:]
        }

        @Test func `A1: an ack comes after the commit, and everything below its floor is there`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let sender = HandSender(to: daemon.port, sender: 7)
            #expect(sender.delivers(0..<100))
            daemon.kill()
            let reader = Reader(folder: folder)
            #expect(try counted(reader) == clicks(100))
            let ack = try #require(sender.acks.last)
            #expect(ack.floor == 100 && ack.credit >= 64)
            let row = try ledger(reader, 7)
            #expect(row["packetsReceived"] as? Int == 100)
            #expect(row["packetsMissing"] as? Int == 0)
            #expect(row["packetsOpen"] as? Int == 0)
            #expect(row["epoch"] as? String == "\(sender.epoch)")
        }

        /// What a copied spool does, or a cloned machine: the sequences are those of a sender, and the bytes are others.
        @Test(arguments: [true, false])
        func `W6: a sequence with other bytes is a conflict also after a restart`(isKilled: Bool)
            throws
        {
            let folder = try TemporaryFolder()
            var daemon = try DaemonProcess(in: folder)
            #expect(HandSender(to: daemon.port, sender: 7).delivers(0..<100))
            if isKilled { daemon.kill() } else { #expect(daemon.stop().code == 0) }
            daemon = try DaemonProcess(in: folder)
            let sender = HandSender(to: daemon.port, sender: 7)
            // The names are those of another number.
            let own = sender.names
            sender.names = { own($0 + 1) }
            for (place, sequence) in [3, 99].enumerated() {
                sender.send(UInt64(sequence))
                let isRefused = eventually {
                    sender.listen(withinMilliseconds: 10)
                    return sender.acks.count { $0.status == 3 } > place
                }
                #expect(isRefused)
            }
            sender.names = own
            sender.send(99)
            let isResend = eventually {
                sender.listen(withinMilliseconds: 10)
                return sender.acks.last?.status == 0
            }
            #expect(isResend && sender.acks.last?.floor == 100)
            #expect(daemon.stop().code == 0)
            let row = try ledger(Reader(folder: folder), 7)
            #expect((row["packetsRefused"] as? [String: Int])?["sequence_conflict"] == 2)
            #expect(try #require(row["packetsResent"] as? Int) >= 1)
            #expect(try counted(Reader(folder: folder)) == clicks(100))
            #expect(try Reader(folder: folder).run("verify", "--deep").code == 0)
        }

        @Test(
            arguments: zip(
                [1, 2, 3] as [UInt64],
                [[.protobuf], [.json], [.protobuf, .json]] as [[HandSender.Form]]))
        func `with loss and kill -9 every packet counts once, and sent again it is a resend`(
            seed: UInt64, forms: [HandSender.Form]
        ) throws {
            var random = SeededRandom(seed: seed)
            let folder = try TemporaryFolder()
            let options = ["--segment-bytes-max", seed == 1 ? "65536" : "268435456"]
            var daemon: DaemonProcess? = try DaemonProcess(in: folder, options)
            let port = try #require(daemon?.port)
            let sender = HandSender(to: port, sender: 9, forms: forms)
            let isDelivered = try sender.deliver(
                0..<600, isLost: { _ in Int.random(in: 0..<5, using: &random) == 0 }
            ) { round in
                guard round % 7 == 6 else { return }
                daemon?.kill()
                daemon = nil
                daemon = try DaemonProcess(in: folder, options + ["--udp", "127.0.0.1:\(port)"])
            }
            #expect(isDelivered)
            let reader = Reader(folder: folder)
            #expect(try counted(reader) == clicks(600))
            let before = try reader.tables()
            daemon?.kill()
            daemon = try DaemonProcess(in: folder, options + ["--udp", "127.0.0.1:\(port)"])
            let earlier = try #require(try ledger(reader, 9)["packetsResent"] as? Int)
            for sequence in 0..<600 as Range<UInt64> {
                sender.send(sequence)
                if sequence % 50 == 49 { sender.listen(withinMilliseconds: 20) }
            }
            // The counts of resends are in the log within a second.
            let areResends = try eventually {
                try ledger(reader, 9)["packetsResent"] as? Int == earlier + 600
            }
            #expect(areResends)
            #expect(try reader.tables() == before)
            #expect(try ledger(reader, 9)["packetsMissing"] as? Int == 0)
            #expect(daemon?.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `R4: an epoch that has ended takes nothing more, also after a restart`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let sender = HandSender(to: daemon.port, sender: 12)
            #expect(sender.delivers(0..<20))
            sender.heartbeat(next: 20, base: 20, ends: true)
            func isRefused(_ sender: HandSender) -> Bool {
                eventually {
                    sender.send(20)
                    sender.listen(withinMilliseconds: 20)
                    return sender.acks.last?.status == 3
                }
            }
            #expect(isRefused(sender))
            daemon.kill()
            let next = try DaemonProcess(in: folder)
            #expect(isRefused(HandSender(to: next.port, sender: 12)))
            #expect(HandSender(to: next.port, sender: 12, epoch: (1 << 60) + 2).delivers(0..<4))
            #expect(next.stop().code == 0)
            let reader = Reader(folder: folder)
            #expect(try counted(reader) == clicks(20).merging(clicks(4)) { $0 + $1 })
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `a gap is given up by a heartbeat's base, and then missing`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let sender = HandSender(to: daemon.port, sender: 11)
            for sequence in [0, 1, 4, 5] as [UInt64] { sender.send(sequence) }
            #expect(sender.listen(withinMilliseconds: 2_000))
            let isAcked = eventually {
                sender.listen(withinMilliseconds: 10)
                return sender.acks.contains { $0.floor == 2 && $0.words[0] == 0b1100 }
            }
            #expect(isAcked)
            sender.heartbeat(next: 8, base: 4)
            let isRaised = eventually {
                sender.listen(withinMilliseconds: 10)
                return sender.acks.last?.floor == 6
            }
            #expect(isRaised)
            let reader = Reader(folder: folder)
            #expect(daemon.stop().code == 0)
            let row = try ledger(reader, 11)
            #expect(row["packetsAnnounced"] as? Int == 8)
            #expect(row["packetsReceived"] as? Int == 4)
            #expect(row["packetsMissing"] as? Int == 2)
            #expect(row["packetsOpen"] as? Int == 2)
        }

        @Test
        func
            `W2, A1: what failed identity is never answered, and no answer is larger than its packet`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let sender = HandSender(to: daemon.port, sender: 12)
            var damaged = sender.packet(0)
            damaged[damaged.count - 1] ^= 1
            sender.send(damaged)
            sender.send(Array(sender.packet(0).dropLast()))
            sender.send(
                FramedPacket(
                    flags: 1, sender: 0, epoch: sender.epoch, payload: HandSender.payload(0)
                )
                .bytes)
            sender.send(
                FramedPacket(flags: 1, sender: 12, epoch: sender.epoch, payload: []).bytes)
            #expect(!sender.listen(withinMilliseconds: 300))
            // The empty batch, of 40 bytes, was consumed without an answer.
            #expect(sender.delivers(1..<2))
            #expect(sender.acks.last?.floor == 2)
            #expect(
                sender.acks.allSatisfy { 80 + 8 * ($0.words.count - 1) <= sender.packet(1).count })
            #expect(daemon.stop().code == 0)
        }
    }
}
