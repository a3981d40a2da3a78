// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The open windows, and what they take together. Owned by the commit queue; it knows no rules.
///
/// A window's place is its index in `entries`; it holds until a window is removed.
///
/// **Cost** A compare for a packet of the sender of the one before, else a dictionary look-up.
struct WindowTable {
    var entries: [AdmittedWindow] = []
    /// Bytes of memory, about.
    private(set) var byteCount = 0
    private var indexes: [SenderKey: Int] = [:]
    /// Of the window that was found last.
    private var lastIndex = 0
    /// The newest open epoch of each sender.
    private var newestEpochs: [UInt64: UInt64] = [:]

    var isFull: Bool {
        entries.count >= Limits.windowCountMax
            || byteCount + AdmittedWindow.byteCountAtFirst > Limits.windowByteCountMax
    }

    func index(of key: SenderKey) -> Int? { indexes[key] }

    /// As `index`, for packets, many of which come from one sender.
    mutating func find(_ key: SenderKey) -> Int? {
        if lastIndex < entries.count, entries[lastIndex].key == key { return lastIndex }
        guard let index = indexes[key] else { return nil }
        lastIndex = index
        return index
    }

    func newestEpoch(of sender: SenderID) -> UInt64? { newestEpochs[sender.rawValue] }

    /// - Returns: its index.
    mutating func add(_ entry: AdmittedWindow) -> Int {
        let (sender, epoch) = (entry.key.sender.rawValue, entry.key.epoch.rawValue)
        newestEpochs[sender] = max(newestEpochs[sender] ?? 0, epoch)
        lastIndex = entries.count
        indexes[entry.key] = lastIndex
        byteCount += entry.byteCount
        entries.append(entry)
        return lastIndex
    }

    /// Removes a window; the last one takes its place.
    mutating func remove(at index: Int) {
        let key = entries[index].key
        byteCount -= entries[index].byteCount
        indexes[key] = nil
        if newestEpochs[key.sender.rawValue] == key.epoch.rawValue {
            newestEpochs[key.sender.rawValue] = nil
        }
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        indexes[last.key] = index
    }

    /// Changes a window, and with it what all of them take.
    @inline(__always)
    mutating func changeSize<Result>(
        of index: Int, _ change: (inout AdmittedWindow) -> Result
    ) -> Result {
        let (result, growth) = entries[index].measuring(change)
        byteCount += growth
        return result
    }

    /// Whether there is memory for what a window takes with this sequence.
    func hasMemory(
        toInsert sequence: UInt64, _ standing: AdmittedWindow.Standing
    ) -> Bool {
        if sequence - standing.floor < standing.bitCount { return true }
        return byteCount + Limits.windowSequenceCountMax / 8 <= Limits.windowByteCountMax
    }
}
