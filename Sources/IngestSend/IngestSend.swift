// file → [lines] → send → packet → socket

import ArgumentParser
import Glibc
import IngestClient
import IngestFormat

/// `ingest-send`: reads events from a file or a pipe and sends them to a daemon. Options and output;
/// what it does is in IngestClient.
struct IngestSend: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest-send",
        abstract: "Send ad events (JSON, one a line) to ingestd.",
        discussion: """
            Sends every packet again until ingestd has it on disk, through restarts of ingestd, and with \
            --spool through its own: run it again with the same spool and input. Prints a summary as JSON \
            on stdout; refused lines and errors go to stderr.

            'ingest-send check --to HOST:PORT' asks ingestd whether it would take packets from here, 'ingest-send \
            spool list|export DIR' looks into a spool; each has its own --help. A file of such a name is given as \
            ./check or ./spool.

            With --follow or --listen it is an agent: it spools whatever the receiver does, until SIGTERM or \
            SIGINT ends it with 0; the next start sends what is left.

            Exit codes: 0 every event is durable (with --plain or --no-acks: has left) · 1 lines were \
            refused, the others are durable; with --fail-on-refused ingestd did not count all of them · 64 wrong usage · 65 the spool is or was damaged · 66 FILE cannot be \
            read, or is not the one of the spool · 69 receiver unreachable or silent, or what answers \
            acks nothing or refuses this sender · 71 acked events were lost, or a sync of the spool failed · 74 other I/O error · \
            78 keys file or sender id wrong · 130 interrupted (Ctrl-C), after the summary.
            """,
        version: "ingest-send \(Release.version), packets \(Release.packetVersion)")

    @Option(
        help: ArgumentHelp("Where ingestd receives; [HOST]:PORT for IPv6.", valueName: "host:port"))
    var to: String

    @Option(
        help: ArgumentHelp(
            "The sender's own id, 1 … 18446744073709551615, unique among all processes. "
                + "(default: random)", valueName: "n"))
    var senderID: UInt64?

    @Option(
        help: ArgumentHelp(
            "Keep packets on disk here until they are acked; one ingest-send at a time.",
            valueName: "dir"))
    var spool: String?

    @Option(
        help: ArgumentHelp(
            "Bytes that the spool may take on its disk, 33554432 … 1099511627776: beyond that the input "
                + "waits for acks. (default: 10737418240)", valueName: "bytes"))
    var spoolBytesMax: Int?

    @Flag(help: "Send what the spool holds, and read no input.")
    var spoolOnly = false

    @Option(help: ArgumentHelp("Tag packets by this key of --key-file, 1 … 65535.", valueName: "n"))
    var keyID: UInt16?

    @Option(help: ArgumentHelp("A keys file, mode 0400 or 0600.", valueName: "file"))
    var keyFile: String?

    @Option(
        help: ArgumentHelp(
            "Give up after this time without an answer or without a new ack, 1 … 31536000; after ten "
                + "if the receiver is unreachable from the start. An ingestd that is busy or whose disk is full or hangs gives "
                + "no answer in this sense, but with --spool, which waits for it as long as it takes.",
            valueName: "seconds"))
    var giveUpSeconds = 60

    @Option(help: ArgumentHelp("Bytes in a packet, 1200 … 65507.", valueName: "bytes"))
    var packetBytes = 1_372

    @Flag(
        inversion: .prefixedNo,
        help: "Send every packet until it is acked, or only once. (default: --acks)"
    )
    var acks: Bool?

    @Flag(
        help: "Go on with an ingestd that has lost packets that it had acked: these stay lost.")
    var acceptReceiver = false

    @Flag(
        help:
            "End with 1 if ingestd has refused events, or with 69 if it did not tell in time. Repeated events do not count as refused."
    )
    var failOnRefused = false

    @Flag(help: "Send plain JSON datagrams: without sequence, so that loss stays unknown.")
    var plain = false

    @Option(
        help: ArgumentHelp(
            "At most this many events per second, 0.001 … 1000000000. "
                + "(default: as fast as they are read)",
            valueName: "events/s"))
    var rate: Double?

    @Flag(
        help: ArgumentHelp(
            "An agent: read FILE as it grows, through rotation, until SIGTERM. Needs --spool, which keeps the place."
        ))
    var follow = false

    @Option(
        help: ArgumentHelp(
            "An agent: take events as datagrams, one JSON object a line, also behind a syslog prefix, until SIGTERM. "
                + "Needs --spool. May be given several times; port 0 picks one.",
            valueName: "udp:host:port|unix:path"))
    var listen: [ListenAddress] = []

    @Argument(help: ArgumentHelp("Events, one JSON object a line; - is stdin.", valueName: "file"))
    var file = "-"

    func validate() throws {
        if senderID == 0 {
            throw ValidationError("--sender-id 0 stands for plain datagrams, give 1 or more")
        }
        if plain && senderID != nil {
            throw ValidationError("--plain datagrams carry no sender id, leave one of the two out")
        }
        if plain && (spool != nil || keyID != nil || acks != nil) {
            throw ValidationError("--plain has no acks, spool or key, leave these out")
        }
        if acceptReceiver && !isAcked {
            throw ValidationError(
                "--accept-receiver is about acks, leave --plain and --no-acks out")
        }
        if failOnRefused && !isAcked {
            throw ValidationError(
                "--fail-on-refused is told by acks, leave --plain and --no-acks out")
        }
        if acks == false && spool != nil {
            throw ValidationError("--spool keeps what is not acked, leave --no-acks out")
        }
        if (spoolOnly || spoolBytesMax != nil) && spool == nil {
            throw ValidationError("--spool-only and --spool-bytes-max need --spool")
        }
        let spoolLimits = EventSender.Options.spoolByteCountLimits
        if let spoolBytesMax, !spoolLimits.contains(spoolBytesMax) {
            throw ValidationError(
                "--spool-bytes-max is from \(spoolLimits.lowerBound) to \(spoolLimits.upperBound), got "
                    + "\(spoolBytesMax)")
        }
        if let fault = validateAgent() { throw ValidationError(fault) }
        try validateKey(id: keyID, file: keyFile)
        guard (1...31_536_000).contains(giveUpSeconds) else {
            throw ValidationError("--give-up-seconds is from 1 to 31536000, got \(giveUpSeconds)")
        }
        guard (1_200...65_507).contains(packetBytes) else {
            throw ValidationError("--packet-bytes is from 1200 to 65507, got \(packetBytes)")
        }
        if let rate, !SendPace.eventsPerSecondLimits.contains(rate) {
            throw ValidationError("--rate is from 0.001 to 1000000000, got \(rate)")
        }
    }

    func run() throws {
        if isAgent { return try runAgent() }
        let startedAt = SenderClock.monotonicNanoseconds()
        let sender: EventSender
        var job: SendJob
        do {
            let reader = try LineReader(path: spoolOnly ? "/dev/null" : file)
            sender = try openSender()
            job = SendJob(
                reader: reader, rate: rate, from: sender.spoolNote,
                hasEnded: sender.hasSpoolEnded, readsInput: !spoolOnly)
        } catch let error as LineReader.Failure {
            throw fail(error.description, exitCode: error.exitCode)
        } catch let error as ClientError {
            throw fail(error.description, exitCode: error.exitCode)
        }
        let summarize: @Sendable () -> Bool = {
            Self.printSummary(
                sender.totals, nanoseconds: SenderClock.monotonicNanoseconds() - startedAt)
        }
        let watch = SendWatch(sender, address: isAcked ? to : nil, summarize: summarize)
        let foundDamage = sender.spoolDamage
        tell(foundDamage[...])
        let failure = job.run(to: sender)
        // Ctrl-C came first, and is about to end the program.
        while !watch.end() { pause() }
        tell(sender.spoolDamage.dropFirst(foundDamage.count))
        let isSummaryWritten = summarize()
        let lostCount = sender.totals.packetsLost
        if lostCount > 0 {
            printToStandardError(
                "ingest-send: went on though the receiver had lost \(lostCount) packets that it had "
                    + "acked, send their events again")
        }
        if let failure { throw fail(failure.description, exitCode: failure.exitCode) }
        if !isAcked {
            printToStandardError(
                "ingest-send: sent, not confirmed: no acks were asked for, "
                    + "ingest-reader shows what arrived")
        }
        let damagedCount = sender.totals.packetsDamaged
        if damagedCount > 0 {
            throw fail(
                "\(damagedCount) packets of the spool were damaged, and are not counted unless they had been "
                    + "acked; all others are durable, send the events of these again", exitCode: 65)
        }
        try Outcome.tell(
            sender.totals, isAcked: isAcked,
            continuesEpoch: sender.continuesEpoch, failsOnRefused: failOnRefused)
        if sender.totals.eventsRefused > 0 { throw ExitCode(1) }
        if !isSummaryWritten { throw ExitCode(74) }
    }

    private var isAcked: Bool {
        !plain && (acks ?? true)
    }

    func openSender() throws(ClientError) -> EventSender {
        var options = EventSender.Options()
        options.senderID = senderID
        options.packetByteCountMax = packetBytes
        options.isPlain = plain
        options.delivery =
            spool.map { .spooled(directory: $0) } ?? (isAcked ? .acked : .unacked)
        if let spoolBytesMax { options.spoolByteCountMax = spoolBytesMax }
        options.givesUpAfter = .seconds(giveUpSeconds)
        options.endsAtNetworkErrors = true
        if isAgent {
            // On disk within 20 ms, the disk's own time and all.
            options.batchDelay = .milliseconds(10)
            options.givesUpAfter = nil
            // What may wait for the disk in memory.
            options.unackedByteCountMax = 4 << 20
            options.spoolsOn = true
        }
        options.acceptsReceiver = acceptReceiver
        if let keyID, let keyFile {
            options.key = try EventSender.Key(id: keyID, file: keyFile)
        }
        return try EventSender.open(to: to, options: options)
    }

    func tell(_ damage: ArraySlice<SpoolDamage>) {
        for part in damage { printToStandardError("ingest-send: \(OneLine.escaped("\(part)"))") }
    }

    /// - Parameter dropped: what came to sockets and is lost; `nil` without any.
    /// - Returns: as `printLine`.
    static func printSummary(
        _ totals: EventSender.Totals, nanoseconds: UInt64, dropped: UInt64? = nil
    ) -> Bool {
        let fraction = String(nanoseconds / 1_000_000 % 1000 + 1000).dropFirst()
        return printLine(
            "{\"sent\":\(totals.eventsSent),\"acked\":\(totals.eventsAcked)"
                + ",\"resent\":\(totals.packetsResent),\"refused\":\(totals.eventsRefused)"
                + Outcome.fields(totals.receiver)
                + (dropped.map { ",\"dropped\":\($0)" } ?? "")
                + ",\"seconds\":\(nanoseconds / 1_000_000_000).\(fraction)}")
    }
}

/// Prints the one line of an error; throw what is returned.
func fail(_ message: String, exitCode: Int32) -> ExitCode {
    printToStandardError("ingest-send: \(OneLine.escaped(message))")
    return ExitCode(exitCode)
}
