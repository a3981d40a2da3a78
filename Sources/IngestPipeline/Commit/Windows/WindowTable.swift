// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The open windows, and what they take together. Owned by the commit queue; it knows no rules.
///
/// A window's place is its index in `entries`; it holds until a window is removed.
///
/// **Cost** A compare for a packet of the sender of the one before, else a dictionary look-up.
struct WindowTable {
    var entries: [AdmittedWindow] = []
    /// Bytes of memory, about; and places for checks of packets, which have a bound of their own.
    private var memory = KeyShares(countMax: Limits.windowByteCountMax)
    private var checkPlaces = KeyShares(countMax: Limits.checkPlaceCountMax)
    private var indexes: [SenderKey: Int] = [:]
    /// Of the window that was found last.
    private var lastIndex = 0
    /// A sender, and the key under whose tag its window was opened.
    private struct SenderOfKey: Hashable {
        let sender: SenderID
        let keyID: UInt16
    }

    /// The newest open epoch of each.
    private var newestEpochs: [SenderOfKey: UInt64] = [:]

    var byteCount: Int { memory.count }

    /// Whether there is no room for one more window, whoever's.
    var isFull: Bool {
        entries.count >= Limits.windowCountMax
            || memory.room(of: 0) < AdmittedWindow.byteCountAtFirst
    }

    /// Whether the windows of a key have all the memory that they may.
    func isFull(of keyID: UInt16) -> Bool {
        keyID != 0 && memory.room(of: keyID) < AdmittedWindow.byteCountAtFirst
    }

    func index(of key: SenderKey) -> Int? { indexes[key] }

    /// As `index`, for packets, many of which come from one sender.
    mutating func find(_ key: SenderKey) -> Int? {
        if lastIndex < entries.count, entries[lastIndex].key == key { return lastIndex }
        guard let index = indexes[key] else { return nil }
        lastIndex = index
        return index
    }

    func newestEpoch(of sender: SenderID, _ keyID: UInt16) -> UInt64? {
        newestEpochs[SenderOfKey(sender: sender, keyID: keyID)]
    }

    /// - Returns: its index.
    mutating func add(_ entry: AdmittedWindow) -> Int {
        let sender = SenderOfKey(sender: entry.key.sender, keyID: entry.window.keyID)
        newestEpochs[sender] = max(newestEpochs[sender] ?? 0, entry.key.epoch.rawValue)
        lastIndex = entries.count
        indexes[entry.key] = lastIndex
        memory.add(entry.byteCount, of: entry.window.keyID)
        checkPlaces.add(entry.window.checkPlaceCount, of: entry.window.keyID)
        entries.append(entry)
        return lastIndex
    }

    /// Removes a window; the last one takes its place.
    mutating func remove(at index: Int) {
        let key = entries[index].key
        let keyID = entries[index].window.keyID
        memory.add(-entries[index].byteCount, of: keyID)
        checkPlaces.add(-entries[index].window.checkPlaceCount, of: keyID)
        indexes[key] = nil
        let sender = SenderOfKey(sender: key.sender, keyID: keyID)
        if newestEpochs[sender] == key.epoch.rawValue { newestEpochs[sender] = nil }
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        indexes[last.key] = index
    }

    /// Notes that a window's open sequence was consumed.
    @inline(__always)
    mutating func accept(_ packet: SequencedPacket, at index: Int) {
        let (sequence, check) = (packet.sequence, packet.check)
        if changeSize(of: index, { $0.window.accept(sequence, check: check, room: 0) }) { return }
        let (keyID, before) = (
            entries[index].window.keyID, entries[index].window.checkPlaceCount
        )
        entries[index].window.keep(
            check: check, of: sequence, room: checkPlaces.room(of: keyID))
        checkPlaces.add(entries[index].window.checkPlaceCount - before, of: keyID)
    }

    /// Changes a window, and with it what all of them take.
    @inline(__always)
    mutating func changeSize<Result>(
        of index: Int, _ change: (inout AdmittedWindow) -> Result
    ) -> Result {
        let (result, growth) = entries[index].measuring(change)
        if growth != 0 { memory.add(growth, of: entries[index].window.keyID) }
        return result
    }

    /// Whether there is memory for what a window takes with this sequence.
    func hasMemory(
        toInsert sequence: UInt64, _ standing: AdmittedWindow.Standing, at index: Int
    ) -> Bool {
        if sequence - standing.floor < standing.bitCount { return true }
        return memory.room(of: entries[index].window.keyID) >= Limits.windowSequenceCountMax / 8
    }
}
