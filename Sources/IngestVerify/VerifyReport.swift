// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat
import IngestStorage

/// One thing that `verify` found.
public struct Finding: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// Sound files say other numbers than the rows in the log add up to.
        case difference
        /// Bytes fail their check, or what must be there is not.
        case corruption
        /// A piece of the log could not be read when its segment was sealed, and is recorded as lost.
        case evidenceLost
        /// Worth knowing and no fault: an unfinished write behind what was durable.
        case note
    }

    public let kind: Kind
    /// Name of the file in the directory.
    public let file: String
    /// Where in the file; `nil` where the whole file is meant. Bytes.
    public let offset: UInt64?
    public let what: String
    /// What was found, and what it was held against; empty where there is nothing to compare.
    public let got: String
    public let expected: String

    public init(
        _ kind: Kind, file: String, offset: UInt64? = nil, what: String, got: String = "",
        expected: String = ""
    ) {
        self.kind = kind
        self.file = file
        self.offset = offset
        self.what = what
        self.got = got
        self.expected = expected
    }
}

extension Finding: CustomStringConvertible {
    /// One line: kind, what, file, place, got, expected.
    public var description: String {
        let label = kind == .evidenceLost ? "evidence lost, " : "\(kind.rawValue): "
        let place = offset.map { " at offset \($0)" } ?? ""
        let values = got.isEmpty && expected.isEmpty ? "" : ": got \(got), expected \(expected)"
        return "\(label)\(what), \(file)\(place)\(values)"
    }
}

/// What `verify` read and what it found.
public struct VerifyReport: Sendable, Equatable {
    /// How many findings of a kind have a line; millions of the same are worth no more. None hides those of
    /// another kind.
    public static let findingCountMax = 1_000
    public static let noteCountMax = 100

    /// The first findings of each kind; the counts below are of all.
    public private(set) var findings: [Finding] = []
    public private(set) var differenceCount = 0
    public private(set) var corruptionCount = 0
    public private(set) var evidenceLostCount = 0
    public private(set) var noteCount = 0

    /// How many were found that are not in `findings`.
    public var unlistedCount: Int {
        differenceCount + corruptionCount + evidenceLostCount + noteCount - findings.count
    }

    /// Up to where the log was recounted.
    public package(set) var end = LogPosition.start
    public package(set) var generation: UInt64?
    public package(set) var fileCount = 0
    public package(set) var segmentCount = 0
    public package(set) var blockCount = 0
    /// Rows that were counted again.
    public package(set) var rowCount: UInt64 = 0
    /// Rows that have expired: their counters are trusted from expired runs, not recounted.
    public package(set) var trustedRowCount: UInt64 = 0
    /// The last segment whose rows have expired; 0 if none have.
    public package(set) var lastExpiredSegment: UInt32 = 0

    package init() {}

    package mutating func add(_ finding: Finding) {
        add(unlisted: finding.kind, count: 1)
        list(finding)
    }

    mutating func add(
        _ kind: Finding.Kind, _ what: String, in file: String, at offset: UInt64? = nil,
        got: String = "", expected: String = ""
    ) {
        add(
            Finding(kind, file: file, offset: offset, what: what, got: got, expected: expected))
    }

    /// Reports each value of a file that is not as it must be, where that is known.
    mutating func hold(
        _ values: [(what: String, got: AnyHashable, expected: AnyHashable?)],
        _ kind: Finding.Kind = .corruption, in file: String, at offset: UInt64? = nil
    ) {
        for (what, got, expected) in values {
            guard let expected, got != expected else { continue }
            add(kind, what, in: file, at: offset, got: "\(got)", expected: "\(expected)")
        }
    }

    /// Reports differences of counters.
    /// - Parameter source: what was held against the rows.
    mutating func add(
        _ differences: DifferenceList, in file: String, at offset: UInt64? = nil, of source: String,
        _ table: TableKind, _ names: LogNames
    ) {
        for difference in differences.first {
            add(Finding(difference, file: file, offset: offset, of: source, table, names))
        }
        add(unlisted: .difference, count: differences.count - differences.first.count)
    }

    /// Puts what comes first before the findings so far.
    mutating func insert(_ first: Finding...) {
        var report = VerifyReport()
        for finding in first { report.add(finding) }
        report.append(self)
        self = report
    }

    private mutating func list(_ finding: Finding) {
        let max = finding.kind == .note ? Self.noteCountMax : Self.findingCountMax
        // Short of the least of the two, no kind can be at its end.
        if findings.count < Self.noteCountMax
            || findings.count(where: { $0.kind == finding.kind }) < max
        {
            findings.append(finding)
        }
    }

    /// Counts findings without a line for each.
    mutating func add(unlisted kind: Finding.Kind, count: Int) {
        switch kind {
        case .difference: differenceCount += count
        case .corruption: corruptionCount += count
        case .evidenceLost: evidenceLostCount += count
        case .note: noteCount += count
        }
    }

    /// Adds what was found in a part of the directory.
    mutating func append(_ part: VerifyReport) {
        for finding in part.findings { list(finding) }
        differenceCount += part.differenceCount
        corruptionCount += part.corruptionCount
        evidenceLostCount += part.evidenceLostCount
        noteCount += part.noteCount
        fileCount += part.fileCount
        segmentCount += part.segmentCount
        blockCount += part.blockCount
        rowCount += part.rowCount
    }

    /// Whether the counters are what the rows say, and no evidence is damaged or lost. Notes are findings too, and
    /// say nothing against it.
    public var isSound: Bool { differenceCount + corruptionCount + evidenceLostCount == 0 }

    /// What `ingest-reader verify` ends with: 0 if it is sound, 1 if counters differ, 65 if evidence is damaged or lost.
    package var exitCode: Int32 {
        if isSound { return 0 }
        return corruptionCount + evidenceLostCount > 0 ? 65 : 1
    }
}

extension Finding {
    /// What a decoder said of the bytes at `offset` of a file.
    init(_ error: FormatError, file: String, offset: UInt64 = 0, what: String) {
        let kind =
            switch error {
            case .torn: "torn"
            case .corrupt: "corrupt"
            case .newerFormat: "of a newer format"
            case .notThisFile: "not what belongs here"
            }
        self.init(
            .corruption, file: file, offset: offset &+ UInt64(max(0, error.fault.offset)),
            what: "\(what) \(kind): \(error.fault.field)", got: error.fault.gotText,
            expected: error.fault.expectedText)
    }

    init(_ error: StorageError, file: String, what: String) {
        switch error {
        case .corrupt(_, let offset, let detail):
            self.init(.corruption, file: file, offset: offset, what: "\(what): \(detail)")
        case .overLimit(_, let detail):
            self.init(.corruption, file: file, what: "\(what) over a limit: \(detail)")
        default: self.init(.corruption, file: file, what: "\(what): \(error)")
        }
    }

    init(
        _ difference: CounterDifference, file: String, offset: UInt64?, of source: String,
        _ table: TableKind, _ names: LogNames
    ) {
        func item(_ order: UInt64) -> String {
            let item = UInt32(order >> 32)
            return table == .days
                ? "business \(names.describe(name: item))" : names.describe(key: item)
        }
        func row(_ order: UInt64) -> String {
            item(order)
                + (table.hasDay ? " day \(Self.date(of: CounterPage.day(ofOrder: order)))" : "")
        }
        let (what, got, expected) =
            switch difference {
            case .counter(let order, let column, let got, let expected):
                ("\(column) of \(row(order))", "\(got)", "\(expected)")
            case .overflow(let order, let column):
                ("\(column) of \(row(order))", "a sum that does not fit 64 bits", "one that does")
            case .surplus(let order): (row(order), "a row", "no event")
            case .missing(let order): (row(order), "no row", "a row")
            case .impossible(let order):
                (
                    item(order), "a row of day \(CounterPage.day(ofOrder: order))",
                    "a day that there is"
                )
            }
        self.init(
            .difference, file: file, offset: offset, what: "\(what) in the \(source)", got: got,
            expected: expected)
    }

    /// The date of a day number, by eras of 400 years from a March-based year.
    private static func date(of day: Int32) -> String {
        let shifted = Int(day) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let ofEra = shifted - era * 146_097
        let year = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * year + year / 4 - year / 100)
        let month = (5 * ofYear + 2) / 153
        func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(year + era * 400 + (month >= 10 ? 1 : 0))-"
            + "\(padded(month < 10 ? month + 3 : month - 9))-"
            + padded(ofYear - (153 * month + 2) / 5 + 1)
    }
}

extension LostRange {
    var rowCountText: String { rowCount.map { "\($0) events" } ?? "an unknown number of events" }
}

extension LogPosition {
    var text: String { "segment \(segment.rawValue) block \(blockCount)" }
}
