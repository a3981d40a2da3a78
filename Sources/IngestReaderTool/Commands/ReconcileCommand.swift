// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestStorage

struct ReconcileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reconcile",
        abstract: "A sender's own file of the events that it sent, against the log.",
        discussion: """
            FILE has JSON events, a line each, as ingest-send reads them. Each is looked for in the log, with \
            all that the log keeps of it; an event that was altered is one that is missing and one that is \
            unexpected. Unexpected are rows on the business-days of FILE that no line is of. Refused events \
            whose names or their combination are not known have no row but are in the ledger: as many lines that \
            may be of them are refused, not missing. Events of users who opted out are never stored, and counted apart. --format ndjson adds a line for each reward \
            and day that differs. Temporary files are made in TMPDIR, or else in /tmp. Exit code 1 if a \
            line is malformed or missing, or a row unexpected.
            """)

    @Argument(help: "NDJSON, a regular file.") var file: String
    @OptionGroup var dates: DateOptions
    @OptionGroup var output: OutputOptions

    func run() throws {
        let input = try Self.open(file)
        let scratch = try Self.files(at: Environment.value("TMPDIR") ?? "/tmp")
        try output.answer { reader, formatter in
            let reconciler = Reconciler(reader, with: input, days: dates.range, scratch: scratch)
            let found = try reconciler.run()
            for line in found.malformed {
                ReaderProgram.note("line \(line.line): \(line.reason), \(file), not a valid event")
            }
            let rest = found.malformedCount - UInt64(found.malformed.count)
            if rest > 0 { ReaderProgram.note("\(rest) more malformed lines, \(file)") }
            try Ending.check(found.hasDifferences ? 1 : 0, message(found, reader)) {
                try formatter.one(found.fields)
                if output.formatOrDefault == .ndjson {
                    try reconciler.forEachDifference { try formatter.one($0) }
                }
                try formatter.output.flush()
            }
        }
    }

    private func message(_ found: Reconciliation, _ reader: IngestReader) -> String {
        let expired = reader.hasExpiredRows && found.missingCount > 0
        return "reconcile found \(found.malformedCount) malformed, \(found.missingCount) missing, "
            + "\(found.unexpectedCount) unexpected events, \(file) against \(output.data), "
            + (expired
                ? "rows of the log have expired: --from leaves out what is older"
                : "--format ndjson lists rewards and days")
    }

    private static func files(at path: String) throws -> LinuxFileSystem {
        do { return try LinuxFileSystem(path: path, create: false) } catch {
            throw ReaderError(error)
        }
    }

    private static func open(_ path: String) throws -> LinuxFile {
        // The operator gave it: it may be a link.
        let (directory, name) = ExportCommand.split(Environment.resolved(path) ?? path)
        do { return try files(at: directory).open(name, .read) } catch {
            guard let error = error as? StorageError else { throw error }
            guard case .corrupt = error else { throw ReaderError(error) }
            throw Ending(code: 66, message: "not a regular file, \(path), give a file of lines")
        }
    }
}

extension Reconciliation {
    fileprivate var fields: [Field] {
        let repeats: [Verdict] = [.duplicate, .conflict, .sessionRepeat]
        let refused = byVerdict.filter { $0.key != .counted && !repeats.contains($0.key) }
        return [
            Field("lines", .count(lineCount)), Field("malformed", .count(malformedCount)),
            Field("optedOut", .count(optedOutCount)),
            Field("counted", .count(byVerdict[.counted] ?? 0)),
            Field("repeated", .count(repeats.reduce(0) { $0 + (byVerdict[$1] ?? 0) })),
            Field("refused", .counts(refused)), Field("missing", .count(missingCount)),
            Field("unexpected", .count(unexpectedCount)),
            Field("otherDays", .count(otherDaysCount)),
            Field("withoutRow", .count(withoutRowCount)),
        ]
    }
}

extension ReconciledDay: OutputRow {
    package static var empty: ReconciledDay { ReconciledDay() }

    package func give(to sink: inout some ValueSink) {
        sink.text("id", reward)
        sink.text("businessId", business)
        sink.day("date", day)
        sink.count("missing", missingCount)
        sink.count("unexpected", unexpectedCount)
    }
}
