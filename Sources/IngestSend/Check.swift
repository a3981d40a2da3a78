// [probe] → socket

import ArgumentParser
import IngestClient

/// `ingest-send check`: whether a daemon answers, takes the key, has the same time and speaks the same version.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest-send check",
        abstract: "Ask ingestd whether it would take packets from here.",
        discussion: """
            Sends probes, which are no events and are not counted, and prints the answer as JSON on stdout: the \
            receiver's directory, the shortest round trip, by how much its clock is ahead of this one, the \
            versions of packets and the largest one that it takes.

            Exit codes: 0 it would take packets · 1 its clock is more than 300 s from this one, so that events of \
            now would be refused, or it takes no packets of version 1 · 64 wrong usage · 69 no answer: nobody \
            receives there, or the key is not taken (which of the two is never said) · 74 other I/O error · 78 \
            keys file wrong.
            """, version: IngestSend.configuration.version)

    @Option(
        help: ArgumentHelp("Where ingestd receives; [HOST]:PORT for IPv6.", valueName: "host:port"))
    var to: String

    @Option(
        help: ArgumentHelp(
            "The sender's own id, where its key is for one. (default: the key's, or random)",
            valueName: "n"))
    var senderID: UInt64?

    @Option(help: ArgumentHelp("Tag probes by this key of --key-file, 1 … 65535.", valueName: "n"))
    var keyID: UInt16?

    @Option(help: ArgumentHelp("A keys file, mode 0400 or 0600.", valueName: "file"))
    var keyFile: String?

    /// The daemon's default for events that are ahead; what is behind has a week.
    private static let clockLeadSecondsMax: Double = 300
    /// From there on a word is said.
    private static let clockLeadSecondsToTell: Double = 1

    func validate() throws {
        if senderID == 0 {
            throw ValidationError("--sender-id 0 stands for plain datagrams, give 1 or more")
        }
        try validateKey(id: keyID, file: keyFile)
    }

    func run() throws {
        let probe: ReceiverProbe
        do throws(ClientError) {
            var key: EventSender.Key?
            if let keyID, let keyFile { key = try EventSender.Key(id: keyID, file: keyFile) }
            probe = try ReceiverProbe.ask(to, sender: senderID, key: key)
        } catch .noAnswer(let address, let seconds) {
            throw fail(
                "no answer from \(address) for \(seconds) s, check that ingestd runs there, that UDP passes, and "
                    + (keyID == nil
                        ? "whether it has keys: then give --key-id and --key-file"
                        : "that its --keys has this key, for this sender"),
                exitCode: 69)
        } catch {
            throw fail(error.description, exitCode: error.exitCode)
        }
        let directory = String(probe.directoryID, radix: 16)
        let isWritten = printLine(
            "{\"directory\":\"\(String(repeating: "0", count: 16 - directory.count))\(directory)\""
                + ",\"roundTripMicroseconds\":\(probe.roundTripNanoseconds / 1_000)"
                + ",\"clockLeadMicroseconds\":\(probe.clockLeadMicroseconds)"
                + ",\"versions\":[\(probe.versions.lowerBound),\(probe.versions.upperBound)]"
                + ",\"packetBytesMax\":\(probe.packetByteCountMax)}")
        try judge(probe)
        if !isWritten { throw ExitCode(74) }
    }

    private func judge(_ probe: ReceiverProbe) throws {
        let lead = Double(probe.clockLeadMicroseconds) / 1e6
        if lead.magnitude > Self.clockLeadSecondsToTell {
            let milliseconds = (lead.magnitude * 1_000).rounded() / 1_000
            printToStandardError(
                "ingest-send: the receiver's clock is \(milliseconds) s \(lead > 0 ? "ahead of" : "behind") this "
                    + "one, check clock synchronisation on both machines")
        }
        guard probe.versions.contains(1) else {
            throw fail(
                "the receiver takes packets of versions \(probe.versions.lowerBound) to "
                    + "\(probe.versions.upperBound) only, this sender has version 1, use one of its release",
                exitCode: 1)
        }
        if lead.magnitude > Self.clockLeadSecondsMax { throw ExitCode(1) }
    }
}

/// The rules of --key-id and --key-file.
func validateKey(id: UInt16?, file: String?) throws {
    if (id == nil) != (file == nil) {
        throw ValidationError("--key-id and --key-file go together")
    }
    if id == 0 { throw ValidationError("--key-id is from 1 to 65535, got 0") }
}
