// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRing

/// The window of one sender epoch as the commit stage has it: what the log will say, and what only memory
/// knows.
///
/// **Units** About 500 bytes, and the checks of its packets (`SequenceChecks`); up to 8 KiB more while a hole keeps the
/// floor down, and up to 16 KiB of ranges that are missing.
struct AdmittedWindow {
    let key: SenderKey
    var window: SenderWindow
    /// Monotonic time of the last packet; before the start of the process where the log has it.
    var seenNanoseconds: Int64
    var run = SequenceJumpDetector()

    // MARK: The ack that is due with the open block

    var isAckDue = false
    var status = AckStatus.ok
    /// Of the heartbeat that it answers.
    private var nonce: UInt64?
    private var lastSequence: UInt64 = 0
    private var refusedUntilNanoseconds: UInt64 = 0
    /// Whether its last new batch was shed, since its key had no names left.
    var isShedForNames = false

    // MARK: What is durable

    /// The commit that holds its newest packet or move of the floor.
    private(set) var admittedEpoch: UInt64 = 0
    /// What is durable: a floor, and what became of the events.
    struct Durable {
        let floor: UInt64
        let sums: EventSums

        init(_ window: SenderWindow) {
            (floor, sums) = (window.sequences.floor, EventSums(window.events))
        }
    }

    /// What is durable once the commit is, and what is.
    private var sample: (state: Durable, epoch: UInt64)
    private var durable: Durable
    /// Where the ack that is due goes: to where the last new batch came from, and without one to that of the last other
    /// packet: one that was sent again by anybody turns no ack away.
    private var source: PacketSource?
    private var isSourceOfBatch = false
    /// The largest packet from there since the last ack.
    private var largestByteCount = 0
    /// What its largest batch took of the ring; 0 before the first.
    var batchByteCount = 0

    // MARK: Credit

    var demand = SenderDemand()

    init(key: SenderKey, window: SenderWindow, seenNanoseconds: Int64) {
        self.key = key
        self.window = window
        self.seenNanoseconds = seenNanoseconds
        durable = Durable(window)
        sample = (durable, 0)
    }

    /// Notes that it has changed by a packet of the commit that is open.
    mutating func note(commit epoch: UInt64) { admittedEpoch = epoch }

    /// Notes how far it is when that commit is closed.
    /// - Parameter durableEpoch: the last commit that is durable now.
    mutating func note(closing epoch: UInt64, durable durableEpoch: UInt64) {
        isAckDue = false
        status = .ok
        (nonce, lastSequence) = (nil, 0)
        isSourceOfBatch = false
        largestByteCount = 0
        guard sample.epoch <= durableEpoch else { return }
        durable = sample.state
        sample = (Durable(window), epoch)
    }

    /// What was durable before, while not all that has arrived is; else `nil`.
    mutating func stateWhilePending(durable durableEpoch: UInt64) -> Durable? {
        if sample.epoch <= durableEpoch { durable = sample.state }
        return admittedEpoch > durableEpoch ? durable : nil
    }

    /// Whether all that was announced is final and durable, and the sequences below this one are all of it.
    mutating func isFinal(upTo sequence: UInt64, durable: UInt64) -> Bool {
        window.sequences.floor == sequence && window.announced == sequence
            && stateWhilePending(durable: durable) == nil
    }

    /// What a window says to a sequence.
    struct Standing {
        let state: SequenceWindow.State
        let floor: UInt64
        let end: UInt64
        /// Sequences from the floor on that it has memory for.
        let bitCount: UInt64
    }

    /// (Mutating, so that it is asked in its place: see `measuring`.)
    mutating func standing(of sequence: UInt64) -> Standing {
        Standing(
            state: window.sequences.state(of: sequence), floor: window.sequences.floor,
            end: window.sequences.end, bitCount: UInt64(window.sequences.bitCount))
    }

    /// A batch of the sender came.
    mutating func note(batch packet: SequencedPacket, _ now: StageTime) -> Standing {
        seenNanoseconds = now.signedNanoseconds
        batchByteCount = max(batchByteCount, packet.ringByteCount)
        return standing(of: packet.sequence)
    }

    /// How long answers to heartbeats repeat that a packet was refused for good.
    private static let refusalNanoseconds: UInt64 = 10_000_000_000

    mutating func note(refusal now: StageTime) {
        refusedUntilNanoseconds = now.monotonicNanoseconds &+ Self.refusalNanoseconds
    }

    /// Whether answers to heartbeats say that its sender is to stop.
    func isRefused(_ now: StageTime) -> Bool {
        now.monotonicNanoseconds < refusedUntilNanoseconds
    }

    /// The ack that is due, if one is, answers a heartbeat.
    mutating func note(answering packet: SequencedPacket) {
        guard isAckDue, let source else { return }
        nonce = packet.heartbeat?.nonce
        if source.isSamePeer(as: packet.source) {
            largestByteCount = max(largestByteCount, packet.source.byteCount)
        }
    }

    /// A packet's open sequence was consumed, in a commit.
    /// - Returns: whether there was a place for its check, and whether an ack is due now that was not.
    mutating func accept(
        _ packet: SequencedPacket, commit epoch: UInt64
    ) -> (hasCheck: Bool, beginsAck: Bool) {
        let hasCheck = window.accept(packet.sequence, check: packet.check, room: 0)
        note(commit: epoch)
        isShedForNames = false
        return (hasCheck, packet.asksForAcks && owe(packet, .ok, isNewBatch: true))
    }

    /// An ack is due for a packet, or for this one too.
    /// - Returns: whether none was due before.
    mutating func owe(_ packet: SequencedPacket, _ status: AckStatus, isNewBatch: Bool) -> Bool {
        note(owed: packet, isNewBatch: isNewBatch)
        self.status = isAckDue ? self.status.stronger(status) : status
        defer { isAckDue = true }
        return !isAckDue
    }

    private mutating func note(owed packet: SequencedPacket, isNewBatch: Bool) {
        if let heartbeat = packet.heartbeat {
            nonce = heartbeat.nonce
        } else {
            lastSequence = packet.sequence
        }
        let isSame = source.map { $0.isSamePeer(as: packet.source) } ?? false
        if isNewBatch || !isSourceOfBatch {
            if !isSame { largestByteCount = 0 }
            source = packet.source
            isSourceOfBatch = isNewBatch
        } else if !isSame {
            return
        }
        largestByteCount = max(largestByteCount, packet.source.byteCount)
    }

    /// Where the ack that is due goes, and how large it may be.
    var ackSource: PacketSource? { source?.acked(byteCount: largestByteCount) }

    /// Of the ack that is due: the nonce only where what came from there is as large as an answer.
    var echo: AckEcho {
        guard let nonce, let source = ackSource else { return .sequence(lastSequence) }
        let needed = AckPacket.byteCount(
            furtherWordCount: 0, hasTag: source.isTagged, isAnswer: true)
        return source.byteCount < needed ? .sequence(lastSequence) : .nonce(nonce)
    }

    /// Of one that holds a packet.
    static let byteCountAtFirst = MemoryLayout<Self>.stride + 2 << 10

    /// Bytes of memory, about, without checks.
    var byteCount: Int {
        MemoryLayout<Self>.stride + window.sequences.byteCount
    }

    /// Changes it, and says by how many bytes it grew. (In place: one that is only asked is copied, with a count of
    /// references for each of its arrays.)
    @inline(__always)
    mutating func measuring<Result>(
        _ change: (inout AdmittedWindow) -> Result
    ) -> (Result, growth: Int) {
        let before = byteCount
        let result = change(&self)
        return (result, byteCount - before)
    }
}

/// Packets in a row that are all far ahead of a window, and near each other: the sender, and not a stray
/// packet, is there.
struct SequenceJumpDetector {
    private var low: UInt64 = 0
    private var high: UInt64 = 0
    private var count = 0
    private var beganNanoseconds: UInt64 = 0

    private static let countMin = 16
    private static let nanosecondsMax: UInt64 = 1_000_000_000

    /// Notes a sequence that is too far ahead.
    /// - Returns: the lowest of the run, once it is long enough to be accepted.
    mutating func note(_ sequence: UInt64, at nanoseconds: UInt64) -> UInt64? {
        let (low, high) = (min(low, sequence), max(high, sequence))
        let goesOn =
            count > 0 && high - low < UInt64(Limits.windowSequenceCountMax)
            && nanoseconds &- beganNanoseconds <= Self.nanosecondsMax
        if goesOn {
            (self.low, self.high, count) = (low, high, count + 1)
        } else {
            (self.low, self.high, count) = (sequence, sequence, 1)
            beganNanoseconds = nanoseconds
        }
        return count >= Self.countMin ? self.low : nil
    }

    /// A packet came that is not far ahead.
    mutating func end() { count = 0 }
}

/// What a framed packet says to the window of its sender, as it comes out of the ring.
struct SequencedPacket {
    let key: SenderKey
    /// Of a heartbeat: the next one to be sent.
    let sequence: UInt64
    let asksForAcks: Bool
    /// 16 bits of the packet's bytes but for its key, its tag and its flags, save that of acks; never 0.
    let check: UInt16
    /// Its share of the ring, if all that is in it were as large: of a slab, with what is left of that.
    let ringByteCount: Int
    let source: PacketSource
    /// `nil` of a batch.
    let heartbeat: Heartbeat?

    /// What an answer to it echoes.
    var echo: AckEcho { heartbeat.map { .nonce($0.nonce) } ?? .sequence(sequence) }

    init(_ record: RingRecordHeader, _ heartbeat: Heartbeat? = nil) {
        self.heartbeat = heartbeat
        key = SenderKey(
            kind: .framed, sender: SenderID(rawValue: record.sender),
            epoch: SenderEpoch(rawValue: record.epoch))
        sequence = record.sequence
        asksForAcks = record.flags & RingRecordHeader.Flags.wantsAck != 0
        check = record.check
        ringByteCount = RingLayout.shareByteCount(of: Int(record.byteCount))
        source = PacketSource(record)
    }
}

/// Where an ack of a packet goes, and how large it may be.
struct PacketSource {
    let peer: ingest_peer
    /// 0 = no key.
    let keyID: UInt16
    /// Whether the packet had a tag: then its ack has one.
    let isTagged: Bool
    /// Bytes of the packet: an ack is no larger.
    private(set) var byteCount: Int

    /// 0 where no tag proves the key.
    var provenKeyID: UInt16 { isTagged ? keyID : 0 }

    /// Whether both come from one address and port.
    func isSamePeer(as other: PacketSource) -> Bool {
        let (a, b) = (peer, other.peer)
        return a.host.0 == b.host.0 && a.host.1 == b.host.1 && a.scope == b.scope
            && a.port == b.port && a.family == b.family
    }

    /// The same, for an ack of several packets, of which the largest had so many bytes.
    func acked(byteCount: Int) -> PacketSource {
        var source = self
        source.byteCount = byteCount
        return source
    }

    init(_ record: RingRecordHeader) {
        peer = record.source
        keyID = record.keyID
        isTagged = record.flags & RingRecordHeader.Flags.hasTag != 0
        byteCount = Int(record.packetByteCount)
    }
}
