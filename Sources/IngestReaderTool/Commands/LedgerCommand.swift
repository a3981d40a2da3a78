// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestReader

struct LedgerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ledger",
        abstract: "What became of every sender's packets and events.")

    @Option(
        help: ArgumentHelp(
            "Only the epochs of this framed sender, or plain, http, unidentified or others.",
            valueName: "id"))
    var sender: String?
    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            let rows = try reader.ledger().filter { sender == nil || $0.sender.name == sender }
            if let sender, rows.isEmpty { throw Ending.unseen("sender \(sender)", in: output.data) }
            try formatter.list(LedgerRow.columns) { body in
                for row in rows { try body(row.cells) }
            }
        }
    }
}

extension LedgerRow.Sender {
    /// A framed sender's id in decimal digits.
    package var name: String {
        switch self {
        case .framed(let id, _): String(id)
        case .plain: "plain"
        case .http: "http"
        case .unidentified: "unidentified"
        case .others: "others"
        }
    }

    /// In decimal digits, as the id.
    var epoch: Cell {
        if case .framed(_, let epoch) = self { return .decimal(String(epoch)) }
        return .none
    }
}

extension LedgerRow {
    package static let columns = [
        "sender", "epoch", "packetsAnnounced", "packetsReceived", "packetsMissing", "packetsOpen",
        "packetsResent", "eventsDecoded", "eventsCounted", "packetsRefused", "eventsRefused",
        "eventsRepeated", "firstSeen", "lastSeen", "unknownSince",
    ]

    package var cells: [Cell] {
        func count(_ count: UInt64?) -> Cell { count.map { .count($0) } ?? .none }
        func time(_ microseconds: Int64?) -> Cell {
            microseconds.map { .text(TimeText.utc($0)) } ?? .none
        }
        return [
            .text(sender.name), sender.epoch, count(packetsAnnounced), .count(packetsReceived),
            count(packetsMissing), count(packetsOpen), .count(packetsResent),
            .count(eventsDecoded), .count(eventsCounted), .counts(packetsRefused),
            .counts(eventsRefused), .counts(eventsRepeated, of: Self.repeats),
            time(firstSeenMicroseconds), time(lastSeenMicroseconds),
            time(unknownSinceMicroseconds),
        ]
    }
}
