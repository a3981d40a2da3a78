// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat

/// Holds a names run against the names that the log's blocks introduced.
struct NamesComparison {
    /// Of the file.
    let name: String
    let contents: NamesRun
    /// Whether the newest manifest names it; another one may be of names that come later.
    let isListed: Bool

    func run(_ recount: inout LogRecount) {
        let file = name
        // A name whose block was lost may well be in a run: that is what the runs are for.
        let isLogWhole =
            isListed && recount.report.corruptionCount == 0
            && recount.report.evidenceLostCount == 0
        for ordinal in contents.names {
            let found = contents.name(NameOrdinal(rawValue: ordinal))
            let expected = recount.names.name(ordinal)
            if let expected, expected != found {
                recount.report.add(
                    Finding(
                        .difference, file: file, what: "name \(ordinal)", got: text(found),
                        expected: text(expected)))
            } else if expected == nil && !found.isEmpty && isLogWhole {
                recount.report.add(
                    Finding(
                        .difference, file: file, what: "name \(ordinal)", got: text(found),
                        expected: "no name"))
            }
        }
        for ordinal in contents.keys {
            let found = contents.key(KeyOrdinal(rawValue: ordinal))
            let expected = recount.names.key(ordinal)
            let isExpected = expected != nil || isLogWhole
            if isExpected && found != expected {
                recount.report.add(
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
