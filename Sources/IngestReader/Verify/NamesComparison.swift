// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Reads a names run whole, and holds it against the names that the log's blocks introduced.
struct NamesComparison: Sendable {
    /// Of the file.
    let file: String
    /// Every page of it, checked.
    let read: @Sendable () throws(StorageError) -> NamesRun
    /// As the log introduced them.
    let names: RecountNames
    /// Whether a name that no block introduced is a difference. One whose block was lost may well be in a run,
    /// that is what the runs are for; and a run that the newest manifest does not name may be of names that come
    /// later.
    let areNamesComplete: Bool

    struct Outcome: Sendable {
        let file: String
        var report = VerifyReport()
        /// Why the file could not be read.
        var failure: StorageError?
    }

    /// Compares all names and keys; on any thread.
    func run() -> Outcome {
        var outcome = Outcome(file: file)
        do throws(StorageError) {
            let contents = try read()
            compareNames(contents, &outcome.report)
            compareKeys(contents, &outcome.report)
        } catch { outcome.failure = error }
        return outcome
    }

    private func compareNames(_ contents: NamesRun, _ report: inout VerifyReport) {
        for ordinal in contents.names {
            let found = contents.name(NameOrdinal(rawValue: ordinal))
            let expected = names.name(ordinal)
            if let expected, expected != found {
                report.add(
                    Finding(
                        .difference, file: file, what: "name \(ordinal)", got: text(found),
                        expected: text(expected)))
            } else if expected == nil && !found.isEmpty && areNamesComplete
                && !names.isAttested(name: ordinal)
            {
                report.add(
                    Finding(
                        .difference, file: file, what: "name \(ordinal)", got: text(found),
                        expected: "no name"))
            }
        }
    }

    private func compareKeys(_ contents: NamesRun, _ report: inout VerifyReport) {
        for ordinal in contents.keys {
            let found = contents.key(KeyOrdinal(rawValue: ordinal))
            let expected = names.key(ordinal)
            let isExpected =
                expected != nil || areNamesComplete && !names.isAttested(key: ordinal)
            if isExpected && found != expected {
                report.add(
                    Finding(
                        .difference, file: file, what: "key \(ordinal)", got: text(found),
                        expected: text(expected)))
            }
        }
    }

    private func text(_ name: ArraySlice<UInt8>) -> String { String(decoding: name, as: UTF8.self) }

    private func text(_ key: RewardKey?) -> String {
        key.map { "reward \($0.reward.rawValue) business \($0.business.rawValue)" } ?? "no key"
    }
}
