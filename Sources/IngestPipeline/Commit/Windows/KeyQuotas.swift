// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// What the senders of one key may take of what the senders of all keys share: windows, epochs, and names. Owned by the
/// commit queue. Who sends without a key (id 0) has no quota: ids of keys are proved by tags alone.
///
/// A packet over a quota is shed: it is not consumed, and a sender that asks for acks sends it again. A window counts for the
/// key that opened it, which the log has; names and epochs a minute are known to memory only, and after a start counted from 0.
///
/// **Cost** Two look-ups for a window that opens, and one for each batch once some key has given names.
package struct KeyQuotas {
    /// As told by options.
    package struct Bounds: Sendable {
        /// Open windows.
        package var windowCountMax = 4_096
        /// Names that were not known, or pairs of reward and business if these are more; 0 = any number.
        package var namesPerMinute = 100_000
        /// Windows that are opened, each for an epoch; 0 = any number. Each is for ever a line of the ledger.
        package var epochsPerMinute = 1_000
    }

    private let windowCountMax: Int
    private var windowCounts: [UInt16: Int] = [:]
    private var names: KeyRate
    private var epochs: KeyRate

    init(_ bounds: Bounds) {
        windowCountMax = bounds.windowCountMax
        names = KeyRate(perMinute: bounds.namesPerMinute)
        epochs = KeyRate(perMinute: bounds.epochsPerMinute)
    }

    // MARK: Windows

    func mayOpen(_ key: UInt16) -> Bool {
        key == 0 || windowCounts[key, default: 0] < windowCountMax
    }

    /// Whether a key has epochs left.
    func mayBegin(_ key: UInt16, at nanoseconds: UInt64) -> Bool {
        epochs.isLeft(key, at: nanoseconds)
    }

    /// Counts a window; of one that a packet opened with the time, which takes an epoch too.
    mutating func open(_ key: UInt16, at nanoseconds: UInt64? = nil) {
        if key != 0 { windowCounts[key, default: 0] += 1 }
        if let nanoseconds { epochs.take(1, of: key, at: nanoseconds) }
    }

    mutating func close(_ key: UInt16) {
        guard key != 0, let count = windowCounts[key] else { return }
        windowCounts[key] = count > 1 ? count - 1 : nil
    }

    // MARK: Names

    /// Whether a key has names left.
    func mayName(_ key: UInt16, at nanoseconds: UInt64) -> Bool {
        names.isLeft(key, at: nanoseconds)
    }

    /// Takes names that a packet has given.
    mutating func take(_ count: Int, of key: UInt16, at nanoseconds: UInt64) {
        names.take(count, of: key, at: nanoseconds)
    }
}

/// So many a minute for each key, and ten minutes' worth at once; 0 = any number.
private struct KeyRate {
    /// What a key has left at a time. One packet may take more than that.
    private struct Left {
        /// Count × nanoseconds of a minute, so that what a nanosecond adds is a whole number.
        var count: Int
        var nanoseconds: UInt64
    }

    private let perMinute: Int
    private var ofKeys: [UInt16: Left] = [:]
    private static let minute = 60_000_000_000
    /// Minutes for which it is saved up. Count × nanoseconds of them stay below 2^62 up to 5,000,000 a minute.
    private static let burstMinutes = 10

    init(perMinute: Int) { self.perMinute = perMinute }

    func isLeft(_ key: UInt16, at nanoseconds: UInt64) -> Bool {
        guard !ofKeys.isEmpty, let left = ofKeys[key] else { return true }
        return count(of: left, at: nanoseconds) > 0
    }

    mutating func take(_ taken: Int, of key: UInt16, at nanoseconds: UInt64) {
        guard key != 0, taken > 0, perMinute > 0 else { return }
        let before = ofKeys[key].map { count(of: $0, at: nanoseconds) } ?? burst
        ofKeys[key] = Left(count: before - taken * Self.minute, nanoseconds: nanoseconds)
    }

    private var burst: Int { Self.burstMinutes * perMinute * Self.minute }

    private func count(of left: Left, at nanoseconds: UInt64) -> Int {
        let longest = UInt64(Self.burstMinutes * Self.minute)
        let passed = nanoseconds > left.nanoseconds ? nanoseconds - left.nanoseconds : 0
        // After the longest time all is there again, whatever one packet took: it holds some thousand names at most.
        if passed >= longest { return burst }
        return min(burst, left.count + Int(passed) * perMinute)
    }
}

/// What a key may have no more of, so that its packets are shed.
package enum KeyQuota: Int, CaseIterable, Sendable {
    case windows
    case names
    case epochs
    /// Senders whose epochs ended within a week.
    case endedEpochs

    package var counter: CommitCounter {
        switch self {
        case .windows: .shedForWindows
        case .names: .shedForNames
        case .epochs: .shedForEpochs
        case .endedEpochs: .shedForEndedEpochs
        }
    }
}

/// Packets that the commit stage has shed, by why, since they were counted.
struct ShedCounts {
    /// There was no room for a window, or a window's memory.
    var forRoom: UInt64 = 0
    /// By quota: how many, and of which key the last one was.
    private var ofQuotas = InlineArray<4, (count: UInt64, lastKey: UInt16)>(repeating: (0, 0))

    subscript(quota: KeyQuota) -> (count: UInt64, lastKey: UInt16) { ofQuotas[quota.rawValue] }

    mutating func note(_ quota: KeyQuota, of keyID: UInt16) {
        ofQuotas[quota.rawValue] = (ofQuotas[quota.rawValue].count + 1, keyID)
    }

    mutating func flush(to counters: CounterGroup<CommitCounter>, _ state: StageLinks.SharedState) {
        counters.add(.shedForRoom, forRoom)
        for quota in KeyQuota.allCases where self[quota].count > 0 {
            state.set(lastKey: self[quota].lastKey, over: quota)
            counters.add(quota.counter, self[quota].count)
        }
        self = ShedCounts()
    }
}
