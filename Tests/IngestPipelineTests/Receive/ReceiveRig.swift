import CIngestLinux
import Glibc
import IngestFormat
import IngestPipeline
import IngestRing
import PipelineTestSupport
import Synchronization

/// A ring record, copied out.
struct ReceivedRecord {
    let header: RingRecordHeader
    let packet: [UInt8]
    let events: [PacketRow]

    init(_ record: RingRecord) {
        header = record.header
        packet = Array(
            UnsafeRawBufferPointer(start: record.packet, count: Int(header.packetByteCount)))
        let rows = record.rows.assumingMemoryBound(to: PacketRow.self)
        events = (0..<Int(header.eventCount)).map { rows[$0] }
    }

    /// The reward ids of its events.
    var rewards: [String] {
        events.map {
            let start = Int($0.rewardOffset)
            return String(decoding: packet[start..<start + Int($0.rewardByteCount)], as: UTF8.self)
        }
    }

    /// The counts of a refusals record.
    var refusals: [PacketResult: UInt64] {
        var counts: [PacketResult: UInt64] = [:]
        for result in PacketResult.allCases {
            let count = packet.withUnsafeBytes {
                $0.loadUnaligned(fromByteOffset: Int(result.rawValue) * 8, as: UInt64.self)
            }
            if count > 0 { counts[result] = count }
        }
        return counts
    }
}

/// Log lines, kept.
final class LineRecorder: Sendable {
    private let kept = Mutex<[String]>([])
    func write(_ line: String) { kept.withLock { $0.append(line) } }
    var lines: [String] { kept.withLock { $0 } }
}

/// A receiver with a ring that the test reads, and a clock that the test moves.
final class ReceiveRig<Socket: DatagramSocket & ~Copyable> {
    private var receiver: UDPReceiver<Socket, SimulatedClock>
    private var consumer: RingConsumer
    let counters = PipelineCounters()
    let clock = SimulatedClock(wallMicroseconds: 1_763_600_000_000_000)
    let log = LineRecorder()
    /// What was sent back.
    let answers = SimulatedAckSocket()
    /// What the stages behind the ring say.
    let state = StageLinks.SharedState()

    init(
        _ socket: consuming Socket, ringByteCount: Int = 1 << 20,
        byteCountMax: Int = PacketBatch.bufferByteCount
    ) {
        let ends = EventRing.make(byteCount: ringByteCount)!
        consumer = ends.consumer
        receiver = UDPReceiver(
            socket: socket, batch: PacketBatch(byteCountMax: byteCountMax)!, ring: ends.producer,
            hash: TestPackets.hash,
            acks: AckSender(socket: answers, directory: DirectoryID(rawValue: 77)), state: state,
            clock: clock,
            counters: counters, warn: log.write)
    }

    /// Takes turns until so many datagrams have been received.
    func receive(_ count: Int) throws {
        let target = counters.receive[.datagrams] + UInt64(count)
        var idleTurns = 0
        while counters.receive[.datagrams] < target {
            if case .idle = try receiver.step(mayWait: true) { idleTurns += 1 }
            // 100 ms each on a real socket: what was sent over loopback long since is not coming.
            if idleTurns > 100 { return }
        }
    }

    /// Lets the receiver look after refusals and drops.
    func tick(milliseconds: Int = 100) throws {
        clock.advance(milliseconds: milliseconds)
        _ = try receiver.step(mayWait: false)
    }

    func finish() throws { try receiver.finish() }

    /// Everything that is in the ring, taken out.
    func records() -> [ReceivedRecord] {
        var records: [ReceivedRecord] = []
        while let record = consumer.next() { records.append(ReceivedRecord(record)) }
        consumer.release()
        return records
    }

    func wait() -> RingWait { consumer.wait(timeoutNanoseconds: 0) }

    /// The sums of all refusals records among these.
    static func refusals(in records: [ReceivedRecord]) -> [PacketResult: UInt64] {
        records.filter { $0.header.kind == RingRecordKind.refusals }
            .reduce(into: [:]) { $0.merge($1.refusals, uniquingKeysWith: +) }
    }
}

extension ReceiveRig where Socket == LinuxDatagramSocket {
    /// A rig on a free port of loopback, and a sender to it.
    static func loopback(
        host: String = "127.0.0.1", receiveBufferByteCount: Int = 4 << 20,
        ringByteCount: Int = 1 << 20, byteCountMax: Int = PacketBatch.bufferByteCount
    ) throws -> (ReceiveRig, LoopbackSender) {
        let socket = try LinuxDatagramSocket(
            binding: SocketAddress("\(host):0"), receiveBufferByteCount: receiveBufferByteCount,
            byteCountMax: byteCountMax)
        let sender = LoopbackSender(host: host, port: socket.address.port)
        let rig = ReceiveRig(socket, ringByteCount: ringByteCount, byteCountMax: byteCountMax)
        return (rig, sender)
    }
}

/// A connected socket that sends to a rig.
final class LoopbackSender {
    private let descriptor: Int32

    init(host: String, port: UInt16) {
        var address = ingest_address()
        let bare = host.filter { $0 != "[" && $0 != "]" }
        precondition(ingest_address_resolve(bare, port, nil, false, &address) == 0)
        descriptor = ingest_udp_connect(&address)
        precondition(descriptor >= 0)
    }

    deinit { close(descriptor) }

    /// Sends one message, cut by the kernel into datagrams of `segmentByteCount` (GSO) unless that is 0.
    func send(_ bytes: [UInt8], segmentByteCount: Int = 0) {
        bytes.withUnsafeBytes { buffer in
            var message = ingest_outgoing(
                bytes: buffer.baseAddress?.assumingMemoryBound(to: UInt8.self),
                byte_count: UInt32(bytes.count), segment_byte_count: UInt32(segmentByteCount))
            let sent = ingest_send(descriptor, &message, 1, nil)
            precondition(sent == 1, "sendmmsg answered \(sent)")
        }
    }

    func send(_ text: String) { send(Array(text.utf8)) }
}
