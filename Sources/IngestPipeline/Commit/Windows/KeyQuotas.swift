// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// What the senders of one key may take of what the senders of all keys share: windows, and names. Owned by the commit
/// queue. Who sends without a key (id 0) has no quota: ids of keys are proved by tags alone.
///
/// A packet over a quota is shed: it is not consumed, and a sender that asks for acks sends it again. A window counts for the
/// key that opened it, which the log has; names are known to memory only, and after a start counted from 0.
///
/// **Cost** A look-up for a window that opens, and one for each batch once some key has given names.
package struct KeyQuotas {
    /// As told by options.
    package struct Bounds: Sendable {
        /// Open windows.
        package var windowCountMax = 4_096
        /// Names that were not known, or pairs of reward and business if these are more; 0 = any number.
        package var namesPerMinute = 100_000
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
        guard !names.isEmpty, let names = names[key] else { return true }
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
        // After the longest time all is there again, whatever one packet took: it holds some thousand names at most.
        if passed >= longest { return burst }
        return min(burst, names.left + Int(passed) * bounds.namesPerMinute)
    }
}

/// Packets that the commit stage has shed, by why, since they were counted.
struct ShedCounts {
    /// There was no room for a window, or a window's memory.
    var forRoom: UInt64 = 0
    /// A key has all the windows, or gave all the names, that it may; and the last such key.
    var forWindows: (count: UInt64, lastKey: UInt16) = (0, 0)
    var forNames: (count: UInt64, lastKey: UInt16) = (0, 0)

    mutating func flush(to counters: CounterGroup<CommitCounter>, _ state: StageLinks.SharedState) {
        if forWindows.count > 0 { state.lastKeyOverWindows = forWindows.lastKey }
        if forNames.count > 0 { state.lastKeyOverNames = forNames.lastKey }
        counters.add(.shedForRoom, forRoom)
        counters.add(.shedForWindows, forWindows.count)
        counters.add(.shedForNames, forNames.count)
        self = ShedCounts()
    }
}
