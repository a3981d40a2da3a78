// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// How much all senders together may have on its way to the daemon: what the ring takes in without shedding, shared out by
/// demand. Owned by the commit queue.
///
/// A sender has demand for two seconds after a batch. It may have what it needs, four times as many packets as came from it
/// in the last second, so that it can grow; those that need more than an equal part share what the others leave. A sender
/// that only sends heartbeats takes nothing from the pool: it may begin with 64 packets.
///
/// Who has more than its part, because others came, gets less with its next answer. The sum of what is granted may pass the
/// pool by two packets a sender with demand: each of these gets as many at least.
///
/// **Cost** A pass over all windows, five times a second at most.
struct CreditPool {
    private let byteCount: Int
    private var grantedByteCount = 0
    /// Senders with demand.
    private var sharerCount = 0
    /// What those may have that need more than an equal part.
    private var levelByteCount: Int
    private var lookedAtNanoseconds: UInt64 = 0
    private var secondBeganNanoseconds: UInt64 = 0

    /// The least that a packet takes, which is what the kernel's buffer needs for an empty one, about.
    private static let packetByteCountMin = 768
    static let leastCount = 2
    /// Packets of a sender without demand: also what it may send before the first ack.
    static let idleCount = 64
    private static let needFactor = 4
    private static let lapseNanoseconds: UInt64 = 2_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 200_000_000
    private static let secondNanoseconds: UInt64 = 1_000_000_000

    init(byteCount: Int) {
        self.byteCount = byteCount
        levelByteCount = byteCount
    }

    /// Notes that a batch came: its sender has demand.
    mutating func note(batchOf entry: inout AdmittedWindow, _ now: StageTime) {
        entry.demand.batchNanoseconds = now.monotonicNanoseconds
        entry.demand.countNow += 1
        guard !entry.demand.isSharing else { return }
        entry.demand.isSharing = true
        sharerCount += 1
        // It takes what it needs, an equal part at most, from those that have more than theirs.
        levelByteCount = max(byteCount / sharerCount, levelByteCount - need(of: entry))
    }

    /// Grants a sender its part, in place of what it had.
    ///
    /// - Returns: packets of its size that it may have in flight; at most as many as a window holds.
    mutating func grant(_ entry: inout AdmittedWindow) -> Int {
        guard entry.demand.isSharing else { return Self.idleCount }
        grantedByteCount -= entry.demand.grantedByteCount
        let packetByteCount = max(entry.batchByteCount, Self.packetByteCountMin)
        let part = min(levelByteCount, byteCount - grantedByteCount, need(of: entry))
        let count = min(
            max(Self.leastCount, part / packetByteCount), Limits.windowSequenceCountMax)
        entry.demand.grantedByteCount = count * packetByteCount
        grantedByteCount += entry.demand.grantedByteCount
        return count
    }

    private func need(of entry: borrowing AdmittedWindow) -> Int {
        let count = max(entry.demand.countBefore, entry.demand.countNow, Self.leastCount)
        return Self.needFactor * count * max(entry.batchByteCount, Self.packetByteCountMin)
    }

    mutating func giveBack(_ entry: inout AdmittedWindow) {
        guard entry.demand.isSharing else { return }
        grantedByteCount -= entry.demand.grantedByteCount
        entry.demand = SenderDemand()
        sharerCount -= 1
    }

    /// Takes back what senders without batches were granted, and looks at what the others need; now and then.
    mutating func look(at entries: inout [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard time &- lookedAtNanoseconds >= Self.lookIntervalNanoseconds else { return }
        lookedAtNanoseconds = time
        let isNewSecond = time &- secondBeganNanoseconds >= Self.secondNanoseconds
        if isNewSecond { secondBeganNanoseconds = time }
        for index in entries.indices where entries[index].demand.isSharing {
            if time &- entries[index].demand.batchNanoseconds >= Self.lapseNanoseconds {
                giveBack(&entries[index])
            } else if isNewSecond {
                entries[index].demand.endSecond()
            }
        }
        level(entries)
    }

    /// Equal parts; what some do not need of theirs is for those that need more.
    private mutating func level(_ entries: borrowing [AdmittedWindow]) {
        let part = byteCount / max(1, sharerCount)
        var (spare, needyCount) = (0, 0)
        for index in entries.indices where entries[index].demand.isSharing {
            let need = need(of: entries[index])
            if need < part { spare += part - need } else { needyCount += 1 }
        }
        levelByteCount = min(byteCount, part + spare / max(1, needyCount))
    }
}

/// What a sender needs of the credit.
struct SenderDemand {
    /// What it was granted last, in bytes of the pool.
    var grantedByteCount = 0
    /// Whether a batch came in the last two seconds.
    var isSharing = false
    /// When the last batch came.
    var batchNanoseconds: UInt64 = 0
    /// Batches of this second, and of the one before.
    var countNow = 0
    var countBefore = 0

    mutating func endSecond() { (countBefore, countNow) = (countNow, 0) }
}
