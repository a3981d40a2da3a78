// packet → decode → ring → [admit → block → segment] → compaction → snapshot → query
// What flows back: acks are due with a block, are true once it is durable, and leave then.
import CIngestLinux
import IngestFormat
import IngestKeys

/// One ack on its way to a sender. The only place where the daemon makes one.
struct OutgoingAck: Sendable {
    let packet: AckPacket
    let peer: ingest_peer
    /// The words of the bitmap, in the list's memory.
    fileprivate(set) var words: Range<Int> = 0..<0
    let furtherWordCountMax: Int

    /// - Parameter source: of the packet that is answered: the ack goes there, is no larger, and has its key.
    ///
    /// `nil` if that packet was smaller than any ack.
    init?(
        _ status: AckStatus, sender: SenderID, epoch: SenderEpoch, floor: UInt64 = 0,
        credit: Int = 0, to source: PacketSource
    ) {
        let count = AckPacket.furtherWordCount(
            fitting: source.byteCount, hasTag: source.isTagged)
        guard let count else { return nil }
        packet = AckPacket(
            sender: sender, epoch: epoch, floor: PacketSequence(rawValue: floor),
            keyID: source.keyID, hasTag: source.isTagged,
            credit: UInt32(min(credit, Limits.windowSequenceCountMax)), status: status)
        peer = source.peer
        furtherWordCountMax = count
    }
}

/// The acks that are true once a block is durable. It travels with the block's slot, from the commit stage,
/// which knows what has arrived, to the sync stage, which knows when that is durable.
///
/// **Cost** Kept from block to block; 80 bytes an ack and 8 a word, of which there are `wordCountMax` and one an ack at most.
package struct AckList: Sendable {
    private(set) var acks: [OutgoingAck] = []
    private var words: [UInt64] = []
    private static let wordCountMax = 1 << 17

    package var isEmpty: Bool { acks.isEmpty }

    /// - Parameter window: whose floor the ack has; `nil` = nothing is said of sequences.
    mutating func append(_ ack: OutgoingAck, _ window: SequenceWindow? = nil) {
        var ack = ack
        let start = words.count
        if let window {
            var sequence = window.floor
            repeat {
                words.append(window.word(from: sequence))
                sequence += 64
            } while sequence < window.end && words.count - start <= ack.furtherWordCountMax
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
    @unsafe func encode(_ ack: OutgoingAck, into packet: UnsafeMutableRawBufferPointer) -> Int {
        // SAFETY: the caller's memory holds any ack.
        unsafe ack.packet.encode(into: packet, furtherWordCount: ack.words.count - 1) {
            words[ack.words.lowerBound + $0]
        }
    }
}

/// The acks that are owed with the open block.
struct DueAcks {
    /// Of windows, each once.
    var due: [Int] = []
    /// Of packets without a window.
    private(set) var refusals: [OutgoingAck] = []

    private static let refusalCountMax = 1 << 10

    var isOwed: Bool { !due.isEmpty || !refusals.isEmpty }

    mutating func refuse(_ packet: SequencedPacket, _ status: AckStatus, currentEpoch: UInt64) {
        guard refusals.count < Self.refusalCountMax else { return }
        let isOld = status == .refused && currentEpoch > packet.key.epoch.rawValue
        let epoch = isOld ? SenderEpoch(rawValue: currentEpoch) : packet.key.epoch
        let ack = OutgoingAck(
            status, sender: packet.key.sender, epoch: epoch, to: packet.source)
        if let ack { refusals.append(ack) }
    }

    mutating func removeAll() {
        due.removeAll(keepingCapacity: true)
        refusals.removeAll(keepingCapacity: true)
    }

    /// A window has another place now.
    mutating func move(_ index: Int, to newIndex: Int) {
        for place in due.indices where due[place] == index { due[place] = newIndex }
    }
}

extension AckStatus {
    /// Of what two packets of one commit are owed, what is said: a packet far away, which anybody may have sent, must not
    /// keep a sender from hearing what has arrived.
    func stronger(_ other: AckStatus) -> AckStatus {
        let order: [AckStatus] = [.refused, .diskFull, .busy, .ok, .beyondWindow]
        return order.first { $0 == self || $0 == other } ?? self
    }
}

/// Makes the packets of acks and sends them. The sync queue owns one for the acks of durable blocks, the receive queue one
/// for what it sheds.
///
/// `@unchecked Sendable`: it moves to its queue as a whole; `~Copyable` keeps its memory in one place.
///
/// **Cost** 530 KiB, touched as far as acks need it; about 1 µs an ack, most of it the system call.
@safe struct AckSender: ~Copyable, @unchecked Sendable {
    private let socket: any AckSocket
    private let keyRing: KeyRing?
    private var keys: KeyRing.Keys?
    private let bytes: UnsafeMutableRawBufferPointer
    private let outgoing: UnsafeMutableBufferPointer<ingest_ack>

    private static let batchCount = Int(INGEST_SEND_COUNT_MAX)
    private static let byteCountMax = AckPacket.byteCount(
        furtherWordCount: AckPacket.furtherWordCountMax, hasTag: true)

    init(socket: any AckSocket, keyRing: KeyRing? = nil) {
        self.socket = socket
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

    /// - Returns: how many the socket took.
    @discardableResult
    mutating func send(_ list: AckList) -> Int {
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
            for place in 0..<count { put(acks[start + place], of: list, at: place) }
            // SAFETY: `count` of them were set above; their bytes are this sender's own.
            sentCount += unsafe socket.send(UnsafeBufferPointer(rebasing: outgoing[..<count]))
            start += count
        }
        return sentCount
    }

    private mutating func put(_ ack: OutgoingAck, of list: AckList, at place: Int) {
        let start = place * Self.byteCountMax
        // SAFETY: each place has room for the largest ack; place < batchCount.
        unsafe outgoing[place].bytes = UnsafePointer(
            (bytes.baseAddress! + start).assumingMemoryBound(to: UInt8.self))
        var byteCount = unsafe list.encode(
            ack,
            into: UnsafeMutableRawBufferPointer(
                rebasing: bytes[start..<start + Self.byteCountMax]))
        // Without its key by now, the ack leaves untagged and the sender ignores it.
        if ack.packet.hasTag, let key = keys?[ack.packet.keyID] {
            byteCount += PacketTag.byteCount
            unsafe key.tag.seal(
                UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + byteCount]))
        }
        unsafe outgoing[place].byte_count = UInt32(byteCount)
        unsafe outgoing[place].to = ack.peer
    }
}

/// How much all senders together may have on its way to the daemon: what the ring takes in without shedding, shared out in equal parts among those that asked in the last two seconds.
///
/// Who has more than that, because there were fewer before, gets less with its next answer; until then a new one gets what is
/// left. The sum of what is granted passes the pool by a packet a sender at most: every sender gets at least one.
struct CreditPool {
    private let byteCount: Int
    private var grantedByteCount = 0
    /// Senders that asked, and were not silent since.
    private var shareCount = 0
    private var lapsedAtNanoseconds: UInt64 = 0

    /// The least that a packet takes, which is what the kernel's buffer needs for an empty one, about.
    private static let packetByteCountMin = 768
    /// Packets of a sender of which only heartbeats came: how large its batches are is not known.
    private static let unseenCountMax = 64
    private static let lapseNanoseconds: UInt64 = 2_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 200_000_000

    init(byteCount: Int) { self.byteCount = byteCount }

    /// Grants a sender its share, in place of what it had.
    ///
    /// - Returns: packets of its size that it may have in flight; at most as many as a window holds.
    mutating func grant(_ entry: inout AdmittedWindow) -> Int {
        grantedByteCount -= entry.grantedByteCount
        if !entry.isSharing {
            entry.isSharing = true
            shareCount += 1
        }
        let packetByteCount = max(entry.batchByteCount, Self.packetByteCountMin)
        let share = min(byteCount / shareCount, byteCount - grantedByteCount)
        let most =
            entry.batchByteCount > 0 ? Limits.windowSequenceCountMax : Self.unseenCountMax
        let count = min(max(1, share / packetByteCount), most)
        entry.grantedByteCount = count * packetByteCount
        grantedByteCount += entry.grantedByteCount
        return count
    }

    mutating func giveBack(_ entry: inout AdmittedWindow) {
        guard entry.isSharing else { return }
        grantedByteCount -= entry.grantedByteCount
        entry.grantedByteCount = 0
        entry.isSharing = false
        shareCount -= 1
    }

    /// Takes back what silent senders were granted; a pass over all, five times a second at most.
    mutating func lapse(_ entries: inout [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard time &- lapsedAtNanoseconds >= Self.lookIntervalNanoseconds else { return }
        lapsedAtNanoseconds = time
        for index in entries.indices where entries[index].isSharing {
            let silent = Int64(clamping: time) - entries[index].seenNanoseconds
            if silent >= Int64(Self.lapseNanoseconds) { giveBack(&entries[index]) }
        }
    }
}
