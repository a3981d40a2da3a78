// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestVerify

struct VerifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Recount every row of the log, and check every byte of its files.",
        discussion: """
            Exit code 0 if all counters are what the rows say; 1 if some are not; 65 if a file is \
            damaged or evidence was lost. Works beside a running daemon. The report has the cut in it; \
            --with-cut adds nothing. --deep also judges every row that is still there by the counting \
            rules and options of its time (consent, clock, invalid traffic, viewability), and looks for \
            event ids that were counted twice inside the window.
            """)

    @Flag(help: "Judge every row again, and look for ids that were counted twice.")
    var deep = false
    @OptionGroup var output: OutputOptions

    func run() throws {
        var shown = -1
        let isTerminal = isatty(STDERR_FILENO) == 1
        let report = try Self.verified(output.data, isDeep: deep) { progress in
            let percent = Int(
                Double(progress.doneByteCount) * 100 / Double(max(progress.totalByteCount, 1)))
            if isTerminal && percent != shown {
                shown = percent
                ReaderProgram.standardError("\r\(percent) % of the log")
            }
            return true
        }
        if isTerminal { ReaderProgram.standardError("\r\u{1b}[K") }
        let buffer = OutputBuffer(StandardOutput.writer(of: output.formatOrDefault))
        report.write(to: buffer, as: output.formatOrDefault)
        try Ending.check(report.exitCode, report.failure(in: output.data)) { try buffer.flush() }
    }
}

extension VerifyCommand {
    /// **Errors** those of the reader, so that each ends with its own exit code.
    private static func verified(
        _ directory: String, isDeep: Bool, _ progress: Verifier.Progress
    ) throws -> VerifyReport {
        var verifier = Verifier(directory: directory)
        verifier.isDeep = isDeep
        do throws(VerifyError) { return try verifier.run(progress) } catch {
            guard let cause = error.cause else { throw error }
            throw ReaderError(cause)
        }
    }
}

extension VerifyReport {
    var result: String {
        switch exitCode {
        case 0: "ok"
        case 1: "differences"
        default: "corrupt"
        }
    }

    /// For stderr: what, where, what to do.
    func failure(in directory: String) -> String {
        let advice =
            exitCode == 1
            ? "the log is sound: with the daemon stopped ingest-reader rebuild makes runs again, a footer or "
                + "a verdict stays as it is"
            : "stop the daemon, run ingest-reader rebuild and start it again, which makes manifest, names, "
                + "counters and footers again; restore from a copy what verify names then, but files of a newer "
                + "version: use that version"
        return "verify found \(summary), \(directory), \(advice)"
    }

    private var summary: String {
        "\(differenceCount) differences, \(corruptionCount) corruptions, "
            + "\(evidenceLostCount) lost block ranges or names"
    }

    /// A table has a line a finding and a summary. JSON is one object. CSV is the findings.
    package func write(to output: OutputBuffer, as format: OutputFormat) {
        switch format {
        case .json, .ndjson:
            ValueText.json.put(fields, to: output)
            output.put("\n")
        case .csv:
            ValueText.putRecord(
                ["kind", "file", "offset", "what", "got", "expected"], to: output)
            for finding in findings {
                ValueText.putRecord(finding.fields.map(\.cell.plainText), to: output)
            }
        case .table:
            for finding in findings {
                output.put(TerminalText.escaped(finding.description) + "\n")
            }
            if unlistedCount > 0 {
                output.put("and \(unlistedCount) more findings\n")
            }
            if lastExpiredSegment > 0 {
                output.put(
                    """
                    segments up to \(lastExpiredSegment) have expired: \(trustedRowCount) rows are \
                    trusted from their footers, the others are recounted

                    """)
            }
            if let judgedRowCount { output.put("judged \(judgedRowCount) rows again\n") }
            output.put(
                """
                \(result): recounted \(rowCount) rows in \(blockCount) blocks of \
                \(segmentCount) segments, checked \(fileCount) files; \(summary)

                """)
        }
    }

    private var fields: [Field] {
        let judged = judgedRowCount.map { [Field("judgedRows", .count($0))] } ?? []
        return [
            Field("result", .text(result)),
            Field(
                "cut", Cut(segment: end.segment.rawValue, block: end.blockCount).cell),
            Field("generation", generation.map { .count($0) } ?? .none),
            Field("segments", .count(UInt64(segmentCount))),
            Field("blocks", .count(UInt64(blockCount))),
            Field("rows", .count(rowCount)),
            Field("trustedRows", .count(trustedRowCount)),
        ] + judged + [
            Field("lastExpiredSegment", .count(UInt64(lastExpiredSegment))),
            Field("files", .count(UInt64(fileCount))),
            Field("differences", .count(UInt64(differenceCount))),
            Field("corruptions", .count(UInt64(corruptionCount))),
            Field("evidenceLost", .count(UInt64(evidenceLostCount))),
            Field("unlisted", .count(UInt64(unlistedCount))),
            Field("findings", .list(findings.map { .fields($0.fields) })),
        ]
    }
}

extension Finding {
    fileprivate var fields: [Field] {
        [
            Field("kind", .text(kind.rawValue)), Field("file", .text(file)),
            Field("offset", offset.map { .count($0) } ?? .none), Field("what", .text(what)),
            Field("got", .text(got)), Field("expected", .text(expected)),
        ]
    }
}
