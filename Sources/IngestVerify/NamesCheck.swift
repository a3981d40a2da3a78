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
    typealias Run = NamesRunReader<Files>

    /// As the log introduced them.
    let names: LogNames
    let hash: CounterHash
    /// Whether a name that no block introduced is a difference. One whose block was lost may well be in a run,
    /// that is what the runs are for; and a run that the newest manifest does not name may be of names that come
    /// later.
    var areNamesComplete: Bool
    /// Whether what is lost may be in the log: of a run that the newest manifest does not name, which another has replaced.
    var mayLack = false
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
        /// How many ordinals stand for names and keys that the run has lost.
        var lost: (names: Int, keys: Int) = (0, 0)

        /// What is wrong with the file, once all of its parts were added.
        var error: StorageError? {
            let isSame = failure != nil || orders == 0
            return isSame
                ? failure
                : .corrupt(
                    path: file, offset: 0, detail: "names, ranks, keys and rewards are not the same"
                )
        }

        /// Adds that of a further part of the same run.
        mutating func add(_ part: Outcome) {
            report.append(part.report)
            failure = failure ?? part.failure
            lost = (lost.names + part.lost.names, lost.keys + part.lost.keys)
            orders &+= part.orders
        }
    }

    private static var partPageCount: Int { 64 }

    /// All parts of a run.
    static func parts(of run: Run) -> [Part] {
        let count = run.header.pageCount(.names)
        let names = stride(from: 0, to: count, by: partPageCount).map {
            Part.names($0..<min($0 + partPageCount, count))
        }
        return names + [.ranks, .keys, .rewards]
    }

    /// Checks a part; on any thread.
    func check(_ part: Part, of run: Run) -> Outcome {
        var outcome = Outcome(file: run.header.entry.fileName.text)
        let (firstName, firstKey) = (run.names.lowerBound, run.keys.lowerBound)
        do throws(StorageError) {
            switch part {
            case .names(let pages): try checkNames(pages, of: run, &outcome)
            case .ranks:
                try readPairs(.ranks, of: run) { index, word in
                    outcome.orders &-= weight(.name, firstName + index, word >> 32)
                }
            case .keys:
                try readPairs(.keys, of: run) { index, word in
                    let ordinal = firstKey + index
                    outcome.orders &+= weight(.key, ordinal, word >> 32)
                    compare(.key, ordinal, word >> 32 == 0 ? 0 : word, &outcome) {
                        "reward \(word >> 32) business \(UInt32(truncatingIfNeeded: word))"
                    }
                }
            case .rewards:
                try readPairs(.rewards, of: run) { _, word in
                    outcome.orders &-= weight(
                        .key, UInt32(truncatingIfNeeded: word), word >> 32)
                }
            }
        } catch { outcome.failure = error }
        return outcome
    }

    /// Of a pair of an ordinal, and the rank of a name or the reward of a key.
    private func weight(_ kind: NameKind, _ ordinal: UInt32, _ other: UInt64) -> UInt64 {
        let pair = UInt64(ordinal) << 32 | other
        return hash.weight(kind == .key ? ~pair : pair)
    }

    private func readPairs(
        _ kind: NamesPageKind, of run: Run, _ body: (UInt32, UInt64) -> Void
    ) throws(StorageError) {
        var next: UInt32 = 0
        let batch = PairBatch()
        var cursor = run.makePairCursor(kind)
        while !meter.isStopped, try cursor.nextPairs(into: batch) {
            for place in 0..<batch.count {
                body(next, batch[place])
                next += 1
            }
        }
    }

    private func checkNames(
        _ pages: Range<Int>, of run: Run, _ outcome: inout Outcome
    ) throws(StorageError) {
        let batch = NameBatch()
        // 0 of names that were lost.
        var hashes = [UInt64](repeating: 0, count: NameBatch.capacity)
        var cursor = try run.makeNameCursor(pages: pages)
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
                outcome.orders &+= weight(.name, ordinal, rank)
                rank += 1
                compare(.name, ordinal, hashes[place], &outcome) {
                    String(decoding: batch.name(place), as: UTF8.self)
                }
            }
        }
    }

    /// - Parameter found: of this run; 0 for what was lost.
    @inline(__always)
    private func compare(
        _ kind: NameKind, _ ordinal: UInt32, _ found: UInt64, _ outcome: inout Outcome,
        text: () -> String
    ) {
        let known = (kind == .name ? names.names : names.keys)[ordinal]
        if found == 0 && (known == 0 || mayLack) {
            // With its block, before it was copied elsewhere: nothing else is missing.
            if kind == .name { outcome.lost.names += 1 } else { outcome.lost.keys += 1 }
            return
        }
        if known == found { return }
        if known != 0 || areNamesComplete && ordinal >= names[kind].next {
            outcome.report.add(
                .difference, "\(kind) \(ordinal)", in: outcome.file,
                got: found == 0 ? "lost, ingest-reader rebuild makes it again" : text(),
                expected: known == 0 ? "no \(kind)" : names.describe(kind, ordinal))
        }
    }
}
