// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// How much all senders together may have on its way to the daemon: what the receive buffer and the ring
/// take in without loss, shared out among those that are there.
///
/// The sum of what is granted never passes the pool. What was granted to a sender that is silent for two
/// seconds goes back.
struct CreditPool {
    private let byteCount: Int
    private var grantedByteCount = 0
    /// Senders that were granted something.
    private var shareCount = 0
    private var lapsedAtNanoseconds: UInt64 = 0

    /// What a packet takes in the kernel's buffer beside its bytes, about.
    private static let packetOverheadByteCount = 768
    private static let lapseNanoseconds: UInt64 = 2_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 200_000_000

    init(byteCount: Int) { self.byteCount = byteCount }

    /// Grants a sender its share, in place of what it had.
    ///
    /// - Returns: packets of its size that it may have in flight; at most as many as a window holds.
    mutating func grant(_ entry: inout AdmittedWindow, _ now: StageTime) -> Int {
        giveBack(&entry)
        let packetByteCount =
            max(entry.largestByteCount, PacketHeader.byteCount) + Self.packetOverheadByteCount
        let share = min(byteCount / (shareCount + 1), byteCount - grantedByteCount)
        let count = min(max(0, share) / packetByteCount, Limits.windowSequenceCountMax)
        entry.grantedByteCount = count * packetByteCount
        entry.grantedAtNanoseconds = now.monotonicNanoseconds
        grantedByteCount += entry.grantedByteCount
        if count > 0 { shareCount += 1 }
        return count
    }

    mutating func giveBack(_ entry: inout AdmittedWindow) {
        guard entry.grantedByteCount > 0 else { return }
        grantedByteCount -= entry.grantedByteCount
        shareCount -= 1
        entry.grantedByteCount = 0
    }

    /// Takes back what silent senders were granted; a pass over all, five times a second at most.
    mutating func lapse(_ entries: inout [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard time &- lapsedAtNanoseconds >= Self.lookIntervalNanoseconds else { return }
        lapsedAtNanoseconds = time
        for index in entries.indices where entries[index].grantedByteCount > 0 {
            let silent = Int64(clamping: time) - entries[index].seenNanoseconds
            if silent >= Int64(Self.lapseNanoseconds) { giveBack(&entries[index]) }
        }
    }
}
