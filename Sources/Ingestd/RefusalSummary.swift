import IngestFormat
import IngestPipeline

/// What a run has refused, as one text: "12 events as too_old, 3 datagrams as bad_magic". The log's last
/// line has it, so that also what was refused after the last of the lines in between is told.
struct RefusalSummary {
    let text: String

    init(_ counters: PipelineCounters) {
        let events = Verdict.allCases.filter(Self.isFault).compactMap {
            Self.part(counters.events[$0], "event", $0.name)
        }
        let packets = PacketResult.allCases.filter { $0 != .accepted }.compactMap {
            Self.part(counters.packets($0), "datagram", $0.name)
        }
        text = (events + packets).joined(separator: ", ")
    }

    /// Whether a verdict says that something is wrong with an event, or with a clock; the others are what
    /// counting is about.
    private static func isFault(_ verdict: Verdict) -> Bool {
        [.tooOld, .tooEarly, .outsideWindow, .wrongBusiness, .conflict, .malformed]
            .contains(verdict)
    }

    private static func part(_ count: UInt64, _ noun: String, _ name: String) -> String? {
        count == 0 ? nil : "\(count) \(noun)\(count == 1 ? "" : "s") as \(name)"
    }
}
