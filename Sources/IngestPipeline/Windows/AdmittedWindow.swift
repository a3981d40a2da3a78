// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The window of one sender epoch as the commit stage has it: what the log will say, and what only memory
/// knows.
///
/// **Units** About 450 bytes; 2 KiB more once a packet came; up to 8 KiB more while a hole keeps the floor down, and up to
/// 16 KiB of ranges that are missing.
struct AdmittedWindow {
    let key: SenderKey
    var window: SenderWindow
    /// Monotonic time of the last packet; before the start of the process where the log has it.
    var seenNanoseconds: Int64
    /// A ring of `checkCount` by sequence, of the packets that arrived last; 0 = not known.
    private var checks: [UInt16] = []
    var run = JumpRun()

    // MARK: The answer that is due with the open block

    var isAnswerDue = false
    var status = AckStatus.ok
    /// Where the last packet came from, and its size.
    var source: PacketSource?
    /// The largest packet from there since the last answer.
    var largestByteCount = 0
    /// What its largest batch took of the ring; 0 before the first.
    var batchByteCount = 0

    // MARK: Credit

    /// What it was granted last, in bytes of the pool.
    var grantedByteCount = 0
    var isSharing = false

    private static let checkCount = 1 << 10

    init(key: SenderKey, window: SenderWindow, seenNanoseconds: Int64) {
        self.key = key
        self.window = window
        self.seenNanoseconds = seenNanoseconds
    }

    /// A packet that is owed an answer came from there.
    mutating func note(_ packetSource: PacketSource) {
        let isSame = source.map { $0.isSamePeer(as: packetSource) } ?? false
        source = packetSource
        largestByteCount = max(isSame ? largestByteCount : 0, packetSource.byteCount)
    }

    /// Of one that holds a packet.
    static let byteCountAtFirst = MemoryLayout<Self>.stride + 4 << 10

    /// Bytes of memory, about.
    var byteCount: Int {
        MemoryLayout<Self>.stride + window.sequences.byteCount
            + checks.count * MemoryLayout<UInt16>.stride
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

    /// Notes that an open sequence was consumed.
    mutating func accept(_ sequence: UInt64, check: UInt16) {
        window.sequences.insert(sequence)
        if checks.isEmpty { checks = [UInt16](repeating: 0, count: Self.checkCount) }
        if ownsCheck(sequence) { checks[Self.place(sequence)] = check }
    }

    /// Whether a sequence that arrived came with other bytes then; where that is no longer known, not.
    func isConflict(_ sequence: UInt64, check: UInt16) -> Bool {
        guard !checks.isEmpty, ownsCheck(sequence) else { return false }
        let known = checks[Self.place(sequence)]
        return known != 0 && known != check
    }

    private static func place(_ sequence: UInt64) -> Int {
        Int(truncatingIfNeeded: sequence) & (checkCount - 1)
    }

    /// Whether no higher sequence that shares its place has arrived.
    private func ownsCheck(_ sequence: UInt64) -> Bool {
        var later = sequence + UInt64(Self.checkCount)
        while later < window.sequences.end {
            if later < window.sequences.floor { return false }
            if case .arrived = window.sequences.state(of: later) { return false }
            later += UInt64(Self.checkCount)
        }
        return true
    }
}

/// Packets in a row that are all far ahead of a window, and near each other: the sender, and not a stray
/// packet, is there.
struct JumpRun {
    private var low: UInt64 = 0
    private var high: UInt64 = 0
    private var count = 0
    private var beganNanoseconds: UInt64 = 0

    private static let countMin = 16
    private static let nanosecondsMax: UInt64 = 1_000_000_000

    /// Notes a sequence that is too far ahead.
    /// - Returns: the lowest of the run, once it is long enough to be believed.
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
