// packet → decode → ring → [admit → block → segment] → compaction → snapshot → query
// What flows back: acks are due with a block, are true once it is durable, and leave then.
import CIngestLinux
import IngestFormat
import IngestKeys

/// One ack on its way to a sender. The only place where the daemon makes one.
struct OutgoingAck: Sendable {
    fileprivate(set) var packet: AckPacket
    let peer: ingest_peer
    /// The words of the bitmap, in the list's memory.
    fileprivate(set) var words: Range<Int> = 0..<0
    let furtherWordCountMax: Int
    /// Of the probe that it answers in the place of an ack; `nil` = of none.
    private(set) var probeNonce: UInt64?

    /// - Parameter source: of the packet that is answered: the ack goes there, is no larger, and has its key.
    ///
    /// `nil` if that packet was smaller than any ack.
    init?(
        _ status: AckStatus, sender: SenderID, epoch: SenderEpoch, floor: UInt64 = 0,
        credit: Int = 0, echo: AckEcho, sums: EventSums = EventSums(), isPending: Bool = false,
        to source: PacketSource
    ) {
        packet = AckPacket(
            sender: sender, epoch: epoch, floor: PacketSequence(rawValue: floor),
            keyID: source.keyID, hasTag: source.isTagged,
            credit: UInt32(min(credit, Limits.windowSequenceCountMax)), status: status)
        packet.echo = echo
        packet.sums = sums
        packet.isPending = isPending
        let count = AckPacket.furtherWordCount(
            fitting: source.byteCount, hasTag: source.isTagged, isAnswer: packet.isAnswer)
        guard let count else { return nil }
        peer = source.peer
        furtherWordCountMax = count
    }

    /// The answer to a probe, which is smaller than any.
    init(answering probe: Probe, sender: SenderID, epoch: SenderEpoch, to source: PacketSource) {
        packet = AckPacket(
            sender: sender, epoch: epoch, floor: PacketSequence(rawValue: 0),
            keyID: source.keyID, hasTag: source.isTagged, credit: 0)
        probeNonce = probe.nonce
        peer = source.peer
        furtherWordCountMax = 0
    }

    fileprivate var probeHeader: PacketHeader {
        PacketHeader(
            kind: .probeAnswer, flags: hasTag ? PacketHeader.Flags.hasTag : 0, keyID: keyID,
            sender: sender, epoch: packet.epoch, sequence: packet.floor)
    }

    var sender: SenderID { packet.sender }
    /// Whether it echoes a heartbeat's nonce.
    var isAnswer: Bool { packet.isAnswer }
    var hasTag: Bool { packet.hasTag }
    var keyID: UInt16 { packet.keyID }
}

/// The acks that are true once a block is durable. It travels with the block's slot, from the commit stage,
/// which knows what has arrived, to the sync stage, which knows when that is durable.
///
/// **Cost** Kept from block to block; 80 bytes an ack and 8 a word, of which there are `wordCountMax` and one an ack at most.
package struct AckList: Sendable {
    private(set) var acks: [OutgoingAck] = []
    private var words: [UInt64] = []
    private static let wordCountMax = 1 << 17
    /// The last commit that is durable when they leave.
    var commitEpoch: UInt64 = 0

    package var isEmpty: Bool { acks.isEmpty }

    /// - Parameters:
    ///   - window: whose floor the ack has; `nil` = nothing is said of sequences.
    ///   - end: it tells of all below it, as far as words fit, also of those behind everything that arrived.
    mutating func append(
        _ ack: OutgoingAck, _ window: SequenceWindow? = nil, upTo end: UInt64 = 0
    ) {
        var ack = ack
        let start = words.count
        if let window {
            var sequence = window.floor
            repeat {
                words.append(window.word(from: sequence))
                sequence += 64
            } while sequence < max(window.end, end)
                && words.count - start <= ack.furtherWordCountMax
                && words.count < Self.wordCountMax
        } else {
            words.append(0)
        }
        ack.words = start..<words.count
        acks.append(ack)
    }

    mutating func removeAll() {
        acks.removeAll(keepingCapacity: true)
        words.removeAll(keepingCapacity: true)
    }

    /// Writes the packet of an ack, without its tag.
    /// - Returns: its bytes.
    @unsafe func encode(
        _ ack: OutgoingAck, of directory: DirectoryID, _ unixMicroseconds: Int64,
        into bytes: UnsafeMutableRawBufferPointer
    ) -> Int {
        if let nonce = ack.probeNonce {
            let answer = ProbeAnswer(
                nonce: nonce, unixMicroseconds: unixMicroseconds, directory: directory)
            // SAFETY: as below.
            return unsafe answer.encode(into: bytes, ack.probeHeader)
        }
        var packet = ack.packet
        packet.directory = directory
        packet.commitEpoch = commitEpoch
        // SAFETY: the caller's memory holds any ack.
        return unsafe packet.encode(into: bytes, furtherWordCount: ack.words.count - 1) {
            words[ack.words.lowerBound + $0]
        }
    }
}

/// Makes the packets of acks and sends them. The sync queue owns one for the acks of durable blocks, the commit queue one
/// for answers that wait for no block, the receive queue one for what it sheds.
///
/// `@unchecked Sendable`: it moves to its queue as a whole; `~Copyable` keeps its memory in one place.
///
/// **Cost** 530 KiB, touched as far as acks need it; about 1 µs an ack, most of it the system call.
@safe package struct AckSender: ~Copyable, @unchecked Sendable {
    private let socket: any AckSocket
    private let directory: DirectoryID
    private let keyRing: KeyRing?
    private var keys: KeyRing.Keys?
    private let bytes: UnsafeMutableRawBufferPointer
    private let outgoing: UnsafeMutableBufferPointer<ingest_ack>

    private static let batchCount = Int(INGEST_SEND_COUNT_MAX)
    private static let byteCountMax = AckPacket.byteCount(
        furtherWordCount: AckPacket.furtherWordCountMax, hasTag: true, isAnswer: true)

    package init(socket: any AckSocket, directory: DirectoryID, keyRing: KeyRing? = nil) {
        self.socket = socket
        self.directory = directory
        self.keyRing = keyRing
        keys = keyRing?.current
        unsafe bytes = .allocate(byteCount: Self.batchCount * Self.byteCountMax, alignment: 64)
        unsafe outgoing = .allocate(capacity: Self.batchCount)
        unsafe outgoing.initialize(repeating: ingest_ack())
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe outgoing.deallocate()
    }

    /// - Parameter unixMicroseconds: now, for answers to probes.
    /// - Returns: how many the socket took.
    @discardableResult
    mutating func send(_ list: AckList, unixMicroseconds: Int64 = 0) -> Int {
        if list.isEmpty { return 0 }
        if let keyRing, var current = keys.take() {
            keyRing.refresh(&current)
            keys = current
        }
        let acks = list.acks
        var sentCount = 0
        var start = 0
        while start < acks.count {
            let count = min(Self.batchCount, acks.count - start)
            for place in 0..<count {
                put(acks[start + place], of: list, at: place, unixMicroseconds)
            }
            // SAFETY: `count` of them were set above; their bytes are this sender's own.
            sentCount += unsafe socket.send(UnsafeBufferPointer(rebasing: outgoing[..<count]))
            start += count
        }
        return sentCount
    }

    private mutating func put(
        _ ack: OutgoingAck, of list: AckList, at place: Int, _ unixMicroseconds: Int64
    ) {
        let start = place * Self.byteCountMax
        // SAFETY: each place has room for the largest ack; place < batchCount.
        unsafe outgoing[place].bytes = UnsafePointer(
            (bytes.baseAddress! + start).assumingMemoryBound(to: UInt8.self))
        var byteCount = unsafe list.encode(
            ack, of: directory, unixMicroseconds,
            into: UnsafeMutableRawBufferPointer(
                rebasing: bytes[start..<start + Self.byteCountMax]))
        // Without its key by now, the ack leaves untagged and the sender ignores it.
        if ack.hasTag, let key = keys?[ack.keyID] {
            byteCount += PacketTag.byteCount
            unsafe key.tag.seal(
                UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + byteCount]))
        }
        unsafe outgoing[place].byte_count = UInt32(byteCount)
        unsafe outgoing[place].to = ack.peer
    }
}
