import IngestFormat
import IngestKeys
import IngestRing
import PipelineTestSupport
import Testing

@testable import IngestPipeline

/// Windows with a clock that stands still, and what they wrote into the ledger.
struct WindowBench: ~Copyable {
    static let milliseconds: UInt64 = 1_763_600_000_000
    var windows: AdmittedWindows
    var ledger = BlockLedger()
    var now = StageTime(
        wallMicroseconds: Int64(milliseconds) * 1_000, monotonicNanoseconds: 5_000_000_000)
    var key = WindowBench.key(7)
    /// Of the tags that packets have; 0 = none.
    var keyID: UInt16 = 0
    /// The last commit that is durable.
    var durable: UInt64 = 0
    private var owed = AckList()
    /// What the open block has of events; the ledger goes on over several.
    private var open: [LedgerEntry] = []
    private let socket = SimulatedAckSocket()
    private var answers: AckSender

    init(
        _ windows: SenderWindows = SenderWindows(), creditByteCount: Int = 64 << 20,
        quotas: KeyQuotas.Bounds = KeyQuotas.Bounds(), keys: KeyRing? = keys(1...20),
        daysLater: Int64 = 0
    ) {
        now = StageTime(
            wallMicroseconds: now.wallMicroseconds + daysLater * 86_400_000_000,
            monotonicNanoseconds: now.monotonicNanoseconds)
        self.windows = AdmittedWindows(
            windows, creditByteCount: creditByteCount, quotas: quotas, keyRing: keys, now: now)
        self.windows.commitEpoch = 1
        answers = AckSender(socket: socket, directory: DirectoryID(rawValue: 77))
    }

    /// Keys, each for any sender, or for this one.
    static func keys(_ ids: ClosedRange<Int>, of sender: UInt64? = nil) -> KeyRing {
        KeyRing(keysFile(ids, of: sender), hash: KeyedHash(key: .init(repeating: 7)))
    }

    static func keysFile(_ ids: ClosedRange<Int>, of sender: UInt64? = nil) -> KeysFile {
        let lines = ids.map { id in
            let digits = String(repeating: "ab", count: 16)
            return "\(id) \(digits) sender=\(sender.map(String.init) ?? "*")\n"
        }
        do { return try KeysFile(Array(lines.joined().utf8), path: "keys") } catch {
            fatalError("\(error)")
        }
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

    func packet(
        _ sequence: UInt64, check: UInt16, acks: Bool, byteCount: Int, port: UInt16 = 1,
        _ heartbeat: Heartbeat? = nil
    ) -> SequencedPacket {
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        header.sender = key.sender.rawValue
        header.epoch = key.epoch.rawValue
        header.sequence = sequence
        header.check = check
        header.flags = acks ? RingRecordHeader.Flags.wantsAck : 0
        if keyID != 0 { header.flags |= RingRecordHeader.Flags.hasTag }
        header.keyID = keyID
        header.packetByteCount = UInt16(byteCount)
        header.byteCount = UInt32(RingLayout.recordHeaderByteCount + byteCount)
        header.source.family = 2
        header.source.port = port
        return SequencedPacket(header, heartbeat)
    }

    mutating func send(
        _ sequence: UInt64, check: UInt16 = 1, acks: Bool = true, byteCount: Int = 1_400,
        port: UInt16 = 1, _ verdicts: [Verdict] = []
    ) -> PacketResult {
        let packet = packet(
            sequence, check: check, acks: acks, byteCount: byteCount, port: port)
        switch windows.consider(batch: packet, now, &ledger) {
        case .refused(let result, _): return result
        case .new(let place):
            ledger.continueRun(of: key)
            var entry = LedgerEntry(key: key)
            for verdict in verdicts {
                ledger.tally.add(verdict)
                entry.events[Int(verdict.rawValue)] += 1
            }
            open.append(entry)
            ledger.addAccepted(
                ArrivedSequence(sequence: PacketSequence(rawValue: sequence), check: check))
            windows.accept(packet, at: place)
            return .accepted
        }
    }

    /// - Returns: why it was refused, if it was.
    mutating func heartbeat(
        next: UInt64, base: UInt64, seen: UInt64 = 0, nonce: UInt64 = 1, acks: Bool = true,
        ends: Bool = false, port: UInt16 = 1
    ) -> PacketResult? {
        let told = Heartbeat(base: base, seen: seen, nonce: nonce, endsEpoch: ends)
        let packet = packet(
            next, check: 1, acks: acks, byteCount: keyID == 0 ? 104 : 120, port: port, told)
        switch windows.consider(heartbeat: packet, told, now, &ledger) {
        case .taken: return nil
        case .refused(let result): return result
        case .asks(let place):
            var list = AckList()
            windows.answer(packet, told, at: place, into: &list, durable: durable, now, &ledger)
            answers.send(list)
            return nil
        case .asksUnopened(let floor):
            var list = AckList()
            windows.answer(packet, unopenedAt: floor, into: &list, durable: durable)
            answers.send(list)
            return nil
        }
    }

    /// The open block is closed, and another one begun.
    mutating func close() {
        windows.add(eventsOf: open)
        open.removeAll()
        windows.takeAcks(into: &owed, durable: durable, now)
        windows.commitEpoch += 1
    }

    /// Where what is owed goes.
    var owedPorts: [UInt16] { owed.acks.map(\.peer.port) }

    /// All blocks that were closed are durable.
    mutating func sync() { durable = windows.commitEpoch - 1 }

    mutating func expire() { windows.expire(now, &ledger) }
    mutating func takeLedger() -> [LedgerEntry] { ledger.take() }

    struct Ack {
        let floor: UInt64
        let epoch: SenderEpoch
        let credit: UInt32
        let status: AckStatus?
        let words: [UInt64]
        let echo: AckEcho
        let isPending: Bool
        let commitEpoch: UInt64
        let sums: EventSums?
        /// The sequences above the floor that it says are durable.
        var durable: [UInt64] {
            words.indices.flatMap { word in
                (0..<64 as Range<UInt64>).filter { words[word] >> $0 & 1 == 1 }
                    .map { floor + UInt64(word) * 64 + $0 }
            }
        }
    }

    /// What is owed, as its packets say it, once all is durable; and what was answered at once, which is first.
    mutating func acks() -> [Ack] {
        close()
        sync()
        return takeAcks()
    }

    /// Lets what is owed go, which would need the keys of its tags.
    mutating func dropAcks() {
        close()
        sync()
        owed.removeAll()
    }

    /// The refusals of packets without a window that are owed, none of which is sent.
    mutating func refusals() -> [AckPacket] {
        let others = windows.acks.others.map(\.packet)
        windows.acks.removeAll()
        return others
    }

    /// What has left, and what was owed when blocks were closed.
    mutating func takeAcks() -> [Ack] {
        owed.commitEpoch = durable
        answers.send(owed)
        owed.removeAll()
        return socket.take().compactMap { packet in
            packet.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
                    let ack = AckView(header, of: bytes)
                else {
                    Issue.record("no ack")
                    return nil
                }
                #expect(ack.directory.rawValue == 77)
                return Ack(
                    floor: ack.floor, epoch: header.epoch, credit: ack.credit, status: ack.status,
                    words: (0..<ack.wordCount).map(ack.word), echo: ack.echo,
                    isPending: ack.isPending, commitEpoch: ack.commitEpoch, sums: ack.sums)
            }
        }
    }
}
