// file or datagram → [lines] → send → spool → packet

import ArgumentParser
import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// `--follow` and `--listen`: takes lines into the spool as they come, whatever the receiver does, until a signal ends it.
struct Agent: ~Copyable {
    /// Refused lines named one by one; the rest is only counted.
    private static let namedRefusalCountMax = 20
    private static let pollNanoseconds: UInt64 = 100_000_000
    private static let lookNanoseconds: UInt64 = 1_000_000_000
    /// Between two lines of the same kind on stderr.
    private static let tellNanoseconds: UInt64 = 60_000_000_000
    /// For acks at the end: what is not acked by then stays in the spool.
    private static let closeLimit = Duration.seconds(1)

    private let sender: EventSender
    private let stop: StopRequest
    /// Where the spool's input stands: what lines without a place of their own are sent with.
    private var note: SpoolNote
    /// What is not in the spool is in the file still.
    private var isFollowing = false
    private var refusalCount = 0
    /// Lines that were received and found no room in the spool before the end.
    private(set) var lostCount: UInt64 = 0
    private var toldOfFull = false
    private var lookedAt: UInt64 = 0
    /// When it was said last that something keeps events from being acked.
    private var toldOfObstacleAt: UInt64?
    private var drops: (told: UInt64, at: UInt64) = (0, 0)

    init(_ sender: EventSender, stop: StopRequest) {
        (self.sender, self.stop) = (sender, stop)
        note = sender.spoolNote
    }

    static func tell(_ message: String) {
        tellStandardError("ingest-send: \(OneLine.escaped(message))")
    }

    /// Takes lines until a signal comes, and everything to the spool.
    ///
    /// - Returns: the exit code.
    mutating func run(
        _ inbox: DatagramInbox?, following path: String
    ) -> Result<Int32, AgentFailure> {
        do throws(AgentFailure) {
            if let inbox { try listen(inbox) } else { try follow(path) }
            return .success(try close())
        } catch {
            // What a file has is read again.
            if let inbox { lostCount += sender.unspooledEventCount + rest(of: inbox) }
            if lostCount > 0 {
                Self.tell(
                    "\(lostCount) events that were received are lost, or in the spool without a sync"
                )
            }
            return .failure(error)
        }
    }

    /// How many lines were received and not taken.
    private func rest(of inbox: DatagramInbox) -> UInt64 {
        inbox.stop()
        var (lines, count): ([UInt8], UInt64) = ([], 0)
        while inbox.take(&lines) {
            count += Self.eventCount(lines[...])
            if lines.isEmpty { stop.wait(nanoseconds: Self.pollNanoseconds) }
        }
        return count
    }

    /// Lines that are not blank: a datagram may end with a newline of its own.
    private static func eventCount(_ lines: ArraySlice<UInt8>) -> UInt64 {
        UInt64(lines.split(separator: 0x0A).count { !isBlank($0.span) })
    }

    // MARK: Inputs

    /// Reads the file until a signal comes.
    private mutating func follow(_ path: String) throws(AgentFailure) {
        isFollowing = true
        var follower = try FileFollower(
            path: path, from: note, hasEnded: sender.hasSpoolEnded,
            now: SenderClock.monotonicNanoseconds(), tell: Self.tell)
        while !stop.isRequested {
            try look(dropCount: 0)
            guard let found = try follower.advance(now: SenderClock.monotonicNanoseconds()) else {
                stop.wait(nanoseconds: Self.pollNanoseconds)
                continue
            }
            let bytes = found.file.buffer.bytes
            while !stop.isRequested, let line = found.file.takeLine(isFinal: found.isFinal) {
                let note = found.file.note
                let name = "line \(found.file.lineNumber)"
                // The place is before it in the spool: the next start reads it again.
                guard try take(bytes.span.extracting(line), note, name: name) else { return }
                self.note = note
            }
        }
    }

    /// Receives until a signal comes, and then what the sockets hold.
    private mutating func listen(_ inbox: DatagramInbox) throws(AgentFailure) {
        var lines: [UInt8] = []
        var (start, lineCount) = (0, 0)
        // Of lines that the spool did not take any more.
        defer { lostCount += Self.eventCount(lines[min(start, lines.count)...]) }
        while inbox.take(&lines) {
            start = 0
            try look(dropCount: inbox.dropCount)
            if stop.isRequested { inbox.stop() }
            if lines.isEmpty {
                stop.wait(nanoseconds: Self.pollNanoseconds)
                continue
            }
            while start < lines.count {
                let end = lines[start...].firstIndex(of: 0x0A) ?? lines.count
                let whole = lines.span.extracting(start..<end)
                let line = whole.extracting(Self.eventStart(whole)..<whole.count)
                if !isBlank(line) {
                    lineCount += 1
                    if try !take(line, note, name: "event \(lineCount)") { lostCount += 1 }
                }
                start = end + 1
            }
        }
        tell(dropCount: inbox.dropCount, now: SenderClock.monotonicNanoseconds())
    }

    /// Where the event of a line begins: behind a syslog prefix, `<190>Nov 25 10:00:00 host nginx: `, if it has one.
    private static func eventStart(_ line: borrowing Span<UInt8>) -> Int {
        guard line.count > 0, line[0] == UInt8(ascii: "<") else { return 0 }
        for i in line.indices where line[i] == UInt8(ascii: "{") { return i }
        return 0
    }

    // MARK: Lines

    /// Takes one line into the spool; waits for room.
    ///
    /// - Returns: `false` if a signal came before there was any.
    private mutating func take(
        _ line: Span<UInt8>, _ note: SpoolNote, name: @autoclosure () -> String
    ) throws(AgentFailure) -> Bool {
        if isBlank(line) { return true }
        while true {
            let answer: (EventSender.Outcome, isSpoolFull: Bool, stall: ClientError?)
            do throws(ClientError) {
                answer = try sender.offer(jsonLine: line, note: note)
            } catch {
                throw AgentFailure(error)
            }
            switch answer.0 {
            case .taken: return true
            case .refused(let refusal):
                report(refusal, name())
                return true
            case .full:
                // What waits for the disk alone is waited for.
                let hasNoRoom = answer.isSpoolFull || answer.stall != nil
                if stop.isRequested, hasNoRoom || isFollowing { return false }
                if answer.isSpoolFull { tellOfFull() }
                sender.waitForProgress()
                try look(dropCount: drops.told)
            }
        }
    }

    private mutating func tellOfFull() {
        if toldOfFull { return }
        toldOfFull = true
        Self.tell(
            "the spool has reached --spool-bytes-max, waiting before more is read"
                + (isFollowing
                    ? ""
                    : " (datagrams that come meanwhile are dropped by the kernel, and counted)"))
    }

    private mutating func report(_ refusal: EventRefusal, _ name: String) {
        refusalCount += 1
        guard refusalCount <= Self.namedRefusalCountMax else { return }
        Self.tell("\(name): \(refusal), refused")
        if refusalCount == Self.namedRefusalCountMax { Self.tell("further refusals are counted") }
    }

    /// Says now and then what keeps events from being acked, and what was dropped.
    private mutating func look(dropCount: UInt64) throws(AgentFailure) {
        let now = SenderClock.monotonicNanoseconds()
        guard now >= lookedAt + Self.lookNanoseconds else { return }
        lookedAt = now
        if drops.told == 0 || now >= drops.at + Self.tellNanoseconds {
            tell(dropCount: dropCount, now: now)
        }
        try lookAtReceiver(now: now)
    }

    private mutating func tell(dropCount: UInt64, now: UInt64) {
        guard dropCount > drops.told else { return }
        drops = (dropCount, now)
        Self.tell(
            "\(dropCount) datagrams were dropped by the kernel so far, since a socket had no room: raise"
                + " net.core.rmem_max, or send less")
    }

    private mutating func lookAtReceiver(now: UInt64) throws(AgentFailure) {
        switch sender.state {
        case .ended(let error): throw AgentFailure(error)
        case .working:
            if toldOfObstacleAt != nil { Self.tell("events are acked again") }
            toldOfObstacleAt = nil
        case .waiting(let cause):
            if let last = toldOfObstacleAt, now < last + Self.tellNanoseconds { return }
            toldOfObstacleAt = now
            Self.tell("\(cause); events are kept in the spool meanwhile")
        }
    }

    // MARK: The end

    /// Everything that was taken goes to the spool. Acks are waited for a moment only: the next start sends the rest.
    ///
    /// - Returns: the exit code.
    private mutating func close() throws(AgentFailure) -> Int32 {
        var cause = "it has reached --spool-bytes-max, give it more"
        var exitCode: Int32 = 0
        do throws(ClientError) {
            try sender.flush()
            _ = try sender.close(within: Self.closeLimit, note: note)
        } catch .deadline {
            let (events, packets) = sender.unacked
            // 0: all is acked, and the receiver has not told what became of it.
            if packets > 0 {
                Self.tell(
                    "\(events) events in \(packets) packets stay in the spool, the next start sends them"
                )
            }
        } catch .spool(let path, .diskFull) {
            // 0: all is in the spool, only its end has no room.
            let count = sender.unspooledEventCount
            if isFollowing {
                guard count > 0 else { return 0 }
                Self.tell(
                    "the last lines had no room in the spool, the next start reads them again")
                return 0
            }
            lostCount += count
            guard lostCount > 0 else { return 0 }
            cause = "its disk is full, \(path), free space or inodes on this file system"
            exitCode = 74
        } catch {
            throw AgentFailure(error)
        }
        if lostCount > 0 {
            Self.tell(
                "\(lostCount) events that were received had no room in the spool and are lost: \(cause)"
            )
        }
        return exitCode
    }
}

/// SIGTERM or SIGINT, and what wakes the thread that waits for lines.
///
/// `@unchecked Sendable`: the sources are only kept.
final class StopRequest: @unchecked Sendable {
    private let flag = Atomic(false)
    let signal = DispatchSemaphore(value: 0)
    // Kept so that they are not cancelled.
    private var sources: [any DispatchSourceSignal] = []

    init() {
        let queue = DispatchQueue(label: "ingest.send.stop")
        sources = [SIGTERM, SIGINT].map { number in
            Glibc.signal(number, SIG_IGN)
            return DispatchSource.makeSignalSource(signal: number, queue: queue)
        }
        for source in sources {
            source.setEventHandler { [self] in
                flag.store(true, ordering: .relaxed)
                signal.signal()
            }
            source.activate()
        }
    }

    /// Relaxed: it is only ever set, and carries nothing with it.
    var isRequested: Bool { flag.load(ordering: .relaxed) }

    func wait(nanoseconds: UInt64) {
        _ = signal.wait(timeout: .now() + .nanoseconds(Int(nanoseconds)))
    }
}

extension IngestSend {
    /// Whether it runs until a signal ends it, instead of until the end of its input.
    var isAgent: Bool { follow || !listen.isEmpty }

    func validateAgent() -> String? {
        guard isAgent else { return nil }
        if spool == nil { return "--follow and --listen need --spool" }
        if spoolOnly || rate != nil || failOnRefused {
            return "--follow and --listen go without --spool-only, --rate and --fail-on-refused"
        }
        if follow, !listen.isEmpty {
            return "--follow and --listen are two agents, start one for each"
        }
        if follow, file == "-" { return "--follow needs a FILE, a pipe goes without it" }
        if !follow, file != "-" {
            return "--listen reads no FILE, start another ingest-send for it"
        }
        return nil
    }

    func runAgent() throws {
        let startedAt = SenderClock.monotonicNanoseconds()
        // From here on a signal ends it in order.
        let stop = StopRequest()
        let exitCode: Int32
        do throws(AgentFailure) {
            let sockets = try listen.map { address throws(AgentFailure) in
                try DatagramSocket(address)
            }
            let sender: EventSender
            do throws(ClientError) {
                sender = try openSender()
            } catch {
                throw AgentFailure(error)
            }
            tell(sender.spoolDamage[...])
            var agent = Agent(sender, stop: stop)
            for socket in sockets { Agent.tell("listening on \(socket.name)") }
            let inbox = follow ? nil : DatagramInbox(sockets, signal: stop.signal)
            let result = agent.run(inbox, following: file)
            let isSummaryWritten = Self.printSummary(
                sender.totals, nanoseconds: SenderClock.monotonicNanoseconds() - startedAt,
                dropped: inbox.map { $0.dropCount + agent.lostCount })
            let code = try result.get()
            exitCode = code == 0 && !isSummaryWritten ? 74 : code
        } catch {
            throw fail(error.message, exitCode: error.exitCode)
        }
        if exitCode != 0 { throw ExitCode(exitCode) }
    }
}
