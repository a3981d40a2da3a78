import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestSend

/// The line that a person at a terminal watches.
struct ProgressTests {
    private final class Terminal {
        var text = ""
    }

    private func result(sent: UInt64, refused: UInt64 = 0) -> EventSender.Totals {
        var result = EventSender.Totals()
        result.eventsSent = sent
        result.eventsRefused = refused
        return result
    }

    @Test func `A slow run shows its first event, and then five lines a second at most`() {
        let terminal = Terminal()
        var progress = Progress(isShown: true, startedAt: 0) { terminal.text += $0 }
        for number in 1...20 as ClosedRange<UInt64> {
            progress.show(result(sent: number), now: number * 50_000_000)
        }
        let lines = terminal.text.split(separator: "\r\u{1B}[K")
        #expect(lines.first == "1 events sent, 20/s, 0 refused")
        #expect(lines.count == 5, "\(lines)")
    }

    @Test(
        arguments: [
            (0, 400, ", 0 %"), (100, 400, ", 25 %, 6 s left"), (399, 400, ", 99 %, 1 s left"),
            (400, 400, ", 100 %"), (500, 400, ", 100 %"), (100, nil, ""), (0, 0, ""),
        ] as [(UInt64, UInt64?, String)])
    func `Of a file the share and the time left are shown`(
        taken: UInt64, all: UInt64?, share: String
    ) {
        let terminal = Terminal()
        var progress = Progress(isShown: true, startedAt: 0) { terminal.text += $0 }
        progress.input = (taken, all)
        progress.show(result(sent: 4), now: 2_000_000_000)
        #expect(terminal.text == "\r\u{1B}[K4 events sent, 2/s, 0 refused" + share)
    }

    @Test func `What is printed between takes the line's place`() {
        let terminal = Terminal()
        var progress = Progress(isShown: true, startedAt: 0) { terminal.text += $0 }
        progress.clear()
        #expect(terminal.text.isEmpty, "nothing stands there yet")
        progress.show(result(sent: 1, refused: 2), now: 1_000_000_000)
        progress.clear()
        #expect(terminal.text == "\r\u{1B}[K1 events sent, 1/s, 2 refused\r\u{1B}[K")
    }

    @Test func `Where nobody watches nothing is written`() {
        let terminal = Terminal()
        var progress = Progress(isShown: false, startedAt: 0) { terminal.text += $0 }
        progress.show(result(sent: 1), now: 1_000_000_000)
        progress.clear()
        progress.end(result(sent: 1))
        #expect(terminal.text.isEmpty)
    }

    @Test func `A sender that waits for its pace or its input is shown all the same`() throws {
        let terminal = Terminal()
        var progress = Progress(isShown: true) { terminal.text += $0 }
        let sender = try EventSender(
            transport: RecordingTransport(), options: EventSender.Options())
        progress.look(sender)
        #expect(terminal.text.contains("0 events sent"))
    }

    @Test func `An answer may count more events than fit a number`() throws {
        var totals = result(sent: 5)
        totals.eventsAcked = 5
        totals.receiver = EventSender.ReceiverCounts(
            EventSums(counted: .max, repeated: 5, refusedAndReason: 7))
        #expect(throws: (any Error).self) {
            try Outcome.tell(totals, isAcked: true, continuesEpoch: false, failsOnRefused: true)
        }
    }
}
