import CIngestLinux
import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// What the windows say to packets, rule by rule of docs/protocol.md.
@Suite("The windows of the commit stage")
struct AdmittedWindowsTests {
    @Test("a batch is new once; again it is a resend, with other bytes a conflict")
    func repeats() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(0) == .resend)
        #expect(bench.send(0, check: 9) == .sequenceConflict)
        #expect(bench.send(1) == .accepted)
        #expect(bench.send(0, check: 9) == .sequenceConflict)
    }

    @Test("a late packet does not make a conflict of the one that shares its place")
    func checksOfLatePackets() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(1 + 1024, check: 3) == .accepted)
        #expect(bench.send(1, check: 4) == .accepted)
        #expect(bench.send(1 + 1024, check: 3) == .resend)
        #expect(bench.send(1 + 1024, check: 4) == .sequenceConflict)
    }

    @Test(
        "a sender without acks loses one packet and is never blocked; it is missing once the window has slid"
    )
    func slides() {
        var bench = WindowBench()
        for sequence in 1...100_000 as ClosedRange<UInt64> {
            #expect(bench.send(sequence, acks: false) == .accepted)
        }
        let window = bench.windows.window(of: bench.key)!
        #expect(window.sequences.missingCount == 1)
        #expect(window.sequences.missing == [0...0])
        #expect(PacketBalance(window).isKept)
        #expect(bench.send(0, acks: false) == .belowFloor)
        #expect(bench.send(50, acks: false) == .resend)
    }

    @Test("a sender with acks is held to its window, and gives up by the base of a heartbeat")
    func heldByFloor() {
        var bench = WindowBench()
        #expect(bench.send(1) == .accepted)
        #expect(bench.send(65_535) == .accepted)
        #expect(bench.send(65_536) == .farJump)
        #expect(bench.answers().first?.status == .beyondWindow)
        #expect(bench.heartbeat(next: 65_537, base: 1) == nil)
        #expect(bench.send(65_536) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.sequences.missing == [0...0])
        #expect(bench.send(0) == .belowFloor)
    }

    @Test("the first batch of an epoch decides whether it is acked")
    func kinds() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        #expect(bench.send(1, acks: true) == .badKind)
        #expect(bench.answers().map(\.status) == [.refused])
        #expect(bench.send(1, acks: false) == .accepted)
        #expect(bench.answers().isEmpty)
    }

    @Test("a jump of 2^20 is refused until 16 packets in a row agree on it within a second")
    func farJumps() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        let far: UInt64 = 1 + 1 << 20
        for sequence in far..<far + 15 { #expect(bench.send(sequence, acks: false) == .farJump) }
        // A packet that is where the window is breaks the row.
        #expect(bench.send(1, acks: false) == .accepted)
        for sequence in far + 1..<far + 16 {
            #expect(bench.send(sequence, acks: false) == .farJump)
        }
        #expect(bench.send(far + 16, acks: false) == .accepted)
        let window = bench.windows.window(of: bench.key)!
        #expect(window.sequences.floor == far + 1)
        #expect(PacketBalance(window).isKept)
    }

    @Test("16 far packets over more than a second, or far from each other, do not agree")
    func farJumpsThatDoNotAgree() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        for index in 0..<40 as Range<UInt64> {
            #expect(bench.send(1 << 21 + index, acks: false) == .farJump)
            bench.advance(milliseconds: 100)
        }
        for index in 0..<40 as Range<UInt64> {
            #expect(bench.send(1 << 21 + index * 70_000, acks: false) == .farJump)
        }
    }

    @Test("the first packet says where a window begins")
    func starts() {
        var bench = WindowBench()
        #expect(bench.send(65_535) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 0)
        bench.key = WindowBench.key(8)
        #expect(bench.send(65_536) == .farJump)
        #expect(bench.windows.window(of: bench.key) == nil)
        #expect(bench.heartbeat(next: 70_000, base: 65_000) == nil)
        #expect(bench.windows.window(of: bench.key)?.start == 65_000)
        #expect(bench.send(65_536) == .accepted)
        bench.key = WindowBench.key(9)
        #expect(bench.send(1_000_000, acks: false) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 934_465)
        #expect(bench.windows.window(of: bench.key)?.sequences.missingCount == 0)
    }

    @Test(
        "an epoch more than a day ahead of the clock is refused, a greater one opens a window of its own"
    )
    func epochs() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        let older = bench.key
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 86_400_000)
        #expect(bench.send(0) == .accepted)
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 86_400_001)
        #expect(bench.send(0) == .oldEpoch)
        let refusal = bench.answers().last
        #expect(refusal?.status == .refused)
        #expect(refusal?.credit == 0)
        bench.key = older
        #expect(bench.send(1) == .accepted)
    }

    @Test(
        "a week of silence closes a window for good; what was announced and did not come is missing"
    )
    func expiry() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.heartbeat(next: 5, base: 0) == nil)
        bench.advance(milliseconds: 7 * 86_400_000 + 1)
        _ = bench.answers()
        bench.expire()
        #expect(bench.windows.window(of: bench.key) == nil)
        let entry = bench.takeLedger().last
        #expect(entry?.window.isExpired == true)
        #expect(entry?.window.missingCount == 4)
        #expect(bench.send(5) == .oldEpoch)
        #expect(bench.answers().first?.epoch == bench.key.epoch)
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 1)
        #expect(bench.send(0) == .accepted)
    }

    @Test("senders over the limit are shed, until one was idle for ten minutes")
    func limit() {
        var bench = WindowBench()
        for sender in 1...UInt64(Limits.windowCountMax) {
            bench.key = WindowBench.key(sender)
            if bench.send(0) != .accepted { Issue.record("sender \(sender)") }
            if sender % 1_000 == 0 { _ = bench.answers() }
        }
        _ = bench.answers()
        #expect(bench.windows.memoryByteCount <= Limits.windowByteCountMax)
        bench.key = WindowBench.key(1 << 20)
        #expect(bench.send(0) == .shed)
        #expect(bench.answers().first?.status == .busy)
        bench.advance(milliseconds: 599_000)
        bench.key = WindowBench.key(2)
        #expect(bench.send(1) == .accepted)
        _ = bench.answers()
        bench.advance(milliseconds: 2_000)
        bench.key = WindowBench.key(1 << 20)
        #expect(bench.send(0) == .accepted)
        #expect(bench.windows.openCount == Limits.windowCountMax)
        bench.key = WindowBench.key(2)
        #expect(bench.send(2) == .accepted)
    }

    @Test("a sender whose new batch could not be taken is told to wait, and may send it again")
    func shed() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        _ = bench.answers()
        bench.shed(1)
        let answer = bench.answers().first
        #expect(answer?.status == .busy && answer?.credit == 0 && answer?.floor == 1)
        #expect(bench.send(1) == .accepted)
        #expect(bench.answers().first?.credit ?? 0 > 0)
    }

    @Test("the sum of all credit fits the pool; a silent sender's goes to the others")
    func credit() {
        var bench = WindowBench(creditByteCount: 100 * (1_000 + 768))
        var granted: [UInt64: UInt32] = [:]
        for sender in 1...20 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, byteCount: 1_000) == .accepted)
            granted[sender] = bench.answers().first?.credit
            #expect(granted.values.reduce(0) { $0 + Int($1) } <= 100)
        }
        #expect(granted[1] == 100)
        bench.advance(milliseconds: 2_500)
        bench.key = WindowBench.key(20)
        #expect(bench.send(1, byteCount: 1_000) == .accepted)
        #expect(bench.answers().first?.credit == 100)
    }

    @Test("an ack is no larger than the packet, and says what has arrived as far as it fits")
    func answers() {
        var bench = WindowBench()
        #expect(bench.send(0, byteCount: 55) == .accepted)
        #expect(bench.answers().isEmpty)
        for sequence in [1, 3, 64, 200] as [UInt64] {
            #expect(bench.send(sequence, byteCount: 72) == .accepted)
        }
        let ack = bench.answers()[0]
        #expect(ack.floor == 2)
        #expect(ack.words.count == 3)
        #expect(ack.durable == [3, 64])
        #expect(bench.send(200, byteCount: 80) == .resend)
        #expect(bench.answers()[0].durable == [3, 64, 200])
    }

    @Test("windows made again from the ledger are those of the commit stage", arguments: 1...12)
    func replay(seed: Int) {
        var bench = WindowBench()
        var random = SeededGenerator(seed: UInt64(seed))
        var fromLog = SenderWindows()
        var model: [SenderKey: Set<UInt64>] = [:]
        var next: [UInt64: UInt64] = [:]
        for _ in 0..<4_000 {
            let sender = UInt64.random(in: 1...3, using: &random)
            let acks = sender != 2
            bench.key = WindowBench.key(sender)
            let end = next[sender, default: 0]
            var sequence = end
            switch Int.random(in: 0..<10, using: &random) {
            case 0: sequence = UInt64.random(in: 0...end, using: &random)
            case 1: sequence = end + UInt64.random(in: 0...3_000, using: &random)
            case 2: sequence = end + UInt64.random(in: 0...90_000, using: &random)
            default: break
            }
            if Int.random(in: 0..<60, using: &random) == 0 {
                let base = UInt64.random(in: 0...end, using: &random)
                _ = bench.heartbeat(next: end + 2, base: base, acks: acks)
            } else if bench.send(sequence, acks: acks) == .accepted {
                #expect(model[bench.key, default: []].insert(sequence).inserted)
                next[sender] = max(end, sequence + 1)
            }
            bench.advance(milliseconds: 1)
            if Int.random(in: 0..<20, using: &random) == 0 {
                fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
                _ = bench.answers()
            }
        }
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        for (key, sequences) in model {
            let window = bench.windows.window(of: key)!
            #expect(PacketBalance(window).isKept)
            #expect(window.sequences.arrivedCount == UInt64(sequences.count))
            #expect(fromLog.open[key]?.sequences == window.sequences)
            #expect(fromLog.open[key]?.announced == window.announced)
            #expect(fromLog.open[key]?.asksForAcks == window.asksForAcks)
            // After a restart nothing that arrived is new again.
            var again = WindowBench(fromLog)
            again.key = key
            for sequence in sequences {
                #expect(again.send(sequence, acks: window.asksForAcks!) != .accepted)
            }
        }
    }
}

/// Windows with a clock that stands still, and what they wrote into the ledger.
private struct WindowBench: ~Copyable {
    static let milliseconds: UInt64 = 1_763_600_000_000
    var windows: AdmittedWindows
    var ledger = BlockLedger()
    var now = StageTime(
        wallMicroseconds: Int64(milliseconds) * 1_000, monotonicNanoseconds: 5_000_000_000)
    var key = WindowBench.key(7)

    init(_ windows: SenderWindows = SenderWindows(), creditByteCount: Int = 64 << 20) {
        self.windows = AdmittedWindows(windows, creditByteCount: creditByteCount, now: now)
    }

    static func key(_ sender: UInt64, milliseconds: UInt64 = milliseconds) -> SenderKey {
        SenderKey(
            kind: .framed, sender: SenderID(rawValue: sender),
            epoch: SenderEpoch(rawValue: milliseconds << 20))
    }

    mutating func advance(milliseconds: UInt64) {
        now = StageTime(
            wallMicroseconds: now.wallMicroseconds + Int64(milliseconds) * 1_000,
            monotonicNanoseconds: now.monotonicNanoseconds + milliseconds * 1_000_000)
    }

    private func packet(
        _ sequence: UInt64, check: UInt16, acks: Bool, byteCount: Int
    ) -> SequencedPacket {
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        header.sender = key.sender.rawValue
        header.epoch = key.epoch.rawValue
        header.sequence = sequence
        header.check = check
        header.flags = acks ? RingRecordHeader.Flags.wantsAck : 0
        header.packetByteCount = UInt16(byteCount)
        header.source.family = 2
        return SequencedPacket(header)
    }

    mutating func send(
        _ sequence: UInt64, check: UInt16 = 1, acks: Bool = true, byteCount: Int = 1_400
    ) -> PacketResult {
        let packet = packet(sequence, check: check, acks: acks, byteCount: byteCount)
        switch windows.consider(batch: packet, now, &ledger) {
        case .refused(let result, _): return result
        case .new(let place):
            ledger.addPacket(
                .accepted, events: VerdictTally(), sequence: PacketSequence(rawValue: sequence),
                from: key)
            windows.accept(packet, at: place)
            return .accepted
        }
    }

    /// A new batch that the commit stage cannot take.
    mutating func shed(_ sequence: UInt64) {
        let packet = packet(sequence, check: 1, acks: true, byteCount: 1_400)
        guard case .new(let place) = windows.consider(batch: packet, now, &ledger) else {
            Issue.record("not new")
            return
        }
        windows.shed(packet, at: place)
    }

    mutating func heartbeat(next: UInt64, base: UInt64, acks: Bool = true) -> PacketResult? {
        windows.consider(
            heartbeat: packet(next, check: 1, acks: acks, byteCount: 104), base: base, now, &ledger)
    }

    mutating func expire() { windows.expire(now, &ledger) }
    mutating func takeLedger() -> [LedgerEntry] { ledger.take() }

    struct Ack {
        let floor: UInt64
        let epoch: SenderEpoch
        let credit: UInt32
        let status: AckStatus?
        let words: [UInt64]
        /// The sequences above the floor that it says are durable.
        var durable: [UInt64] {
            words.indices.flatMap { word in
                (0..<64 as Range<UInt64>).filter { words[word] >> $0 & 1 == 1 }
                    .map { floor + UInt64(word) * 64 + $0 }
            }
        }
    }

    /// What is owed, as its packets say it.
    mutating func answers() -> [Ack] {
        var list = AnswerList()
        windows.takeAnswers(into: &list, now)
        let socket = SimulatedAnswerSocket()
        var sender = AnswerSender(socket: socket)
        sender.send(list)
        return socket.take().map { packet in
            packet.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
                    let ack = AckView(header, of: bytes)
                else {
                    Issue.record("no ack")
                    return Ack(
                        floor: 0, epoch: SenderEpoch(rawValue: 0), credit: 0, status: nil, words: []
                    )
                }
                return Ack(
                    floor: ack.floor, epoch: header.epoch, credit: ack.credit, status: ack.status,
                    words: (0..<ack.wordCount).map(ack.word))
            }
        }
    }
}
