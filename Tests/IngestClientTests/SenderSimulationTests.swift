import Glibc
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// A sender, a network that loses, doubles and reorders, a receiver that sheds and starts again, and a disk
/// whose machine stops: each run is the same for the same seed.
///
/// **Faults** Datagrams either way: lost, doubled, late by up to 50 ms. Receiver: restarts that forget what was only
/// admitted, times of shedding and of no credit, times in which nobody listens. Network: calls that fail after some of
/// their datagrams have left; seconds without a route. Sender with a spool: stopped before any changing call of the
/// file system, by a kill or a power cut, and started again; times in which its disk has room for little or nothing,
/// also at a start and at the end.
/// **Holds** Every event that was flushed is durable at the receiver; every one that was sent at all, in
/// exactly one packet; no sequence ever has other bytes; no base passes what is not durable; no packet goes beyond the
/// credit.
struct SenderSimulationTests {
    private struct Faults {
        var lossPercent: UInt64 = 0
        var doublePercent: UInt64 = 0
        var delayMax: UInt64 = 1_000_000
        var restartPercent: UInt64 = 0
        var shedPercent: UInt64 = 0
        var creditMin: UInt32 = 100
        var brokenCallPercent: UInt64 = 0
        var fullDiskPercent: UInt64 = 0
        /// From the first second on: no route, and no socket can be connected.
        var routelessNanoseconds: UInt64 = 0
    }

    private final class Run {
        static let lineCount = 300
        private static let commitInterval: UInt64 = 5_000_000

        var random: SeededRandom
        var faults: Faults
        let network = SimulatedNetwork()
        var receiver = ModelReceiver()
        var now: UInt64 = 1_000_000_000
        /// Datagrams on their way, by time.
        private var toReceiver: [(at: UInt64, bytes: [UInt8])] = []
        private var toSender: [(at: UInt64, bytes: [UInt8])] = []
        private var commitAt: UInt64 = 0
        private var downUntil: UInt64 = 0
        var files: SimulatedFileSystem?
        /// Lines that the sender has taken, and those of them that a flush has made safe.
        var takenCount = 0
        var safeCount = 0
        var startCount = 0
        /// What the sender's disk is at, and until when.
        private var work: SpoolWork?
        private var workEndsAt = UInt64.max
        /// Flushes that wait for it, and what was taken before each.
        private var flushes: [(ticket: SpoolTicket, takenCount: Int)] = []

        init(seed: UInt64, _ faults: Faults) {
            random = SeededRandom(seed: seed)
            self.faults = faults
        }

        func open(crashAt: Int? = nil) throws -> SenderStream {
            startCount += 1
            work = nil
            (workEndsAt, flushes) = (.max, [])
            var identity = SampleEvents.identity(epoch: 1_000 + UInt64(startCount))
            var left = SpoolContent()
            var spool: Spool<SimulatedFileSystem>?
            if let files {
                if let crashAt { files.disk.crash(beforeOperation: crashAt) }
                let opened = try Spool.open(
                    files, sender: identity.sender, random: identity.sender,
                    epoch: identity.epoch, fileByteCountMax: 5_000)
                identity = opened.spool.identity
                left = opened.left
                spool = opened.spool
                takenCount = Int(opened.left.note.position)
                if takenCount < safeCount { throw Lost(safe: safeCount, found: takenCount) }
                safeCount = takenCount
            }
            var configuration = SenderStream.Configuration(identity: identity)
            configuration.packetByteCountMax = 1_200
            configuration.unackedByteCountMax = 1 << 20
            let nonces = CountedNonces(seed: UInt64(startCount))
            configuration.makeNonce = { nonces.next() }
            return SenderStream(
                configuration, transport: network, spool: spool, left: left, now: now)
        }

        struct Lost: Error {
            let safe: Int
            let found: Int
        }

        /// Until everything is acked, or the sender has failed.
        func drive(_ stream: inout SenderStream) {
            let limit = now + 3_600_000_000_000
            while stream.failure == nil, now < limit {
                carry()
                if takenCount == Self.lineCount, stream.isDrained, !stream.isEnding {
                    if stream.stall != nil { now += 100_000_000 }
                    stream.finish(SpoolNote(position: UInt64(Self.lineCount)), now: now)
                    if stream.failure != nil { continue }
                }
                step(&stream)
                startWork(&stream)
            }
            if now >= limit { Issue.record("nothing moves any more") }
        }

        /// One thing: whatever is next.
        private func step(_ stream: inout SenderStream) {
            if takenCount < Self.lineCount, random.below(3) == 0 {
                feed(&stream)
                return
            }
            let arrival = toReceiver.map(\.at).min() ?? .max
            let answer = toSender.map(\.at).min() ?? .max
            let next = min(arrival, answer, stream.nextDeadline, commitAt, workEndsAt)
            now = max(now, min(next, now + 1_000_000_000))
            if next == workEndsAt {
                endWork(&stream)
            } else if next == commitAt {
                commit()
            } else if next == arrival {
                arrive()
            } else if next == answer {
                let place = toSender.firstIndex { $0.at == answer } ?? 0
                let bytes = toSender.remove(at: place).bytes
                stream.receive(bytes.span, now: now)
            } else {
                stream.tick(now: now)
            }
        }

        private func feed(_ stream: inout SenderStream) {
            for _ in 0..<random.below(40) where takenCount < Self.lineCount {
                let bytes = Array(
                    ("{\"eventType\":\"click\",\"rewardId\":\"r\",\"businessId\":\"b\",\"timestamp\":"
                        + "\(takenCount + 1)}").utf8)
                let taken = stream.send(
                    jsonLine: bytes.span,
                    note: SpoolNote(position: UInt64(takenCount + 1)), now: now)
                guard taken == .taken else { return }
                takenCount += 1
            }
            if random.below(2) == 0 {
                stream.flush(now: now)
                flushes.append((stream.ticket, takenCount))
            }
        }

        // MARK: The sender's disk

        private func startWork(_ stream: inout SenderStream) {
            guard work == nil, stream.hasSpoolWork else { return }
            work = stream.beginSpoolWork()
            workEndsAt = now + (random.below(2) == 0 ? 0 : random.below(60_000_000))
        }

        private func endWork(_ stream: inout SenderStream) {
            workEndsAt = .max
            guard var done = work.take() else { return }
            done.run()
            stream.endSpoolWork(done, now: now)
            for flush in flushes where stream.isHeld(flush.ticket) == true {
                safeCount = max(safeCount, flush.takenCount)
            }
            flushes.removeAll { stream.isHeld($0.ticket) != nil }
        }

        // MARK: Network

        /// What the sender has just sent sets out.
        private func carry() {
            for datagram in network.take() {
                for copy in copies(datagram) { toReceiver.append(copy) }
            }
        }

        private func copies(_ bytes: [UInt8]) -> [(at: UInt64, bytes: [UInt8])] {
            if random.below(100) < faults.lossPercent { return [] }
            let count = random.below(100) < faults.doublePercent ? 2 : 1
            return (0..<count).map { _ in (now + 100_000 + random.below(faults.delayMax), bytes) }
        }

        private func arrive() {
            let at = toReceiver.map(\.at).min() ?? 0
            let place = toReceiver.firstIndex { $0.at == at } ?? 0
            let datagram = toReceiver.remove(at: place).bytes
            guard now >= downUntil else { return }
            if let answer = receiver.receive(datagram) { toSender += copies(answer) }
        }

        private func commit() {
            commitAt = now + Self.commitInterval
            breakCalls()
            fillDisk()
            guard now >= downUntil else { return }
            receiver.credit = faults.creditMin + UInt32(random.below(100))
            if faults.creditMin == 0, random.below(3) == 0 { receiver.credit = 0 }
            if random.below(100) < faults.restartPercent {
                receiver.restart()
                downUntil = now + random.below(3_000_000_000)
                return
            }
            receiver.shedStatus =
                random.below(100) < faults.shedPercent ? .busy : nil
            for ack in receiver.commit() { toSender += copies(ack) }
        }

        /// Also while somebody receives: what has left of a call that fails arrives, and is acked.
        private func breakCalls() {
            let partCount = Int(random.below(4))
            network.setRoute(
                now < 1_020_000_000 || now > 1_020_000_000 + faults.routelessNanoseconds)
            if now < downUntil {
                network.fail(with: .notListening(address: "sim"))
            } else if random.below(100) < faults.brokenCallPercent {
                let error = ClientError.socket(call: "send", address: "sim", errno: EPERM)
                network.fail(with: error, afterDatagrams: partCount)
            } else {
                network.fail(with: nil)
            }
        }

        private func fillDisk() {
            guard let files, let space = try? files.space() else { return }
            let used = Int(space.totalByteCount - space.freeByteCount)
            let isFull = random.below(100) < faults.fullDiskPercent
            files.disk.limit(byteCount: isFull ? used + Int(random.below(400)) : 1 << 30)
        }

        /// Datagrams outlive the sender.
        func sendersMachineStops(powerCut: Bool) {
            carry()
            toSender = []
            files = files.map {
                powerCut ? $0.disk.powerCut(seed: random.next()) : $0.disk.kill()
            }
        }

        /// Each line once, none missing.
        func check(_ seed: UInt64) throws {
            #expect(receiver.faults.isEmpty, "seed \(seed): \(receiver.faults)")
            let times = try receiver.durableEvents().map { Int($0.timestampUs) / 1_000 }.sorted()
            #expect(times == Array(1...Self.lineCount), "seed \(seed)")
        }
    }

    private static func faults(_ seed: UInt64) -> Faults {
        var random = SeededRandom(seed: seed &* 77)
        return Faults(
            lossPercent: random.below(41), doublePercent: random.below(30),
            delayMax: 1_000_000 + random.below(50_000_000),
            restartPercent: random.below(3) == 0 ? 2 : 0, shedPercent: random.below(3) * 10,
            creditMin: UInt32(random.below(3) * 40), brokenCallPercent: random.below(2) * 20,
            fullDiskPercent: random.below(2) * 30,
            routelessNanoseconds: random.below(3) * random.below(9_000_000_000))
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func `Whatever the network and the receiver do, every event arrives in one packet`(
        seed: UInt64
    ) throws {
        let run = Run(seed: seed, Self.faults(seed))
        var stream = try run.open()
        run.drive(&stream)
        let (failure, result) = (stream.failure, stream.totals)
        try #require(failure == .closed, "seed \(seed)")
        try run.check(seed)
        #expect(result.eventsAcked == UInt64(Run.lineCount))
        #expect(result.eventsSent == UInt64(Run.lineCount))
        #expect(run.receiver.epochCount == 1)
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `A sender that is stopped before any call of its spool goes on where it was`(
        seed: UInt64
    ) throws {
        for crashAt in stride(from: Int(seed) % 3, to: 120, by: 3) {
            let run = Run(seed: seed &* 1_000 &+ UInt64(crashAt), Self.faults(seed))
            run.files = SimulatedFileSystem(seed: seed)
            var crashPoint: Int? = crashAt
            while true {
                do {
                    var stream = try run.open(crashAt: crashPoint)
                    run.drive(&stream)
                    guard let failure = stream.failure, failure != .closed else { break }
                    try #require(run.files?.disk.isDown == true, "\(failure)")
                } catch let error as ClientError {
                    try #require(run.files?.disk.isDown == true, "\(error)")
                }
                run.sendersMachineStops(powerCut: run.random.below(2) == 0)
                // Again and again, each time later than before.
                crashPoint = run.random.below(2) == 0 ? Int(run.random.below(60)) : nil
            }
            try run.check(seed &* 1_000 &+ UInt64(crashAt))
        }
    }
}
