import CIngestLinux
import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// A network path in this process, between senders and one daemon: either way a bottleneck with a queue of bounded bytes, a
/// delay, and random loss behind it, drawn from a seed. Times are computed from when a datagram came, so a late wake-up delays
/// it and costs no rate.
///
/// Answers find their way by the sender's id in their header: so all senders may share one socket towards the daemon.
///
/// **Cost** A thread, of real-time priority where that is allowed; two system calls a datagram.
final class PathProxy: Sendable {
    struct Path {
        var megabitsPerSecond: Double
        var roundTripMilliseconds: Double
        var lossPercent: Double

        /// What a datagram takes of the bottleneck beside its payload: headers of IPv4 and UDP.
        static let headerByteCount = 28
        /// A packet of a sender's default size there.
        static let packetByteCount = 1_452 + headerByteCount

        var bytesPerNanosecond: Double { megabitsPerSecond / 8_000 }
        var delayNanoseconds: UInt64 { UInt64(roundTripMilliseconds * 500_000) }
        /// As much as is on the way, 20 packets at least.
        var queueByteCount: Double {
            max(
                Double(20 * Self.packetByteCount),
                bytesPerNanosecond * roundTripMilliseconds * 1e6)
        }
    }

    /// What came to it from senders: batches, or everything while it is a black hole.
    struct Figures {
        var batchCount = 0
        /// Headers of IPv4 and UDP and all.
        var batchByteCount = 0
        /// Of the batches: lost at random, and dropped since the queue was full.
        var lostCount = 0
        var droppedCount = 0
        /// When each datagram came that the black hole has swallowed.
        var swallowedAt: [UInt64] = []
    }

    private static let bufferByteCount = 1 << 16
    private static let bufferCount = 32
    private static let lookNanoseconds: UInt64 = 20_000_000

    /// HOST:PORT, for senders.
    let address: String
    let path: Path
    private let front: Int32
    private let back: UDPTransport
    private let state = Mutex(Figures())
    private let isStopped = Atomic(false)
    /// Swallows everything, either way.
    let isBlackHole = Atomic(false)
    private let seed: UInt64
    private let queue = DispatchQueue(label: "ingest-bench.path")

    init(_ path: Path, to daemon: String, seed: UInt64) throws {
        self.path = path
        self.seed = seed
        back = try UDPTransport(address: daemon)
        var any = ingest_address()
        var bound = ingest_address()
        // SAFETY: each call reads or writes one address of ours.
        unsafe ingest_address_resolve("127.0.0.1", 0, nil, false, &any)
        front = unsafe ingest_udp_bind(&any, 20)
        guard front >= 0 else { throw BenchFailure("bind: errno \(-front)") }
        unsafe ingest_udp_address(front, &bound)
        address = "127.0.0.1:\(unsafe ingest_address_port(&bound))"
        for socket in [front, back.socket] { _ = ingest_udp_receive_buffer(socket, 16 << 20) }
        queue.async { [self] in run() }
    }

    deinit { close(front) }

    var figures: Figures { state.withLock { $0 } }

    /// What is on the way then is lost.
    func stop() {
        isStopped.store(true, ordering: .relaxed)
        queue.sync {}
    }

    // MARK: The thread

    private func run() {
        var priority = sched_param(sched_priority: 10)
        // SAFETY: reads one sched_param. Without the right to it the thread goes on as it is.
        _ = unsafe pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority)
        let reader = DatagramReader(count: Self.bufferCount, byteCount: Self.bufferByteCount)
        var there = Lane(path, seed: seed)
        var answers = Lane(path, seed: ~seed)
        var senders: [UInt64: ingest_address] = [:]
        while !isStopped.load(ordering: .relaxed) {
            let due = min(there.nextDue, answers.nextDue)
            let before = SenderClock.monotonicNanoseconds()
            let wait = min(Self.lookNanoseconds, due - min(due, before))
            let ready = wait == 0 ? 3 : ingest_wait_readable(front, back.socket, wait)
            let now = SenderClock.monotonicNanoseconds()
            let isSwallowing = isBlackHole.load(ordering: .relaxed)
            if ready & 1 != 0 {
                reader.read(from: front) { datagram, source in
                    senders[Self.sender(of: datagram)] = source
                    note(there.enter(datagram, now, isSwallowing), of: datagram, now)
                }
            }
            if ready & 2 != 0 {
                reader.read(from: back.socket) { datagram, _ in
                    _ = answers.enter(datagram, now, isSwallowing)
                }
            }
            while let datagram = there.leave(now) {
                try? back.send(datagram.span, segmentByteCount: datagram.count)
            }
            while let datagram = answers.leave(now) {
                guard var to = senders[Self.sender(of: datagram)] else { continue }
                send(datagram, to: &to)
            }
        }
    }

    private func note(_ fate: Lane.Fate, of datagram: [UInt8], _ now: UInt64) {
        state.withLock { figures in
            if fate == .swallowed { figures.swallowedAt.append(now) }
            guard datagram[PacketHeader.Offset.kind] == PacketKind.batch.rawValue else { return }
            figures.batchCount += 1
            figures.batchByteCount += datagram.count + Path.headerByteCount
            if fate == .lost { figures.lostCount += 1 }
            if fate == .dropped { figures.droppedCount += 1 }
        }
    }

    private static func sender(of datagram: [UInt8]) -> UInt64 {
        guard datagram.count >= PacketHeader.byteCount else { return 0 }
        return (0..<8).reduce(0) {
            $0 | UInt64(datagram[PacketHeader.Offset.sender + $1]) << (8 * UInt64($1))
        }
    }

    private func send(_ datagram: [UInt8], to address: inout ingest_address) {
        // SAFETY: the message's pointer and count are the array's own, and outlive the call.
        unsafe datagram.withUnsafeBufferPointer { buffer in
            var message = unsafe ingest_outgoing(
                bytes: buffer.baseAddress, byte_count: UInt32(buffer.count), segment_byte_count: 0)
            _ = unsafe ingest_send(front, &message, 1, &address)
        }
    }
}

/// One direction: a bottleneck with its queue, loss, and what is on the way behind it.
private struct Lane {
    enum Fate { case passed, lost, dropped, swallowed }

    private let path: PathProxy.Path
    private var random: SeededRandom
    /// When the bottleneck has sent all that it has taken, nanoseconds.
    private var freeAt = 0.0
    private var onTheWay: [(at: UInt64, bytes: [UInt8])] = []
    private var first = 0

    init(_ path: PathProxy.Path, seed: UInt64) {
        self.path = path
        random = SeededRandom(seed: seed)
    }

    var nextDue: UInt64 { first < onTheWay.count ? onTheWay[first].at : .max }

    /// What is lost at random has taken its part of the bottleneck.
    mutating func enter(_ bytes: [UInt8], _ now: UInt64, _ isSwallowed: Bool) -> Fate {
        if isSwallowed { return .swallowed }
        let waiting = (freeAt - Double(now)) * path.bytesPerNanosecond
        guard waiting <= path.queueByteCount else { return .dropped }
        let byteCount = Double(bytes.count + PathProxy.Path.headerByteCount)
        freeAt = max(freeAt, Double(now)) + byteCount / path.bytesPerNanosecond
        if Double(random.next() % 1_000_000) < path.lossPercent * 10_000 { return .lost }
        onTheWay.append((UInt64(freeAt) + path.delayNanoseconds, bytes))
        return .passed
    }

    mutating func leave(_ now: UInt64) -> [UInt8]? {
        guard nextDue <= now else { return nil }
        defer {
            first += 1
            if first == onTheWay.count || first == 4_096 {
                onTheWay.removeFirst(first)
                first = 0
            }
        }
        return onTheWay[first].bytes
    }
}

/// Buffers for batches of datagrams, and what the kernel has coalesced cut into them again.
@safe private final class DatagramReader {
    private let count: Int
    private let byteCount: Int
    private let memory: UnsafeMutablePointer<UInt8>
    private let datagrams: UnsafeMutablePointer<ingest_datagram>
    private let receiver: OpaquePointer?

    init(count: Int, byteCount: Int) {
        (self.count, self.byteCount) = (count, byteCount)
        // SAFETY: every buffer is a part of `memory` of the size that the receiver is told; `deinit` frees all three.
        unsafe memory = .allocate(capacity: count * byteCount)
        unsafe datagrams = .allocate(capacity: count)
        for i in 0..<count {
            unsafe datagrams[i] = ingest_datagram()
            unsafe datagrams[i].bytes = memory + i * byteCount
        }
        unsafe receiver = ingest_receiver_make(UInt32(count), UInt32(byteCount))
    }

    deinit {
        unsafe ingest_receiver_free(receiver)
        unsafe datagrams.deallocate()
        unsafe memory.deallocate()
    }

    /// What is there, one batch at most.
    func read(from socket: Int32, _ body: ([UInt8], ingest_address) -> Void) {
        let received = unsafe ingest_receive(receiver, socket, datagrams, false, nil)
        for i in 0..<max(0, Int(received)) {
            let datagram = unsafe datagrams[i]
            let segment = unsafe max(1, Int(datagram.segment_byte_count))
            let all = unsafe Int(datagram.byte_count)
            for start in stride(from: 0, to: all, by: segment) {
                // SAFETY: the kernel has written `all` bytes to the buffer.
                let bytes = unsafe UnsafeBufferPointer(
                    start: datagram.bytes + start, count: min(segment, all - start))
                unsafe body(Array(bytes), datagram.source)
            }
        }
    }
}

/// A sender that always has more to send than the path takes: the library's own, on a thread of its own.
struct PathLoad: Sendable {
    struct Figures {
        /// Events that were durable when the time was up, and in how long.
        var eventCount: UInt64 = 0
        var seconds = 0.0
        /// At the end, when all was durable.
        var totals = EventSender.Totals()

        var packetCount: UInt64 { totals.packetsSent }
        var sentCount: UInt64 { totals.packetsSent + totals.packetsResent }
        /// Of those packets that were durable when the time was up.
        var packetsPerSecond: Double {
            let share = Double(eventCount) / Double(max(1, totals.eventsSent))
            return share * Double(packetCount) / max(1e-9, seconds)
        }
    }

    let address: String
    var seconds = 0.0
    var unackedByteCountMax = 1 << 20
    var hasCongestionControl = true
    /// 0 = as fast as it goes.
    var eventsPerSecond = 0.0
    var key: EventSender.Key?
    var business = "b-1"

    /// Sends for its seconds, and then waits until everything is acked.
    func run() throws -> Figures {
        var options = EventSender.Options()
        options.unackedByteCountMax = unackedByteCountMax
        options.hasCongestionControl = hasCongestionControl
        options.key = key
        let sender = try EventSender.open(to: address, options: options)
        let startedAt = SenderClock.monotonicNanoseconds()
        try send(by: sender, until: startedAt + UInt64(seconds * 1e9))
        let elapsed = SenderClock.monotonicNanoseconds() - startedAt
        var figures = Figures(
            eventCount: sender.totals.eventsAcked, seconds: Double(elapsed) / 1e9)
        figures.totals = try sender.close(within: .seconds(120))
        return figures
    }

    private func send(by sender: EventSender, until end: UInt64) throws {
        let rewards = (0..<100).map { "\(business)-reward-\($0)" }
        let base = SeededRandom.mix(sender.epoch)
        var now = SenderClock.monotonicNanoseconds()
        var pace = SendPace(eventsPerSecond: eventsPerSecond > 0 ? eventsPerSecond : 1e9, now: now)
        var number: UInt64 = 0
        while now < end {
            var event = AdEvent(
                .impression, rewardID: rewards[Int(number % 100)], businessID: business,
                timestampMicroseconds: Int64(SenderClock.unixNanoseconds() / 1_000))
            event.eventID = Self.id(base, number)
            let wait = eventsPerSecond > 0 ? pace.take(now: now) : 0
            if wait == 0, try sender.send(event) == .taken {
                number += 1
                if number % 16 == 0 { now = SenderClock.monotonicNanoseconds() }
            } else {
                SenderClock.sleep(
                    untilMonotonicNanoseconds: now + min(max(wait, 200_000), end - now))
                now = SenderClock.monotonicNanoseconds()
            }
        }
    }

    private static func id(_ base: UInt64, _ number: UInt64) -> [UInt8] {
        var id = [UInt8](repeating: 0, count: 16)
        for i in 0..<8 {
            id[i] = UInt8(truncatingIfNeeded: base >> (8 * UInt64(i)))
            id[8 + i] = UInt8(truncatingIfNeeded: number >> (8 * UInt64(i)))
        }
        return id
    }

    /// Runs several at once, each on a thread of its own.
    static func run(_ loads: [PathLoad], beside body: () throws -> Void = {}) throws -> [Figures] {
        let results = loads.map { load in BackgroundRun { try load.run() } }
        try body()
        return try results.map { try $0.value() }
    }
}

/// A call on a thread of its own, and what it has given.
final class BackgroundRun<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, BenchFailure>?>(nil)
    private let queue = DispatchQueue(label: "ingest-bench.run")

    init(_ body: @escaping @Sendable () throws -> Value) {
        queue.async { [self] in
            let value = Result { try body() }.mapError { BenchFailure("\($0)") }
            result.withLock { $0 = value }
        }
    }

    func value() throws -> Value {
        queue.sync {}
        return try result.withLock { $0 }!.get()
    }
}
