import Glibc
import IngestFormat

/// What a packet costs on the receive queue before it reaches the ring: header with CRC, protobuf or JSON
/// into descriptors, hashes taken. Prints nanoseconds an event (and a packet), the best of several rounds.
///
/// 11 events of about 125 bytes to a packet, as ad servers send them: reward, business, time, a UUID as
/// 16 bytes, session, consent, viewability, platform; 1,024 different packets, so that no branch is learnt
/// by heart.
func decodeBenchmark() {
    let input = DecodeInput(packetCount: 1024, eventCount: 11)
    let hash = KeyedHash(key: [UInt8](0..<32))!
    let scratch = EventScratch()
    let decoder = EventDecoder(hash: hash)
    let json = JSONEventDecoder(hash: hash)
    let expected = DecodeOutcome.events(count: input.eventCount, malformed: 0)
    unsafe input.framed.report("header and CRC") { bytes in
        if case .packet = unsafe PacketHeader.parse(UnsafeRawBufferPointer(bytes)) { return true }
        return false
    }
    unsafe input.framed.report("protobuf decode") { bytes in
        unsafe decoder.decode(
            UnsafeRawBufferPointer(bytes), payloadOffset: PacketHeader.byteCount,
            payloadByteCount: bytes.count - PacketHeader.byteCount, into: scratch) == expected
    }
    unsafe input.plain.report("JSON decode") { bytes in
        unsafe json.decode(bytes, into: scratch) == expected
    }
}

/// Packets one behind the other in memory, as a receive buffer has them.
private struct PacketArena {
    private let original: [UInt8]
    private let ends: [Int]
    private let eventCount: Int

    init(_ packets: [[UInt8]], eventCount: Int) {
        original = packets.flatMap { $0 }
        var end = 0
        ends = packets.map {
            end += $0.count
            return end
        }
        self.eventCount = eventCount
    }

    func report(_ name: String, _ body: (UnsafeMutableRawBufferPointer) -> Bool) {
        var best = UInt64.max
        for _ in 0..<50 {
            // A fresh copy for each round, since the JSON decoder writes into its datagram.
            var bytes = original
            // SAFETY: the buffer is valid inside the closure, and the ends lie in it.
            unsafe bytes.withUnsafeMutableBytes { bytes in
                let started = cpuNanoseconds()
                var start = 0
                for end in ends {
                    precondition(unsafe body(.init(rebasing: bytes[start..<end])))
                    start = end
                }
                best = min(best, cpuNanoseconds() - started)
            }
        }
        let nanoseconds = Double(best)
        let perPacket = nanoseconds / Double(ends.count)
        print(
            "\(name): \(rounded(perPacket / Double(eventCount))) ns/event, \(rounded(perPacket))",
            "ns/packet of \(original.count / ends.count) bytes")
    }

    /// Of this thread alone, so that a busy machine disturbs less.
    private func cpuNanoseconds() -> UInt64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    private func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }
}

/// The same events framed and plain, from a seed.
private struct DecodeInput {
    let eventCount: Int
    let framed: PacketArena
    let plain: PacketArena

    init(packetCount: Int, eventCount: Int) {
        self.eventCount = eventCount
        var random = DecodeRandom()
        let datagrams = (0..<packetCount).map { _ in
            let lines = (0..<eventCount).map { _ in random.line() }
            return Array(lines.joined(separator: "\n").utf8)
        }
        plain = PacketArena(datagrams, eventCount: eventCount)
        framed = PacketArena(datagrams.map(Self.packet), eventCount: eventCount)
    }

    private static func packet(_ lines: [UInt8]) -> [UInt8] {
        let scratch = EventScratch()
        var lines = lines
        var encoder = EventBatchEncoder(packetByteCountMax: Limits.packetByteCountMax)
        // SAFETY: the buffer is valid inside the closure, and the decoder's places lie in it.
        unsafe lines.withUnsafeMutableBytes { bytes in
            let decoder = JSONEventDecoder(hash: KeyedHash(key: [UInt8](0..<32))!)
            guard case .events(let count, 0) = unsafe decoder.decode(bytes, into: scratch) else {
                preconditionFailure("the benchmark's own events are malformed")
            }
            for i in 0..<count {
                let isTaken = unsafe encoder.append(scratch[i], from: UnsafeRawBufferPointer(bytes))
                precondition(isTaken)
            }
        }
        return encoder.seal(
            PacketHeader(
                kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1),
                sequence: PacketSequence(rawValue: 0)))
    }
}

private struct DecodeRandom {
    private var state: UInt64 = 7

    private mutating func random(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }

    mutating func line() -> String {
        func hex(_ digits: Int) -> String {
            (0..<digits).map { _ in String(random(16), radix: 16) }.joined()
        }
        let type = ["impression", "impression", "impression", "click", "redemption"][random(5)]
        let uuid = [8, 4, 4, 4, 12].map { hex($0) }.joined(separator: "-")
        let time = 1_795_168_800_000 + random(1_000_000_000)
        return """
            {"eventType":"\(type)","rewardId":"reward-\(hex(4 + random(12)))","businessId":"\
            business-\(hex(4 + random(6)))","timestamp":\(time),"eventId":"\(uuid)","consent":"optIn",\
            "sessionId":"\(hex(22))","metadata":{"viewability":"0.\(random(1000))",\
            "duration":"\(random(30)).\(random(10))","platform":"\(["iOS", "tvOS"][random(2)])"}}
            """
    }
}
