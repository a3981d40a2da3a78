// file → [lines] → send → packet → socket

import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// One run: lines out of the reader, at the rate asked for, into the sender; refused lines named on
/// stderr, progress on a terminal.
struct SendJob: ~Copyable {
    /// Refused lines named one by one; the rest is only counted.
    private static let namedRefusalCountMax = 20
    /// Events of the input that are looked at for what may be meant otherwise.
    private static let advisedEventCountMax = 100
    /// Lines that are sent under one lock: acks wait for it, for a tenth of a millisecond.
    private static let batchLineCountMax = 256

    enum Failure: Error, CustomStringConvertible {
        case input(LineReader.Failure)
        case send(ClientError)
        /// The spool goes on behind the beginning of another input.
        case otherInput
        /// The last line that was sent of it had no newline, and is another one now.
        case longerLine(number: Int)

        var description: String {
            switch self {
            case .input(let failure): failure.description
            case .send(let error): error.description
            case .otherInput:
                "the spool holds a part of another input, give that one again, or send what the spool holds"
                    + " with --spool-only, and once that has ended with 0 remove the spool"
            case .longerLine(let number):
                "line \(number) of the input was sent when it ended there, and has more text now, put that"
                    + " on a line of its own"
            }
        }

        var exitCode: Int32 {
            switch self {
            case .input(let failure): failure.exitCode
            case .send(let error): error.exitCode
            case .otherInput, .longerLine: 66
            }
        }
    }

    private var reader: LineReader
    private var pace: SendPace?
    private var progress = Progress()
    private var refusalCount = 0
    /// What was said last of a spool without room.
    private var toldOfWait: String?
    private var eventCount = 0
    /// Those being sent.
    private var lines: [InputLine] = []
    private var advice = JSONEventAdvice()
    /// Whether the last line was an event and was sent, if there was one.
    private var isLastLineSent = true

    /// Where an earlier run on the same spool has stopped, and whether that was its end.
    private let note: SpoolNote
    private let hasEnded: Bool
    /// Else only what the spool holds is sent, and its note stays what it is.
    private let readsInput: Bool

    init(
        reader: consuming LineReader, rate: Double?, from note: SpoolNote = SpoolNote(),
        hasEnded: Bool = false, readsInput: Bool = true
    ) {
        self.readsInput = readsInput
        self.reader = reader
        self.note = note
        self.hasEnded = hasEnded
        pace = rate.map {
            SendPace(eventsPerSecond: $0, now: SenderClock.monotonicNanoseconds())
        }
    }

    /// Sends everything; what stopped it early, or `nil`.
    mutating func run(to sender: EventSender) -> Failure? {
        do throws(Failure) {
            try sendAll(to: sender)
            return nil
        } catch {
            progress.end(sender.totals)
            if case .send(let cause) = error { return .send(sender.withUnacked(cause)) }
            return error
        }
    }

    private mutating func sendAll(to sender: EventSender) throws(Failure) {
        try seekToResumePoint()
        progress.input = (reader.note.position, reader.byteCount)
        while true {
            while reader.hasLine { try sendLines(to: sender) }
            // What is waiting leaves before the input may make us wait.
            try flush(sender)
            progress.look(sender)
            do throws(LineReader.Failure) {
                guard try reader.fill(while: { !sender.hasEnded }) else { break }
            } catch {
                throw .input(error)
            }
        }
        try close(sender)
        progress.end(sender.totals)
        if refusalCount > Self.namedRefusalCountMax {
            printToStandardError(
                "ingest-send: \(refusalCount - Self.namedRefusalCountMax) more lines refused")
        }
    }

    /// A run that did not end has to be ended with its own input. One that did sends nothing twice either: a
    /// file that begins with what was sent goes on behind that; any other input is a new one.
    private mutating func seekToResumePoint() throws(Failure) {
        guard readsInput, note.position > 0, !hasEnded || reader.canRewind else { return }
        let beginning: LineReader.Beginning
        do throws(LineReader.Failure) {
            beginning = try reader.skip(to: note)
            if beginning == .other, hasEnded { try reader.rewind() }
        } catch {
            throw .input(error)
        }
        switch beginning {
        case .same:
            printToStandardError(
                "ingest-send: resuming the input after \(note.position) bytes sent before"
            )
        case .other: if !hasEnded { throw .otherInput }
        case .longerLine(let number): throw .longerLine(number: number)
        }
    }

    /// How far the input has been sent: not with a last line that had no newline and was no event, for it may be completed.
    /// `nil` where none was read: of an input that is sent in part the rest may come.
    private var end: SpoolNote? {
        if !readsInput { return nil }
        if !reader.canRewind { return SpoolNote() }
        return reader.endsInLine && !isLastLineSent ? reader.lineNote : reader.note
    }

    /// Waits until all is acked, and shows how far it is.
    private mutating func close(_ sender: EventSender) throws(Failure) {
        // Without this a file that was sent in part would be taken for a new one, and its beginning be sent again.
        let end = end
        while true {
            do throws(ClientError) {
                _ = try sender.close(within: .milliseconds(200), note: end)
                return
            } catch .deadline {
                progress.look(sender)
            } catch .spool(_, .diskFull) where !sender.hasEnded {
                progress.look(sender)
                let now = SenderClock.monotonicNanoseconds()
                SenderClock.sleep(untilMonotonicNanoseconds: now + 200_000_000)
            } catch {
                throw .send(error)
            }
        }
    }

    /// Sends the next lines of the reader's buffer; with a pace one by one.
    private mutating func sendLines(to sender: EventSender) throws(Failure) {
        try waitForToken(sender)
        takeLines(countMax: pace == nil ? Self.batchLineCountMax : 1)
        var next = 0
        while next < lines.count {
            let sent = try send(lines[next...], to: sender)
            next += sent.count
            note(lines[(next - sent.count)..<next], sent.refusal)
        }
        progress.input.taken = reader.note.position
        progress.look(sender)
    }

    /// Blank lines are passed.
    private mutating func takeLines(countMax: Int) {
        lines.removeAll(keepingCapacity: true)
        repeat {
            let line = reader.takeLine()
            isLastLineSent = !isBlank(reader.buffer.bytes.span.extracting(line.range))
            if isLastLineSent { lines.append(line) }
        } while reader.hasLine && lines.count < countMax
    }

    private mutating func send(
        _ lines: ArraySlice<InputLine>, to sender: EventSender
    ) throws(Failure) -> (count: Int, refusal: EventRefusal?) {
        let progress = progress
        var told = toldOfWait
        defer { toldOfWait = told }
        do throws(ClientError) {
            return try sender.send(jsonLines: lines, of: reader.buffer.bytes.span) {
                isSpoolFull, stall in
                let cause =
                    isSpoolFull ? "the spool has reached --spool-bytes-max" : stall.map { "\($0)" }
                guard let cause, cause != told else { return }
                told = cause
                progress.clear()
                printToStandardError(
                    "ingest-send: \(OneLine.escaped(cause)), waiting before more is read")
            }
        } catch {
            throw .send(error)
        }
    }

    /// What is said of lines that were sent, of which the last may have been refused.
    private mutating func note(_ lines: ArraySlice<InputLine>, _ refusal: EventRefusal?) {
        let first = eventCount
        eventCount += lines.count
        for line in lines.dropLast().prefix(max(0, Self.advisedEventCountMax - first)) {
            advise(line)
        }
        guard let last = lines.last else { return }
        if let refusal {
            isLastLineSent = isLastLineSent && last.number != reader.lineNumber
            report(refusal, last.number)
        }
        if eventCount <= Self.advisedEventCountMax
            || refusal != nil && refusalCount <= Self.namedRefusalCountMax
        {
            advise(last)
        }
    }

    private mutating func waitForToken(_ sender: EventSender) throws(Failure) {
        guard pace != nil else { return }
        while true {
            let now = SenderClock.monotonicNanoseconds()
            let wait = pace?.take(now: now) ?? 0
            if wait == 0 { return }
            try flush(sender)
            progress.look(sender)
            SenderClock.sleep(untilMonotonicNanoseconds: now + wait)
        }
    }

    private mutating func report(_ refusal: EventRefusal, _ lineNumber: Int) {
        refusalCount += 1
        if refusalCount <= Self.namedRefusalCountMax {
            progress.clear()
            printToStandardError("ingest-send: line \(lineNumber): \(refusal), refused")
        }
    }

    /// Says what may be meant by a line that is read otherwise.
    private mutating func advise(_ line: InputLine) {
        // A copy: the line is a part of this job.
        var next = advice
        let found = next.advice(on: reader.buffer.bytes.span.extracting(line.range))
        advice = next
        for found in found {
            progress.clear()
            printToStandardError("ingest-send: line \(line.number): \(found)")
        }
    }

    /// Where the spool's disk is full, acks may make room, or an operator does.
    private func flush(_ sender: EventSender) throws(Failure) {
        do throws(ClientError) {
            try sender.flush()
        } catch .spool(_, .diskFull) where !sender.hasEnded {
        } catch {
            throw .send(error)
        }
    }
}

func isBlank(_ line: borrowing Span<UInt8>) -> Bool {
    for i in line.indices where !isSpace(line[i]) { return false }
    return true
}

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
    init(_ sender: EventSender, address: String?, summarize: @escaping @Sendable () -> Bool) {
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
            _ = summarize()
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
