// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestFormat
import IngestReader

struct FindCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Was this event counted? Its rows in the log, with the verdict on each.",
        discussion: """
            The log has no ids, but a keyed hash of each with its business, and that is what is compared. \
            A table has the columns that tell rows of one id apart, the other formats all. Of senders the \
            log knows what each block has of them: sender and sequences are those of the block, where only \
            one can have sent the row.
            """)

    @Argument(help: "The event's id; a UUID is the same id as its 16 bytes.") var eventID: String
    @Option(help: ArgumentHelp("The business whose event it is.", valueName: "id"))
    var business: String
    @Flag(help: "The id is given in hexadecimal digits.") var hex = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard let bytes, (1...Limits.eventIDByteCountMax).contains(bytes.count) else {
            throw ValidationError(
                "an event id has 1 to \(Limits.eventIDByteCountMax) bytes"
                    + (hex ? ", two hexadecimal digits each" : ""))
        }
    }

    /// `nil` for what are no hexadecimal digits.
    private var bytes: [UInt8]? {
        guard hex else { return Array(eventID.utf8) }
        let digits = eventID.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count % 2 == 0 else { return nil }
        return stride(from: 0, to: digits.count, by: 2).reduce([]) { bytes, place in
            guard let bytes, let high = digits[place], let low = digits[place + 1] else {
                return nil
            }
            return bytes + [UInt8(high << 4 | low)]
        }
    }

    func run() throws {
        let bytes = bytes ?? []
        try output.answer { reader, formatter in
            let count = try formatter.list(
                reader.rows(ofEvent: bytes, business: business),
                tableColumns: FoundEvent.tableColumns)
            if count == 0 {
                throw Ending(
                    code: 66,
                    message: "no row of event \(eventID) at business \(business), \(output.data), "
                        + (reader.hasExpiredRows
                            ? "check both ids, or it has expired" : "check both ids"))
            }
        }
    }
}
