// file → [lines] → send → packet → socket

import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// What happens beside a run: Ctrl-C ends it with a summary, and a receiver that has acked nothing for a second is named.
///
/// The run's own thread may wait for its input or for acks then, so both are handled on a queue.
///
/// `@unchecked Sendable`: of the sources nothing is called after `init` but `cancel`, which any thread may.
final class SendWatch: @unchecked Sendable {
    /// Exit code of a program that SIGINT has ended.
    private static let interruptedCode = 128 + SIGINT
    private static let silence = DispatchTimeInterval.seconds(1)

    private struct State {
        var hasEnded = false
        /// A second ago events had been sent.
        var hadSent = false
        var toldOfWait = false
        var toldOfBlock = false
    }

    private let state = Mutex(State())
    // Kept so that they are not cancelled.
    private let interrupt: any DispatchSourceSignal
    private let timer: any DispatchSourceTimer

    /// - Parameters:
    ///   - address: of the receiver; `nil` where no acks are expected.
    ///   - summarize: prints the summary.
    init(_ sender: EventSender, address: String?, summarize: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "ingest.send.watch")
        signal(SIGINT, SIG_IGN)
        interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: queue)
        timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + Self.silence, repeating: Self.silence)
        timer.setEventHandler { [self] in
            guard let address else { return timer.cancel() }
            look(sender, address)
        }
        interrupt.setEventHandler { [self] in
            guard end() else { return }
            summarize()
            let totals = sender.totals
            let unacked = totals.eventsSent - min(totals.eventsSent, totals.eventsAcked)
            printToStandardError(
                "ingest-send: interrupted"
                    + (address == nil
                        ? ""
                        : ", \(unacked) of \(totals.eventsSent) events sent are not acked: with --spool"
                            + " run it again, without it some of these may have been counted"))
            exit(Self.interruptedCode)
        }
        interrupt.activate()
        timer.activate()
    }

    /// Says each once: that nothing was acked a second after the first events were sent, and that the receiver takes nothing.
    private func look(_ sender: EventSender, _ address: String) {
        let (totals, now) = (sender.totals, sender.state)
        let lines = state.withLock { state in
            var lines: [String] = []
            if state.hadSent, totals.eventsAcked == 0, !state.toldOfWait {
                state.toldOfWait = true
                lines.append("waiting for \(address)")
            }
            if case .waiting(let cause) = now, case .notTaken = cause, !state.toldOfBlock {
                state.toldOfBlock = true
                lines.append("\(cause); waiting")
            }
            state.hadSent = totals.eventsSent > 0
            return lines
        }
        for line in lines { printToStandardError("ingest-send: \(OneLine.escaped(line))") }
    }

    /// Ends it.
    /// - Returns: whether the caller is the one to print the summary.
    func end() -> Bool {
        timer.cancel()
        return state.withLock { state in
            defer { state.hasEnded = true }
            return !state.hasEnded
        }
    }
}
