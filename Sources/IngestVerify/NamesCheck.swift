// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Reads every page of a names run once, holds its orders against each other, and its names and keys against those
/// that the log's blocks introduced.
///
/// **Cost** 4 bytes a name and 5 a key of the run; about 100 ns for both.
struct NamesCheck<Files: FileSystem>: Sendable {
    let reader: NamesRunReader<Files>
    /// As the log introduced them.
    let names: LogNames
    /// Whether a name that no block introduced is a difference. One whose block was lost may well be in a run,
    /// that is what the runs are for; and a run that the newest manifest does not name may be of names that come
    /// later.
    let areNamesComplete: Bool
    /// Ends the comparison, with no meaning, when it is stopped.
    let meter: WorkMeter

    struct Outcome: Sendable {
        let file: String
        var report = VerifyReport()
        /// Why the file could not be read.
        var failure: StorageError?
        /// Names whose blocks have expired.
        var expired: [(ordinal: UInt32, hash: UInt64)] = []
    }

    private var file: String { reader.header.entry.fileName.text }

    /// The two parts of a run that can be compared side by side.
    enum Part: Int, CaseIterable { case names, keys }

    /// Compares all names, or all keys; on any thread.
    func run(_ part: Part) -> Outcome {
        var outcome = Outcome(file: file)
        do throws(StorageError) {
            switch part {
            case .names: try checkNames(&outcome)
            case .keys: try checkKeys(&outcome)
            }
        } catch { outcome.failure = error }
        return outcome
    }

    // MARK: Names

    private func checkNames(_ outcome: inout Outcome) throws(StorageError) {
        // By ordinal: place in the order of names.
        var ranks = [UInt32](repeating: .max, count: reader.names.count)
        let batch = NameBatch()
        // 0 of names that were lost.
        var hashes = [UInt64](repeating: 0, count: NameBatch.capacity)
        var cursor = reader.makeNameCursor()
        let first = reader.names.lowerBound
        var rank: UInt32 = 0
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
                let index = Int(ordinal - first)
                guard ranks[index] == .max else { throw twice("name ordinal", ordinal) }
                ranks[index] = rank
                rank += 1
                let own = hashes[place] == 0 ? nil : hashes[place]
                compare(ordinal, own, batch, place, &outcome)
            }
        }
        try checkRanks(ranks)
    }

    /// - Parameter found: the hash of a name of this run; `nil` for one that was lost.
    private func compare(
        _ ordinal: UInt32, _ found: UInt64?, _ batch: NameBatch, _ place: Int,
        _ outcome: inout Outcome
    ) {
        let known = names.hash(ofName: ordinal)
        if known == found { return }
        if known == nil && names.isExpired(name: ordinal) {
            if let found { outcome.expired.append((ordinal, found)) }
        } else if known != nil || areNamesComplete {
            outcome.report.difference(
                "name \(ordinal)", in: file, at: nil,
                got: String(decoding: batch.name(place), as: UTF8.self),
                expected: known == nil ? "no name" : names.describe(name: ordinal))
        }
    }

    private func checkRanks(_ ranks: [UInt32]) throws(StorageError) {
        var next = 0
        let batch = PairBatch()
        var cursor = reader.makePairCursor(.ranks)
        while !meter.isStopped, try cursor.nextPairs(into: batch) {
            for place in 0..<batch.count {
                let rank = UInt32(batch[place] >> 32)
                guard rank == ranks[next + place] else {
                    throw corrupt("rank", got: rank, expected: ranks[next + place])
                }
            }
            next += batch.count
        }
    }

    // MARK: Keys

    private func checkKeys(_ outcome: inout Outcome) throws(StorageError) {
        var rewards: [UInt32] = []
        rewards.reserveCapacity(reader.keys.count)
        let batch = PairBatch()
        var cursor = reader.makePairCursor(.keys)
        while !meter.isStopped, try cursor.nextPairs(into: batch) {
            for place in 0..<batch.count {
                let ordinal = reader.keys.lowerBound + UInt32(rewards.count)
                let word = batch[place]
                let pair = RewardKey(
                    reward: NameOrdinal(rawValue: UInt32(word >> 32)),
                    business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
                rewards.append(pair.reward.rawValue)
                compare(ordinal, pair.reward == .none ? nil : pair, &outcome)
            }
        }
        try checkRewards(rewards)
    }

    private func compare(_ ordinal: UInt32, _ found: RewardKey?, _ outcome: inout Outcome) {
        let expected = names.key(ordinal)
        if found == expected { return }
        guard expected != nil || areNamesComplete && !names.isExpired(key: ordinal) else { return }
        outcome.report.difference(
            "key \(ordinal)", in: file, at: nil, got: text(found), expected: text(expected))
    }

    /// Each key once, in the order of the rewards.
    private func checkRewards(_ rewards: [UInt32]) throws(StorageError) {
        var isSeen = [Bool](repeating: false, count: rewards.count)
        let batch = PairBatch()
        var cursor = reader.makePairCursor(.rewards)
        while !meter.isStopped, try cursor.nextPairs(into: batch) {
            for place in 0..<batch.count {
                let reward = UInt32(batch[place] >> 32)
                let index = Int(UInt32(truncatingIfNeeded: batch[place]) - reader.keys.lowerBound)
                guard !isSeen[index], reward == rewards[index] else {
                    throw corrupt("reward", got: reward, expected: rewards[index])
                }
                isSeen[index] = true
            }
        }
    }

    private func twice(_ what: String, _ ordinal: UInt32) -> StorageError {
        .corrupt(path: file, offset: 0, detail: "\(what) \(ordinal) twice")
    }

    private func corrupt(_ what: String, got: UInt32, expected: UInt32) -> StorageError {
        .corrupt(path: file, offset: 0, detail: "\(what): got \(got), expected \(expected)")
    }

    private func text(_ key: RewardKey?) -> String {
        key.map { "reward \($0.reward.rawValue) business \($0.business.rawValue)" } ?? "no key"
    }
}
