import ArgumentParser
import IngestClient

/// `ingest-bench control`: the same sender against a receiver that throws everything away, so that the
/// daemon's figures can be told from the sender's and the kernel's.
struct ControlCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "control",
        abstract: "The load against a null receiver: what sender and kernel can do by themselves.")

    @OptionGroup var mix: MixOptions

    @Option(
        help: ArgumentHelp("Offered events per second; 0 = as fast as it goes.", valueName: "n"))
    var rate = 0.0

    @Option(help: ArgumentHelp("Events to send.", valueName: "n"))
    var events: UInt64 = 50_000_000

    func run() throws {
        Report.machine(directory: "/tmp")
        let receiver = try NullReceiver()
        var pool = mix.makePool()
        let sent = try LoadSender(to: receiver.address)
            .send(&pool, eventCount: events, eventsPerSecond: rate)
        let received = receiver.stop()
        let packets = Double(max(1, received.datagramCount))
        Report.heading("control")
        Report.line(
            "sent",
            "\(grouped(sent.eventCount)) events, \(grouped(Int(sent.eventsPerSecond)))/s, "
                + "at most \(fixed(Double(sent.lagNanosecondsMax) / 1e6, 2)) ms late")
        Report.line(
            "received",
            "\(grouped(received.datagramCount)) of \(grouped(sent.packetCount + 1)) datagrams in "
                + "\(grouped(received.bufferCount)) buffers")
        Report.line(
            "receiver CPU", "\(fixed(Double(received.cpuNanoseconds) / packets, 0)) ns/datagram")
        Report.line(
            "sender CPU",
            "\(fixed(Double(sent.cpuNanoseconds - min(sent.cpuNanoseconds, received.cpuNanoseconds)) / Double(sent.packetCount), 0)) ns/datagram"
        )
        Report.line("receive buffer", "\(grouped(receiver.bufferByteCount)) bytes")
    }
}
