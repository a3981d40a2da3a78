// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Reads every page of a names run once, holds its orders against each other, and its names and keys against those
/// that the log's blocks introduced.
///
/// What an order says of a name or a key is a pair of numbers; two orders say the same if the weights of their pairs
/// (`CounterHash`) have the same sum. So parts of a run are read side by side, and nothing is kept of them.
///
/// **Cost** About 60 ns for a name and its key.
struct NamesCheck<Files: FileSystem>: Sendable {
    let reader: NamesRunReader<Files>
    /// As the log introduced them.
    let names: LogNames
    let hash: CounterHash
    /// Whether a name that no block introduced is a difference. One whose block was lost may well be in a run,
    /// that is what the runs are for; and a run that the newest manifest does not name may be of names that come
    /// later.
    let areNamesComplete: Bool
    /// Ends the comparison, with no meaning, when it is stopped.
    let meter: WorkMeter

    /// A part of a run that is read by itself.
    enum Part: Sendable {
        /// Some pages of names.
        case names(Range<Int>)
        case ranks, keys, rewards
    }

    struct Outcome: Sendable {
        let file: String
        var report = VerifyReport()
        /// Why the file could not be read.
        var failure: StorageError?
        /// The weights of the pairs of names and keys, less those of ranks and rewards.
        var orders: UInt64 = 0
    }

    private static var partPageCount: Int { 64 }

    /// All parts of a run.
    static func parts(of run: NamesRunReader<Files>) -> [Part] {
        let count = run.header.pageCount(.names)
        let names = stride(from: 0, to: count, by: partPageCount).map {
            Part.names($0..<min($0 + partPageCount, count))
        }
        return names + [.ranks, .keys, .rewards]
    }

    private var file: String { reader.header.entry.fileName.text }

    /// Compares a part; on any thread.
    func add(_ part: Part, to outcome: inout Outcome) {
        if outcome.failure != nil { return }
        do throws(StorageError) {
            switch part {
            case .names(let pages): try checkNames(pages, &outcome)
            case .ranks:
                let first = reader.names.lowerBound
                try readPairs(.ranks) { index, word in
                    outcome.orders &-= weight(first + index, word >> 32, isKey: false)
                }
            case .keys: try checkKeys(&outcome)
            case .rewards:
                try readPairs(.rewards) { _, word in
                    let key = UInt32(truncatingIfNeeded: word)
                    outcome.orders &-= weight(key, word >> 32, isKey: true)
                }
            }
        } catch { outcome.failure = error }
    }

    /// What is wrong where the orders of all parts do not say the same.
    static func differingOrders(in file: String) -> StorageError {
        .corrupt(path: file, offset: 0, detail: "names, ranks, keys and rewards are not the same")
    }

    private func weight(_ ordinal: UInt32, _ place: UInt64, isKey: Bool) -> UInt64 {
        let pair = UInt64(ordinal) << 32 | place
        return hash.weight(isKey ? ~pair : pair)
    }

    private func readPairs(
        _ kind: NamesPageKind, _ body: (UInt32, UInt64) -> Void
    ) throws(StorageError) {
        var next: UInt32 = 0
        let batch = PairBatch()
        var cursor = reader.makePairCursor(kind)
        while !meter.isStopped, try cursor.nextPairs(into: batch) {
            for place in 0..<batch.count {
                body(next, batch[place])
                next += 1
            }
        }
    }

    // MARK: Names

    private func checkNames(
        _ pages: Range<Int>, _ outcome: inout Outcome
    ) throws(StorageError) {
        let batch = NameBatch()
        // 0 of names that were lost.
        var hashes = [UInt64](repeating: 0, count: NameBatch.capacity)
        var cursor = try reader.makeNameCursor(pages: pages)
        var rank = UInt64(pages.lowerBound * NameBatch.capacity)
        while !meter.isStopped, try cursor.nextNames(into: batch) {
            for place in 0..<batch.count {
                // SAFETY: the batch stays as it is until the next page.
                let name = unsafe batch.pointer(place)
                hashes[place] = 0
                if name.count > 0, let base = name.baseAddress {
                    hashes[place] = unsafe max(1, names.hash.name(base, name.count))
                }
            }
            // What is at ordinals is far apart: by itself, the processor looks at several at a time.
            for place in 0..<batch.count {
                let ordinal = batch.ordinal(place).rawValue
                outcome.orders &+= weight(ordinal, rank, isKey: false)
                rank += 1
                let own = hashes[place] == 0 ? nil : hashes[place]
                compare(ordinal, own, batch, place, &outcome)
            }
        }
    }

    /// - Parameter found: the hash of a name of this run; `nil` for one that was lost.
    private func compare(
        _ ordinal: UInt32, _ found: UInt64?, _ batch: NameBatch, _ place: Int,
        _ outcome: inout Outcome
    ) {
        let known = names.hash(ofName: ordinal)
        if known == found { return }
        if known != nil || areNamesComplete && !names.isExpired(name: ordinal) {
            outcome.report.add(
                .difference, "name \(ordinal)", in: file,
                got: String(decoding: batch.name(place), as: UTF8.self),
                expected: known == nil ? "no name" : names.describe(name: ordinal))
        }
    }

    // MARK: Keys

    private func checkKeys(_ outcome: inout Outcome) throws(StorageError) {
        let first = reader.keys.lowerBound
        try readPairs(.keys) { index, word in
            let pair = RewardKey(
                reward: NameOrdinal(rawValue: UInt32(word >> 32)),
                business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
            outcome.orders &+= weight(first + index, word >> 32, isKey: true)
            compare(first + index, pair.reward == .none ? nil : pair, &outcome)
        }
    }

    private func compare(_ ordinal: UInt32, _ found: RewardKey?, _ outcome: inout Outcome) {
        let expected = names.key(ordinal)
        if found == expected { return }
        guard expected != nil || areNamesComplete && !names.isExpired(key: ordinal) else { return }
        outcome.report.add(
            .difference, "key \(ordinal)", in: file, got: text(found), expected: text(expected))
    }

    private func text(_ key: RewardKey?) -> String {
        key.map { "reward \($0.reward.rawValue) business \($0.business.rawValue)" } ?? "no key"
    }
}
