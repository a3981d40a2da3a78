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
    private var counts: [Finding.Kind: Int] = [:]
    public var differenceCount: Int { counts[.difference, default: 0] }
    public var corruptionCount: Int { counts[.corruption, default: 0] }
    public var evidenceLostCount: Int { counts[.evidenceLost, default: 0] }
    public var noteCount: Int { counts[.note, default: 0] }

    /// How many were found that are not in `findings`.
    public var unlistedCount: Int { counts.values.reduce(0, +) - findings.count }

    /// Up to where the log was recounted.
    public package(set) var end = LogPosition.start
    public package(set) var generation: UInt64?
    public package(set) var fileCount = 0
    public package(set) var segmentCount = 0
    public package(set) var blockCount = 0
    /// Rows that were counted again.
    public package(set) var rowCount: UInt64 = 0
    /// Rows that were judged again; `nil` where that was not asked for.
    public package(set) var judgedRowCount: UInt64?
    /// Rows that have expired: their counters are trusted from expired runs, not recounted.
    public package(set) var trustedRowCount: UInt64 = 0
    /// The last segment whose rows have expired; 0 if none have.
    public package(set) var lastExpiredSegment: UInt32 = 0

    package init() {}

    package mutating func add(_ finding: Finding) {
        counts[finding.kind, default: 0] += 1
        list(finding)
    }

    mutating func add(
        _ kind: Finding.Kind, _ what: String, in file: String, at offset: UInt64? = nil,
        got: String = "", expected: String = ""
    ) {
        add(
            Finding(kind, file: file, offset: offset, what: what, got: got, expected: expected))
    }

    /// Reports that bytes of a file cannot be read.
    mutating func add(_ error: StorageError, _ what: String) { add(Finding(error, what)) }

    /// Reports each value of a file that is not as it must be, where that is known.
    mutating func hold(
        _ values: [Held], _ kind: Finding.Kind = .corruption, in file: String,
        at offset: UInt64? = nil
    ) {
        for (what, got, expected) in values {
            guard let expected, got != expected else { continue }
            add(kind, what, in: file, at: offset, got: "\(got)", expected: "\(expected)")
        }
    }

    /// A value, what it is, and what it must be, where that is known.
    typealias Held = (what: String, got: AnyHashable, expected: AnyHashable?)

    /// Reports differences of counters.
    /// - Parameter source: what was held against the rows.
    mutating func add(
        _ differences: DifferenceList, in file: String, at offset: UInt64? = nil,
        of source: String, _ table: TableKind, _ names: LogNames
    ) {
        for difference in differences.first {
            let (item, pair) = (difference.place.item, difference.place.pair)
            let day = CivilDate.text(difference.place.day)
            let column = difference.column.map { "\($0) of " } ?? ""
            var row =
                table == .days
                ? "business \(names.describe(.name, item))" : names.describe(.key, item)
            for (what, name) in [("campaign", pair >> 32), ("source", pair & 0xFFFF_FFFF)]
            where name != 0 {
                row += " \(what) \(names.describe(.name, UInt32(name)))"
            }
            add(
                .difference,
                "\(column)\(row)\(table.hasDay ? " day \(day)" : "") in the \(source)", in: file,
                at: offset, got: difference.got, expected: difference.expected)
        }
        counts[.difference, default: 0] += differences.count - differences.first.count
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

    /// Adds what was found in a part of the directory.
    mutating func append(_ part: VerifyReport) {
        for finding in part.findings { list(finding) }
        counts.merge(part.counts) { $0 + $1 }
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
    /// What is wrong with the bytes of a file.
    /// - Parameter what: the file or the part of it that could not be read.
    init(_ error: StorageError, _ what: String) {
        let file = error.fileName
        switch error {
        case .corrupt(_, let offset, let detail):
            self.init(.corruption, file: file, offset: offset, what: "\(what): \(detail)")
        case .overLimit(_, let detail):
            self.init(.corruption, file: file, what: "\(what) over a limit: \(detail)")
        default: self.init(.corruption, file: file, what: "\(what): \(error)")
        }
    }
}

extension StorageError {
    /// Of the file whose bytes are to blame.
    var fileName: String {
        let path =
            switch self {
            case .corrupt(let path, _, _), .newerFormat(let path, _), .overLimit(let path, _): path
            default: ""
            }
        return path.split(separator: "/").last.map(String.init) ?? path
    }
}
