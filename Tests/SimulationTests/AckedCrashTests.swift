import CIngestLinux
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// An ack means durable: a sender that forgets what was acked, and sends the rest again after each crash, ends with
/// exact counters.
///
/// Fault model: that of `SimulatedDisk`; the network loses every third ack. A daemon that acked before fdatasync would
/// lose what its sender had forgotten; one that took a resend for new would count it twice.
@Suite("Acks and crashes")
struct AckedCrashTests {
    static let packetCount: UInt64 = 48

    private func run(
        crashing operation: Int, seed: UInt64, isPowerCut: Bool, garbledSectorByteCount: Int = 0
    ) throws -> Bool {
        var sender = AckedSender(seed: seed)
        sender.unacked = Set(0..<Self.packetCount)
        let crash = Crash(
            operation: operation, seed: seed, isPowerCut: isPowerCut,
            garbledSectorByteCount: garbledSectorByteCount)
        let hasCrashed = try crash.run(
            &sender, model: ReferenceModel(packetCount: Self.packetCount)
        ) { sender, lifeCount in
            try #require(lifeCount < 39)
            return lifeCount == 0 || !sender.unacked.isEmpty
        }
        #expect(sender.ackCount > 0)
        return hasCrashed
    }

    @Test("a torn sector of a disk takes nothing with it that was acked", arguments: [512, 4096])
    func tornSectors(byteCount: Int) throws {
        var operation = 1
        while try run(
            crashing: operation, seed: 43, isPowerCut: true, garbledSectorByteCount: byteCount)
        { operation += 2 }
        #expect(operation > 100)
    }

    @Test("what was acked is there after a power cut, and what is sent again counts once")
    func powerCuts() throws {
        var operation = 1
        while try run(crashing: operation, seed: 41, isPowerCut: true) { operation += 7 }
        #expect(operation > 100)
    }

    @Test("R4: what was acked is there after a kill, and what is sent again counts once")
    func kills() throws {
        var operation = 3
        while try run(crashing: operation, seed: 42, isPowerCut: false) { operation += 17 }
        #expect(operation > 100)
    }

    @Test("what a sender may have on its way fits the ring, nothing of it is shed")
    func credit() throws {
        let files = SimulatedFileSystem(seed: 9)
        var pipeline = try SteppedPipeline.open(
            files, clock: SimulatedClock(wallMicroseconds: SimulatedPacket.start), seed: 9)
        var sequence: UInt64 = 0
        for round in 0..<5 {
            let isTaken = pipeline.offer(SimulatedPacket(sequence: sequence), wantsAck: true)
            #expect(isTaken)
            sequence += 1
            try pipeline.settle()
            let answer = try #require(pipeline.takeAcks().last)
            let edge = try readAck(answer) { _, ack in ack.floor + UInt64(ack.credit) }
            // It grows by what comes. No stage has a turn meanwhile.
            #expect(edge >= sequence + (round < 2 ? 8 : 100))
            var shedCount = 0
            while sequence < edge {
                if !pipeline.offer(SimulatedPacket(sequence: sequence), wantsAck: true) {
                    shedCount += 1
                }
                sequence += 1
            }
            #expect(shedCount == 0)
            try pipeline.settle()
            _ = pipeline.takeAcks()
        }
        try pipeline.stop()
    }
}

/// A daemon that crashes before an operation, and its lives behind that.
struct Crash {
    let operation: Int
    let seed: UInt64
    let isPowerCut: Bool
    var garbledSectorByteCount = 0

    /// Expects the model's counters, and that nothing is wrong with the directory but what lies aside.
    /// - Parameter goesOn: whether a life follows so many behind the crash.
    /// - Returns: whether it has crashed.
    func run<Sender: CrashSender>(
        _ sender: inout Sender, model: ReferenceModel,
        while goesOn: (Sender, UInt64) throws -> Bool
    ) throws -> Bool {
        let clock = SimulatedClock.afterEvents()
        var files = SimulatedFileSystem(seed: seed)
        files.disk.crash(beforeOperation: operation)
        _ = sender.live(files, clock: clock, seed: seed)
        let hasCrashed = files.disk.isDown
        var lifeCount: UInt64 = 0
        while try goesOn(sender, lifeCount) {
            lifeCount += 1
            files =
                isPowerCut
                ? files.disk.powerCut(
                    seed: seed &+ lifeCount &+ UInt64(operation) << 8,
                    garbledSectorByteCount: garbledSectorByteCount)
                : files.disk.kill()
            let hasEnded = sender.live(files, clock: clock, seed: seed &+ lifeCount)
            #expect(hasEnded, "crash \(operation)")
        }
        #expect(try DirectoryReading(files).counts == model.counts, "crash \(operation)")
        let findings = try Verifier.run(files).findings.filter {
            $0.kind != .note || !$0.file.hasPrefix("aside/")
        }
        #expect(findings.isEmpty, "crash \(operation): \(findings)")
        return hasCrashed
    }
}

protocol CrashSender {
    /// Whether it has sent all that it has for this life.
    var isDone: Bool { get }
    mutating func beginLife(seed: UInt64)
    mutating func send(to pipeline: inout SteppedPipeline)
    mutating func hear(_ packets: [[UInt8]]) throws
}

extension CrashSender {
    private mutating func listen(to pipeline: borrowing SteppedPipeline) {
        do { try hear(pipeline.takeAcks()) } catch { Issue.record(error) }
    }

    /// One life of the daemon, until all is sent or the crash.
    /// - Returns: whether it ended by itself.
    fileprivate mutating func live(
        _ files: SimulatedFileSystem, clock: SimulatedClock, seed: UInt64
    ) -> Bool {
        beginLife(seed: seed)
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
            var turnCount = 0
            while !isDone {
                turnCount += 1
                guard turnCount < 4_000 else { return false }
                send(to: &pipeline)
                do { try pipeline.turn() } catch {
                    listen(to: pipeline)
                    throw error
                }
                listen(to: pipeline)
            }
            try pipeline.stop()
            listen(to: pipeline)
        } catch {
            return false
        }
        return true
    }
}

/// A sender that forgets what was acked; the network loses every third ack.
struct AckedSender: CrashSender {
    var unacked: Set<UInt64> = []
    private(set) var ackCount = 0
    private var random: SeededRandom
    /// What is not sent in this life yet, and in which order it is.
    private var waiting: [UInt64] = []
    private var order = SeededRandom(seed: 0)

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    var isDone: Bool { waiting.isEmpty }

    mutating func beginLife(seed: UInt64) {
        (waiting, order) = (unacked.sorted(), SeededRandom(seed: seed))
    }

    mutating func send(to pipeline: inout SteppedPipeline) {
        // Packets near the front, so that windows have holes.
        let place = Int(order.next() % UInt64(min(4, waiting.count)))
        // With ids, none of which may be taken for a repeat of what a crash took.
        let packet = SimulatedPacket(sequence: waiting[place], hasIDs: true)
        if pipeline.offer(packet, wantsAck: true) { waiting.remove(at: place) }
    }

    mutating func hear(_ packets: [[UInt8]]) throws {
        for packet in packets {
            ackCount += 1
            if random.next() % 3 == 0 { continue }
            try readAck(packet) { _, ack in
                #expect(ack.status == .ok)
                unacked = unacked.filter { $0 >= ack.floor }
                for word in 0..<ack.wordCount {
                    for bit in 0..<64 where ack.word(word) >> UInt64(bit) & 1 == 1 {
                        unacked.remove(ack.floor + UInt64(word * 64 + bit))
                    }
                }
            }
        }
    }
}
