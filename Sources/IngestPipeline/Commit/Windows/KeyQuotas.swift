// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// What the senders of one key may take of what the senders of all keys share: windows, and names. Owned by the commit
/// queue. Who sends without a key (id 0) has no quota: ids of keys are proved by tags alone.
///
/// A packet over a quota is shed: it is not consumed, and a sender that asks for acks sends it again. What a key has is known
/// to memory only: after a start a window counts for the key of its first packet, and names are counted from 0.
///
/// **Cost** A look-up for a window that opens, for a packet with new names, and for packets of a key without names left.
struct KeyQuotas {
    /// As told by options.
    struct Bounds {
        /// Open windows.
        var windowCountMax = 4_096
        /// Names of rewards, businesses, platforms, campaigns and sources that were not known; 0 = any number.
        var namesPerMinute = 100_000
    }

    /// What a key has left of its names, at a time. One packet may take more than that.
    private struct Names {
        /// Names × nanoseconds of a minute, so that what a nanosecond adds is a whole number.
        var left: Int
        var nanoseconds: UInt64
    }

    private let bounds: Bounds
    private var windowCounts: [UInt16: Int] = [:]
    private var names: [UInt16: Names] = [:]
    /// Packets that were shed, for want of a window and of names, and the last key of these.
    private var shed: (ofWindows: UInt64, ofNames: UInt64, lastKey: UInt16) = (0, 0, 0)

    private static let minute = 60_000_000_000
    /// Minutes for which names are saved up. Names × nanoseconds of them stay below 2^62 up to 5,000,000 names a minute.
    private static let burstMinutes = 10

    init(_ bounds: Bounds) { self.bounds = bounds }

    // MARK: Windows

    func mayOpen(_ key: UInt16) -> Bool {
        key == 0 || windowCounts[key, default: 0] < bounds.windowCountMax
    }

    mutating func open(_ key: UInt16) {
        if key != 0 { windowCounts[key, default: 0] += 1 }
    }

    mutating func close(_ key: UInt16) {
        guard key != 0, let count = windowCounts[key] else { return }
        windowCounts[key] = count > 1 ? count - 1 : nil
    }

    // MARK: Names

    /// Whether a key has names left.
    func mayName(_ key: UInt16, at nanoseconds: UInt64) -> Bool {
        guard let names = names[key] else { return true }
        return left(of: names, at: nanoseconds) > 0
    }

    /// Takes names that a packet has given.
    mutating func take(_ count: Int, of key: UInt16, at nanoseconds: UInt64) {
        guard key != 0, count > 0, bounds.namesPerMinute > 0 else { return }
        let before = names[key].map { left(of: $0, at: nanoseconds) } ?? burst
        names[key] = Names(left: before - count * Self.minute, nanoseconds: nanoseconds)
    }

    private var burst: Int { Self.burstMinutes * bounds.namesPerMinute * Self.minute }

    private func left(of names: Names, at nanoseconds: UInt64) -> Int {
        let longest = UInt64(Self.burstMinutes * Self.minute)
        let passed = nanoseconds > names.nanoseconds ? nanoseconds - names.nanoseconds : 0
        // After the longest time all is there again, whatever one packet took: it holds some hundred names.
        if passed >= longest { return burst }
        return min(burst, names.left + Int(passed) * bounds.namesPerMinute)
    }

    // MARK: What was shed

    mutating func noteShed(forWindow key: UInt16) {
        shed.ofWindows += 1
        shed.lastKey = key
    }

    mutating func noteShed(forNames key: UInt16) {
        shed.ofNames += 1
        shed.lastKey = key
    }

    /// Counts what was shed since the last call.
    mutating func flush(to counters: CounterGroup<CommitCounter>, _ state: StageLinks.SharedState) {
        guard shed.ofWindows + shed.ofNames > 0 else { return }
        state.lastShedKey = shed.lastKey
        counters.add(.shedForWindows, shed.ofWindows)
        counters.add(.shedForNames, shed.ofNames)
        shed = (0, 0, 0)
    }
}
