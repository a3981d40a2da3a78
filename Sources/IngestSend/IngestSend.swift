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
            Prints a summary as JSON on stdout; refused lines and errors go to stderr. Delivery is not \
            confirmed by this version: exit 0 means that every event has left.

            Exit codes: 0 sent · 1 lines were refused, the others were sent · 64 wrong usage · 66 FILE \
            cannot be read · 69 nobody receives at HOST:PORT · 74 other I/O error.
            """,
        version: "ingest-send \(Release.version), packets \(Release.packetVersion)")

    @Option(
        help: ArgumentHelp("Where ingestd receives; [HOST]:PORT for IPv6.", valueName: "host:port"))
    var to: String

    @Option(
        help: ArgumentHelp(
            "The sender's own id, 1 … 18446744073709551615; never two processes with one id. "
                + "(default: random)", valueName: "n"))
    var senderID: UInt64?

    @Flag(help: "Send plain JSON datagrams: without sequence, so that loss stays unknown.")
    var plain = false

    @Option(
        help: ArgumentHelp(
            "At most this many events per second, 0.001 … 1000000000. "
                + "(default: as fast as they are read)",
            valueName: "events/s"))
    var rate: Double?

    @Argument(help: ArgumentHelp("Events, one JSON object a line; - is stdin.", valueName: "file"))
    var file = "-"

    func validate() throws {
        if senderID == 0 {
            throw ValidationError("--sender-id 0 stands for plain datagrams, give 1 or more")
        }
        if plain && senderID != nil {
            throw ValidationError("--plain datagrams carry no sender id, leave one of the two out")
        }
        if let rate, !SendPace.eventsPerSecondLimits.contains(rate) {
            throw ValidationError("--rate is from 0.001 to 1000000000, got \(rate)")
        }
    }

    func run() throws {
        let startedAt = SenderClock.monotonicNanoseconds()
        let sender: any LineSender
        var job: SendJob
        do {
            let reader = try LineReader(path: file)
            sender = try openSender()
            job = SendJob(reader: reader, rate: rate)
        } catch let error as LineReader.Failure {
            throw fail(error.description, exitCode: error.exitCode)
        } catch let error as ClientError {
            throw fail(error.description, exitCode: error.exitCode)
        }
        let failure = job.run(to: sender)
        printSummary(sender.result, nanoseconds: SenderClock.monotonicNanoseconds() - startedAt)
        if let failure { throw fail(failure.description, exitCode: failure.exitCode) }
        printToStandardError(
            "ingest-send: sent, not confirmed: no acks are asked for yet, "
                + "ingest-reader shows what arrived")
        if sender.result.refused > 0 { throw ExitCode(1) }
    }

    private func openSender() throws(ClientError) -> any LineSender {
        if plain {
            return PlainSender(
                transport: try UDPTransport(address: to),
                datagramByteCountMax: EventSender.Options().packetByteCountMax)
        }
        var options = EventSender.Options()
        options.senderID = senderID
        return try EventSender.open(to: to, options: options)
    }

    private func printSummary(_ result: EventSender.Result, nanoseconds: UInt64) {
        let fraction = String(nanoseconds / 1_000_000 % 1000 + 1000).dropFirst()
        print(
            "{\"sent\":\(result.sent),\"acked\":\(result.acked),\"resent\":\(result.resent)"
                + ",\"refused\":\(result.refused)"
                + ",\"seconds\":\(nanoseconds / 1_000_000_000).\(fraction)}")
    }
}

/// Prints the one line of an error; throw what is returned.
func fail(_ message: String, exitCode: Int32) -> ExitCode {
    printToStandardError("ingest-send: \(OneLine.escaped(message))")
    return ExitCode(exitCode)
}
