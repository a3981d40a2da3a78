import IngestFormat
import IngestStorage
import TestSupport

/// Framed senders that announce, send, lose and go at random, and what a daemon's ledger says of them, block by block.
struct RandomSenders {
    private var random: SeededRandom
    private var windows: [SenderKey: SenderWindow] = [:]
    private var epochs: [UInt64: UInt64] = [:]
    private var time: Int64 = 100
    private let count: UInt64

    init(seed: UInt64, count: UInt64 = 6) {
        random = SeededRandom(seed: seed)
        self.count = count
    }

    /// What one block says of them.
    mutating func entries() -> [LedgerEntry] {
        time += 1
        var entries: [LedgerEntry] = []
        for sender in 1...count where random.below(3) > 0 {
            let epoch = epochs[sender] ?? 1
            epochs[sender] = epoch
            let key = SenderKey(
                kind: .framed, sender: SenderID(rawValue: sender),
                epoch: SenderEpoch(rawValue: epoch))
            entries.append(entry(of: key))
        }
        var plain = LedgerEntry(key: .plain)
        plain.packets[Int(PacketResult.accepted.rawValue)] = 1
        return entries + [plain]
    }

    private mutating func entry(of key: SenderKey) -> LedgerEntry {
        var entry = LedgerEntry(key: key)
        if windows[key] == nil {
            let start: UInt64 = random.below(100)
            let keyID = UInt16(key.sender.rawValue % 3)
            (entry.window.start, entry.window.keyID) = (start, keyID)
            windows[key] = SenderWindow(start: start, keyID: keyID, lastSeen: time)
        }
        var window = windows[key]!
        for _ in 0..<random.below(9) { send(&window, &entry) }
        if random.below(5) == 0 {
            raise(&window, to: window.sequences.floor + random.below(30), &entry)
        }
        if random.below(4) == 0 {
            let next: UInt64 = window.announced + random.below(9)
            window.announce(next)
            entry.window.announced = next
        }
        windows[key] = window
        if random.below(25) == 0 {
            raise(&window, to: window.announced, &entry)
            entry.window.isExpired = true
            windows[key] = nil
            epochs[key.sender.rawValue]! += 1
        }
        entry.sequences.sort { $0.lowerBound < $1.lowerBound }
        return entry
    }

    private mutating func send(_ window: inout SenderWindow, _ entry: inout LedgerEntry) {
        let sequence = window.sequences.floor + random.below(20)
        guard case .open = window.sequences.state(of: sequence) else {
            entry.packets[Int(PacketResult.resend.rawValue)] += 1
            return
        }
        window.accept(sequence, check: 1, room: 0)
        let result = random.below(9) == 0 ? PacketResult.malformed : .accepted
        entry.packets[Int(result.rawValue)] += 1
        // Of verdicts that need no row.
        if result == .accepted {
            let verdicts: [Verdict] = [.tooOld, .noConsent, .malformed]
            entry.events[Int(verdicts[random.below(3)].rawValue)] += 1 + random.below(200)
        }
        var ranges: [ClosedRange<UInt64>] = []
        for range in (entry.sequences + [sequence...sequence])
            .sorted(by: { $0.lowerBound < $1.lowerBound })
        {
            if let last = ranges.last, last.upperBound + 1 == range.lowerBound {
                ranges[ranges.count - 1] = last.lowerBound...range.upperBound
            } else {
                ranges.append(range)
            }
        }
        entry.sequences = ranges
    }

    private func raise(
        _ window: inout SenderWindow, to floor: UInt64, _ entry: inout LedgerEntry
    ) {
        let missing = window.raise(to: floor)
        if missing == 0 { return }
        entry.window.floor = floor
        entry.window.missingCount += missing
    }
}
