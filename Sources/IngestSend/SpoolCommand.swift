// [spool] → person

import ArgumentParser
import Glibc
import IngestClient
import IngestFormat

/// `ingest-send spool`: looks into a spool, also while another process sends from it.
struct SpoolCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest-send spool",
        abstract: "List or export what a spool holds.",
        discussion: """
            Changes nothing, and needs no lock: a sender may use the spool meanwhile.

            Exit codes: 0 all of it was read · 64 wrong usage · 65 a part is damaged, and was named · 66 no such \
            directory · 74 other I/O error.
            """,
        version: IngestSend.configuration.version, subcommands: [List.self, Export.self])

    private static func read(
        _ directory: String, line: ((_ bytes: [UInt8]) -> Void)? = nil
    ) throws -> SpoolListing {
        do throws(ClientError) {
            let listing = try SpoolListing(of: directory, line: line)
            for part in listing.damage {
                printToStandardError("ingest-send: \(OneLine.escaped("\(part)"))")
            }
            return listing
        } catch {
            throw fail(error.description, exitCode: error.exitCode)
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Whose packets it holds, how many, with which events, and what is damaged.")

        enum Format: String, ExpressibleByArgument, CaseIterable { case table, json, ndjson }

        @Argument(help: ArgumentHelp("The spool.", valueName: "dir"))
        var directory: String

        @Option(help: "(default: table on a terminal, else ndjson)")
        var format: Format?

        func run() throws {
            let listing = try SpoolCommand.read(directory)
            let fields = listing.identity.map { Self.fields(listing, $0) } ?? []
            var lines: [String] = []
            switch format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .ndjson) {
            case .table:
                lines = fields.map { (name, value) in
                    let gap = String(repeating: " ", count: 16 - name.utf8.count)
                    return name + gap + (value == "null" ? "-" : value.filter { $0 != "\"" })
                }
            case .json: lines = ["[" + Self.object(fields) + "]"]
            case .ndjson: if !fields.isEmpty { lines = [Self.object(fields)] }
            }
            let isWritten = lines.allSatisfy(printLine)
            if !listing.damage.isEmpty { throw ExitCode(65) }
            if !isWritten { throw ExitCode(74) }
        }

        private static func object(_ fields: [(name: String, value: String)]) -> String {
            if fields.isEmpty { return "" }
            return "{" + fields.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}"
        }

        /// Values as JSON.
        private static func fields(
            _ listing: SpoolListing, _ identity: SenderIdentity
        ) -> [(name: String, value: String)] {
            let sequences = listing.sequences
            let damagedCount = listing.damage.reduce(0) { $0 + $1.sequences.count }
            return [
                ("sender", "\"\(identity.sender.rawValue)\""),
                ("epoch", "\"\(identity.epoch.rawValue)\""),
                ("firstSequence", sequences.isEmpty ? "null" : "\(sequences.lowerBound)"),
                ("lastSequence", sequences.isEmpty ? "null" : "\(sequences.upperBound - 1)"),
                ("packets", "\(listing.packetCount)"), ("damagedPackets", "\(damagedCount)"),
                ("events", "\(listing.eventCount)"), ("bytes", "\(listing.byteCount)"),
                ("oldestEvent", time(listing.times?.lowerBound)),
                ("newestEvent", time(listing.times?.upperBound)),
            ]
        }

        private static func time(_ microseconds: Int64?) -> String {
            guard let microseconds else { return "null" }
            let (days, rest) = microseconds.quotientAndRemainder(dividingBy: 86_400_000_000)
            let units = [rest / 3_600_000_000, rest / 60_000_000 % 60, rest / 1_000_000 % 60]
            let clock = units.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
            let fraction = String(1_000_000 + rest % 1_000_000).dropFirst()
            return "\"\(CivilDate.text(Int32(days)))T\(clock).\(fraction)Z\""
        }
    }

    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Write its events to stdout, one JSON object a line, as ingest-send takes them.",
            discussion: """
                Events that are sent from such an export and from the spool too count twice, unless they have an \
                eventId: send the export only where the spool is never sent again. Up to 8 MiB of the oldest \
                packets may be acked already.
                """)

        @Argument(help: ArgumentHelp("The spool.", valueName: "dir"))
        var directory: String

        func run() throws {
            var buffer: [UInt8] = []
            var isWritten = true
            let listing = try SpoolCommand.read(directory) { line in
                buffer += line
                buffer.append(UInt8(ascii: "\n"))
                guard buffer.count > 1 << 16 else { return }
                isWritten = isWritten && writeOut(buffer)
                buffer.removeAll(keepingCapacity: true)
            }
            guard isWritten, writeOut(buffer) else { throw ExitCode(74) }
            if listing.nonTextIDCount > 0 {
                printToStandardError(
                    "ingest-send: \(listing.nonTextIDCount) events have an id that is no text, and are without "
                        + "it here: a repeat of them is not recognised")
            }
            if !listing.damage.isEmpty { throw ExitCode(65) }
        }
    }
}
