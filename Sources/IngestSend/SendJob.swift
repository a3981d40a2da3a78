// file → [lines] → send → packet → socket

import IngestClient

/// One run: lines out of the reader, at the rate asked for, into the sender; refused lines named on
/// stderr, progress where a person watches.
struct SendJob: ~Copyable {
    /// Refused lines named one by one; the rest is only counted.
    private static let namedRefusalCountMax = 20

    enum Failure: Error, CustomStringConvertible {
        case input(LineReader.Failure)
        case send(ClientError)
        /// The spool goes on behind the beginning of another input.
        case otherInput

        var description: String {
            switch self {
            case .input(let failure): failure.description
            case .send(let error): error.description
            case .otherInput:
                "the spool holds a part of another input, give that one again, or send what the spool holds"
                    + " with --spool-only"
            }
        }

        var exitCode: Int32 {
            switch self {
            case .input(let failure): failure.exitCode
            case .send(let error): error.exitCode
            case .otherInput: 66
            }
        }
    }

    private var reader: LineReader
    private var pace: SendPace?
    private var progress = Progress()
    private var refusalCount = 0

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
    mutating func run(to sender: any LineSender) -> Failure? {
        do throws(Failure) {
            try sendAll(to: sender)
            return nil
        } catch {
            progress.end(sender.totals)
            return error
        }
    }

    private mutating func sendAll(to sender: any LineSender) throws(Failure) {
        try skipWhatWasTaken()
        while true {
            while reader.hasLine { try sendLine(to: sender) }
            // What is waiting leaves before the input may make us wait.
            try flush(sender)
            progress.look(sender)
            do throws(LineReader.Failure) {
                guard try reader.fill() else { break }
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
    private mutating func skipWhatWasTaken() throws(Failure) {
        guard readsInput, note.position > 0, !hasEnded || reader.canRewind else { return }
        let isSame: Bool
        do throws(LineReader.Failure) {
            isSame = try reader.skip(to: note)
            if !isSame, hasEnded { try reader.rewind() }
        } catch {
            throw .input(error)
        }
        if isSame {
            printToStandardError(
                "ingest-send: \(note.position) bytes of the input were taken before, going on behind them"
            )
        } else if !hasEnded {
            throw .otherInput
        }
    }

    /// Waits until all is acked, and shows how far it is.
    private mutating func close(_ sender: any LineSender) throws(Failure) {
        // Without this a file that was sent in part would be taken for a new one, and its beginning be sent again.
        let end = !readsInput ? note : reader.canRewind ? reader.note : SpoolNote()
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

    private mutating func sendLine(to sender: any LineSender) throws(Failure) {
        try waitForToken(sender)
        let line = reader.takeLine()
        let refusal: EventRefusal?
        do {
            let span = reader.bytes.span.extracting(line.range)
            if isBlank(span) { return }
            refusal = try sender.send(jsonLine: span, note: reader.note)
        } catch {
            throw .send(error)
        }
        if let refusal { report(refusal, line.number) }
        progress.update(sender)
    }

    private mutating func waitForToken(_ sender: any LineSender) throws(Failure) {
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

    /// Where the spool's disk is full, acks may make room, or somebody does.
    private func flush(_ sender: any LineSender) throws(Failure) {
        do throws(ClientError) {
            try sender.flush()
        } catch .spool(_, .diskFull) where !sender.hasEnded {
        } catch {
            throw .send(error)
        }
    }
}

private func isBlank(_ line: borrowing Span<UInt8>) -> Bool {
    for i in line.indices where !isSpace(line[i]) { return false }
    return true
}
