// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestRules

/// A session that is going on, or has ended and was not taken out yet.
///
/// **Layout** Two cache lines, 128 bytes; plain old data. The second one is in use, and means something, once the session has a
/// click or a ninth reward with an impression, so that most events need the first one alone.
struct OpenSession: BitwiseCopyable {
    /// The pseudonym in the upper 48 bits; 0 is none. Bit 0 is set, bits 1 … 5 are the number of rewards with impressions in the
    /// two lines, and bit 6, so that its value is the offset of the second line, says whether that one is in use.
    private var identity: UInt64
    /// When its last event was admitted, µs since 1970.
    var seenAt: Int64
    var rates: SessionRates
    /// `SessionTable.missCount` when it began: rows were missed since where that is another one now.
    var knownSince: UInt32
    /// Its rewards with impressions behind the first 16.
    var impressions: KeySet
    private var firstSeen: InlineArray<8, SeenReward>
    var further: Further

    /// The second line. Means nothing before `useFurther`, which empties it.
    struct Further: BitwiseCopyable {
        var firstClick = ClickedReward()
        /// Its rewards of which a click was counted, but for the first one.
        var clicks = KeySet()
        var clickCount: UInt32 = 0
        /// Of `impressions`.
        var impressionCount: UInt32 = 0
        private var unused: UInt32 = 0
        fileprivate var seen = InlineArray<8, SeenReward>(repeating: SeenReward())
    }

    /// Rewards with impressions that have a place in the node: 8 in each of its lines.
    static var seenCountMax: Int { 16 }

    /// Whether its parts lie where what is below looks for them.
    static var hasLayout: Bool {
        MemoryLayout<OpenSession>.stride == 128
            && MemoryLayout<OpenSession>.offset(of: \.firstSeen) == 32
            && MemoryLayout<OpenSession>.offset(of: \.further) == 64
            && MemoryLayout<Further>.offset(of: \.firstClick) == 0
            && MemoryLayout<Further>.offset(of: \.seen) == 32
    }

    var isThere: Bool {
        @inline(__always) get { identity != 0 }
    }
    /// Rewards with impressions that have a place in the node, 0 … 16.
    var seenCount: Int {
        @inline(__always) get { Int(identity &>> 1 & 0x1F) }
    }
    /// Whether the second line is in use.
    var hasFurther: Bool {
        @inline(__always) get { lineOffset != 0 }
    }
    /// Of the second line if that is in use, else 0.
    fileprivate var lineOffset: Int {
        @inline(__always) get { Int(identity & 64) }
    }
    /// Where it belongs in the index.
    var indexSpread: UInt64 { SessionSlot.spread(SessionSlot.tag(identity &>> 16)) }

    @inline(__always)
    func isOf(_ pseudonym: UInt64) -> Bool { (identity ^ pseudonym &<< 16 ^ 1) & ~0xFFFE == 0 }

    /// Makes it the session of a pseudonym, with nothing in it; the second line is left as it is.
    @inline(__always)
    mutating func begin(_ pseudonym: UInt64, now: Int64, knownSince: UInt32) {
        (identity, seenAt, self.knownSince) = (pseudonym &<< 16 | 1, now, knownSince)
        (rates, impressions) = (SessionRates(), KeySet())
    }

    /// Marks the node as free, once its sets are empty.
    mutating func end() { identity = 0 }

    /// Takes the second line into use, with nothing in it.
    @inline(__always)
    mutating func useFurther() {
        if hasFurther { return }
        further = Further()
        identity |= 64
    }

    @inline(__always)
    fileprivate mutating func countSeen() { identity &+= 2 }
}

extension UnsafeMutablePointer<OpenSession> {
    // SAFETY, of all: `SessionTable.init` has seen that they lie there, and they have the types of the properties.

    /// The second line if that is in use, else the first one.
    @inline(__always)
    var lastLine: UnsafeRawPointer { unsafe UnsafeRawPointer(self) + pointee.lineOffset }

    /// The place of a reward with an impression, of the 16: the second eight are in the second line.
    @inline(__always)
    private func seen(_ index: Int) -> UnsafeMutablePointer<SeenReward> {
        let offset = 32 &+ 4 &* index &+ 4 &* (index & 8)
        return unsafe UnsafeMutableRawPointer(self).advanced(by: offset)
            .assumingMemoryBound(to: SeenReward.self)
    }

    /// Whether a reward has one of the eight places in a line of which some are taken.
    @inline(__always)
    func hasSeen(_ reward: SeenReward, inSecondLine: Bool) -> Bool {
        let first = inSecondLine ? 8 : 0
        // SAFETY: there are eight, on a multiple of 32 bytes.
        let places = unsafe ingest_eight_numbers_scan(
            UnsafeRawPointer(seen(first)).assumingMemoryBound(to: UInt32.self), reward.key)
        let count = unsafe pointee.seenCount &- first
        return places & (1 &<< UInt32(truncatingIfNeeded: count) &- 1) != 0
    }

    /// Gives a reward the next of the 16 places. The ninth is in the second line, which must be in use.
    @inline(__always)
    func add(_ reward: SeenReward) {
        unsafe seen(pointee.seenCount).pointee = reward
        unsafe pointee.countSeen()
    }

    /// Of the second line.
    @inline(__always)
    var firstClick: UnsafeMutablePointer<ClickedReward> {
        unsafe UnsafeMutableRawPointer(self).advanced(by: 64)
            .assumingMemoryBound(to: ClickedReward.self)
    }

    /// Rewards in sets elsewhere.
    var furtherCount: Int {
        unsafe pointee.hasFurther
            ? Int(pointee.further.impressionCount) + Int(pointee.further.clickCount) : 0
    }

    /// Rewards in it; one with impression and click is two.
    var rewardCount: Int {
        let hasClick = unsafe pointee.hasFurther && firstClick.pointee.key != 0
        return unsafe pointee.seenCount + (hasClick ? 1 : 0) + furtherCount
    }
}

/// A reward of which an impression was counted in a session: its key plus 1.
typealias SeenReward = BareKey

/// A reward of which a click was counted in a session.
///
/// **Layout** 16 bytes; plain old data.
struct ClickedReward: KeySetElement {
    /// Event time of the last of them, µs since 1970.
    var clickedAt: Int64 = 0
    /// The reward's key plus 1.
    var key: UInt32 = 0
    /// So that its size is its stride: what lies behind it begins there.
    private var unused: UInt32 = 0

    init() {}

    init(clickedAt: Int64, key: UInt32) { (self.clickedAt, self.key) = (clickedAt, key) }
}
