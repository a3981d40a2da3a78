// packet → [spool] → socket

import IngestFormat
import IngestStorage

/// What a stream wants of its spool, which takes as long as a disk does: its owner runs it outside of its lock, one at a
/// time, and gives it back by `endSpoolWork`.
///
/// **Cost** Of packets one write and one fdatasync; files that are acked go before that, and make room.
package struct SpoolWork: ~Copyable {
    /// Of packets: enough that a sync costs each little, and little enough for one file.
    static let byteCountMax = 1 << 20

    let spool: any PacketSpool
    /// All below is acked.
    let base: UInt64
    let packets: [SpooledPacket]
    /// With which the spool ends; `nil` where it does not.
    let end: SpoolEnd?
    /// Where the packets are then, if there were any, and it did not fail.
    private(set) var place: SpoolPlace?
    /// At `diskFull` the same can be given to the spool again.
    private(set) var error: StorageError?

    init(_ spool: any PacketSpool, base: UInt64, packets: [SpooledPacket], end: SpoolEnd?) {
        (self.spool, self.base, self.packets, self.end) = (spool, base, packets, end)
    }

    package mutating func run() {
        do throws(StorageError) {
            try spool.retire(below: base)
            if !packets.isEmpty { place = try spool.append(packets) }
            if let end { try spool.finish(end.note) }
        } catch {
            self.error = error
        }
    }
}

/// How a spool ends, all of whose packets are acked.
struct SpoolEnd: Sendable {
    /// See `PacketSpool.finish`.
    let note: SpoolNote?
}

/// What of a stream waits for its spool.
struct SpoolQueue: Sendable {
    /// So many of what was taken back are remembered, at most one a second: callers learn of it in less than that.
    private static let takenBackCountMax: UInt64 = 1_024

    /// Sealed packets, of which the first may be being written.
    private(set) var packets: [SpooledPacket] = []
    private(set) var byteCount = 0
    /// They are to be written now.
    var isDue = false
    /// So many of the packets are with the owner, who may also do other work; `nil` = there is none under way.
    private(set) var runningCount: Int?
    var isRunning: Bool { runningCount != nil }
    /// The end is wanted, or being written.
    var end: SpoolEnd?
    /// See `PacketSpool.retirableEnd`.
    var retirableEnd = UInt64.max
    /// The first sequence of each taking back.
    private(set) var takenBack = SequenceArray<UInt64>(start: 0)

    mutating func append(_ packet: SpooledPacket) {
        packets.append(packet)
        byteCount += packet.bytes.count
    }

    mutating func forget() {
        packets.removeAll(keepingCapacity: true)
        (byteCount, isDue) = (0, false)
    }

    /// - Returns: the packets that fit one write, if they are due.
    mutating func begin() -> [SpooledPacket] {
        var (count, sum) = (0, 0)
        while isDue, count < packets.count, sum < SpoolWork.byteCountMax {
            sum += packets[count].bytes.count
            count += 1
        }
        runningCount = count
        isDue = isDue && count < packets.count
        return Array(packets[..<count])
    }

    /// - Parameter isWritten: else they stay.
    mutating func finish(isWritten: Bool) {
        if isWritten, let runningCount {
            for packet in packets[..<runningCount] { byteCount -= packet.bytes.count }
            packets.removeFirst(runningCount)
        }
        runningCount = nil
    }

    /// Forgets what was not written: it begins at that sequence.
    mutating func takeBack(from sequence: UInt64) {
        forget()
        takenBack.append(sequence)
        takenBack.remove(below: takenBack.end - min(takenBack.end, Self.takenBackCountMax))
    }
}

/// What a caller waits for: that all packets below a sequence are in the spool.
struct SpoolTicket: Sendable {
    let end: UInt64
    /// See `SpoolQueue.takenBack`.
    let takenBackEnd: UInt64
}

/// A little room on the spool's disk, held back by a file of zeros: packets may fill the disk, and the file that takes
/// their place when all of them are acked still fits (docs/format/spool.md).
///
/// Never synced and never read. Where a file system cannot preallocate, or has no room, it holds nothing back.
struct SpoolReserve<Files: FileSystem> {
    static var name: String { "reserve" }
    /// A head and its directory entry, whatever the size of the file system's blocks.
    static var byteCount: UInt64 { 65_536 }

    let files: Files

    /// Makes it whole, as far as there is room: to be called where there may be some again.
    ///
    /// **Errors** None: what is wrong with the disk, the next write of a packet says.
    func hold() {
        guard let file = try? files.open(Self.name, .readWrite) else {
            try? files.create(Self.name).allocate(to: Self.byteCount)
            return
        }
        try? file.allocate(to: Self.byteCount)
    }

    /// Frees it.
    ///
    /// - Returns: whether that gave any room.
    func spend() -> Bool {
        guard let file = try? files.open(Self.name, .readWrite), let count = try? file.byteCount(),
            count > 0
        else { return false }
        return (try? file.truncate(to: 0)) != nil
    }
}
