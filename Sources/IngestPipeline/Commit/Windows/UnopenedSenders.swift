// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// Senders of which only heartbeats came: where their windows will begin. Owned by the commit queue.
///
/// Known to memory alone, since nothing of them was taken. A heartbeat that there is no room for takes the place of the
/// sender that was silent longest, which tells of itself again within a second.
///
/// **Layout** A list by the time of the last heartbeat, linked by places in an array of
/// `Limits.unopenedSenderCountMax` entries at most, and a dictionary of these places.
/// **Units** About 100 bytes a sender. **Cost** A dictionary look-up.
struct UnopenedSenders {
    /// What a sender has said.
    struct Told: Equatable {
        /// The first sequence of its window.
        var start: UInt64
        /// One more than the highest sequence that it has announced.
        var announced: UInt64
    }

    private struct Entry {
        var key: SenderKey
        var told: Told
        /// Places, −1 at the ends.
        var newer: Int
        var older: Int
    }

    private var entries: [Entry] = []
    private var places: [SenderKey: Int] = [:]
    private var newest = -1
    private var oldest = -1
    /// Places that are free.
    private var free: [Int] = []

    var count: Int { places.count }

    subscript(key: SenderKey) -> Told? { places[key].map { entries[$0].told } }

    /// Notes what a sender's heartbeat has said, whose base is at most its sequence.
    ///
    /// - Returns: where its window would begin.
    mutating func note(_ packet: SequencedPacket, _ heartbeat: Heartbeat) -> UInt64 {
        let next = packet.sequence
        var told = Told(start: heartbeat.base, announced: next)
        var known = self[packet.key]
        if packet.asksForAcks {
            told.start = max(told.start, known?.start ?? 0)
            // It may hold any number of packets; a window need not know of all of them.
            told.announced = min(next, told.start + AdmittedWindows.farJumpMin)
        } else {
            // Nothing was taken: what was said before, if it was far away, counts for nothing.
            if let last = known, next > last.announced + AdmittedWindows.farJumpMin { known = nil }
            // 0 is no base: it holds nothing.
            let base = told.start > 0 ? told.start : next - min(next, AdmittedWindows.reach)
            told.start = known?.start ?? base
        }
        told.announced = max(told.announced, known?.announced ?? 0)
        set(packet.key, told)
        return told.start
    }

    private mutating func set(_ key: SenderKey, _ told: Told) {
        let place: Int
        if let known = places[key] {
            place = known
            unlink(place)
        } else {
            if places.count >= Limits.unopenedSenderCountMax { remove(entries[oldest].key) }
            place = free.popLast() ?? entries.count
            let entry = Entry(key: key, told: told, newer: -1, older: -1)
            if place == entries.count { entries.append(entry) } else { entries[place] = entry }
            places[key] = place
        }
        entries[place].told = told
        entries[place].newer = -1
        entries[place].older = newest
        if newest >= 0 { entries[newest].newer = place } else { oldest = place }
        newest = place
    }

    /// Forgets a sender, whose window was opened.
    mutating func remove(_ key: SenderKey) {
        guard let place = places.removeValue(forKey: key) else { return }
        unlink(place)
        free.append(place)
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older) = (entries[place].newer, entries[place].older)
        if newer >= 0 { entries[newer].older = older } else { newest = older }
        if older >= 0 { entries[older].newer = newer } else { oldest = newer }
    }
}
