import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// Packets made to harm, some thousand of each kind; `make hostile` sends a million.
    struct HostileTests {
        enum Kind: String, CaseIterable {
            /// Of the right shape, by somebody else: without keys in another's name, with keys under a tag of his own.
            case forged
            /// Taken once already.
            case replayed
            case truncated
            case bitFlipped
            /// As long as UDP allows, and not what they say they are.
            case oversized
        }

        private static let count =
            ProcessInfo.processInfo.environment["INGESTD_HOSTILE_COUNT"].flatMap(Int.init)
            ?? 4_000
        private static let key: (id: UInt16, bytes: [UInt8]) = (1, Array(0..<32))
        /// Beyond what the ring and the block slots take once they have been filled.
        private static let growthByteCountMax = 160 << 20
        /// Of the second half of a flood: it finds everything as the first has left it. A leak of 4 KiB a packet is more,
        /// in a million of them one of 16 bytes.
        private static let laterGrowthByteCountMax = 8 << 20

        @Test(arguments: Kind.allCases, [false, true])
        func `packets made to harm count nothing, get no more than they bring, and take no memory`(
            kind: Kind, hasKeys: Bool
        ) throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder,
                hasKeys
                    ? ["--keys", try folder.writeKeys("\(Self.key.id) \(Self.key.bytes.hex)\n")]
                    : [])
            let good = HandSender(
                to: daemon.port, sender: 5, key: hasKeys ? Self.key : nil,
                forms: [.protobuf, .json])
            #expect(good.delivers(0..<20))
            var flood = Flood(kind: kind, good: good, to: daemon.port, hasKeys: hasKeys)
            defer { flood.close() }
            let residentBefore = try Self.residentByteCount(daemon.pid)
            flood.send(Self.count / 2)
            let residentBetween = try Self.residentByteCount(daemon.pid)
            flood.send(Self.count - Self.count / 2)
            // Who is honest is served all the same.
            #expect(good.delivers(20..<40))
            let residentAfter = try Self.residentByteCount(daemon.pid)
            flood.listen()
            #expect(daemon.stop().code == 0)

            #expect(flood.receivedByteCount <= flood.sentByteCount)
            #expect(residentAfter - residentBefore < Self.growthByteCountMax)
            #expect(residentAfter - residentBetween < Self.laterGrowthByteCountMax)
            let reader = Reader(folder: folder)
            let status = try reader.status()
            #expect(status.events["counted"] == 40)
            #expect(status.packets["accepted"] == 40)
            let refused = status.packets.filter { $0.key != "accepted" }
            #expect(refused.values.reduce(0, +) > Self.count / 2, "\(refused)")
            if hasKeys && kind != .replayed { #expect(flood.receivedByteCount == 0) }
            #expect(try reader.run("verify").code == 0)
            let named = refused.sorted { $0.value > $1.value }.filter { $0.value > 0 }
                .map { "\($0.key) \($0.value)" }.joined(separator: ", ")
            print(
                "\(kind.rawValue), \(hasKeys ? "keys" : "no keys"): \(Self.count) sent, \(named); "
                    + "\(flood.sentByteCount) bytes in, \(flood.receivedByteCount) out; memory "
                    + [residentBefore, residentBetween, residentAfter].map { "\($0 >> 20)" }
                    .joined(separator: ", ") + " MiB")
        }

        private static func residentByteCount(_ pid: Int32) throws -> Int {
            let text = try String(contentsOfFile: "/proc/\(pid)/statm", encoding: .utf8)
            let pages = try #require(Int(text.split(separator: " ")[1]))
            return pages * Int(getpagesize())
        }
    }

    /// Sends packets of one kind from a socket of its own, and counts what comes back.
    private struct Flood {
        private let kind: HostileTests.Kind
        private let good: HandSender
        private let socket: Datagrams
        private let hasKeys: Bool
        private var random = SeededRandom(seed: 9)
        private(set) var sentByteCount = 0
        private(set) var receivedByteCount = 0
        private let sample: [UInt8]
        private let large = [UInt8](repeating: 0x5A, count: 65_507)

        init(kind: HostileTests.Kind, good: HandSender, to port: UInt16, hasKeys: Bool) {
            (self.kind, self.good, self.hasKeys) = (kind, good, hasKeys)
            socket = Datagrams(to: port)
            // The sequence is one that has not come yet.
            sample = good.packet(1_000)
        }

        func close() { socket.close() }

        mutating func send(_ count: Int) {
            for number in 0..<count {
                let packet = next(number)
                socket.send(packet)
                sentByteCount += packet.count
                if number % 32 == 0 { listen() }
            }
        }

        mutating func listen() {
            while let answer = socket.receive(withinMilliseconds: 0) {
                receivedByteCount += answer.count
            }
        }

        private mutating func next(_ number: Int) -> [UInt8] {
            switch kind {
            case .forged: return forged(UInt64(number))
            case .replayed: return good.packet(UInt64(number % 20))
            case .truncated:
                return Array(sample.prefix(Int.random(in: 0..<sample.count, using: &random)))
            case .bitFlipped:
                var bytes = sample
                bytes[Int.random(in: 0..<bytes.count, using: &random)] ^=
                    1 << UInt8.random(in: 0..<8, using: &random)
                return bytes
            case .oversized:
                let byteCount = Int.random(in: 20_000...65_507, using: &random)
                return Array(sample.prefix(40)) + large.prefix(byteCount - 40)
            }
        }

        private func forged(_ number: UInt64) -> [UInt8] {
            if hasKeys {
                let stranger = FramedPacket(
                    flags: 3, keyID: 1, sender: 5, epoch: good.epoch, sequence: 1_000 + number,
                    payload: HandSender.payload(number))
                return stranger.bytes + HandSender.tag(stranger.bytes, Array(100..<116))
            }
            // Other events under sequences that came already, or an epoch that cannot be.
            let isLate = number % 2 == 0
            return FramedPacket(
                flags: 1, sender: 5, epoch: isLate ? good.epoch : .max, sequence: number % 20,
                payload: HandSender.payload(number + 1)
            ).bytes
        }
    }
}
