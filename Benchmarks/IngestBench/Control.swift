import ArgumentParser
import CIngestLinux
import Dispatch
import Foundation
import Glibc
import IngestClient
import IngestFormat
import Synchronization

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

    func validate() throws {
        guard !mix.acks else { throw ValidationError("--acks is for a daemon, nothing acks here") }
        guard rate >= 0, rate.isFinite, events > 0 else {
            throw ValidationError("--rate is 0 or more, --events 1 or more")
        }
    }

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

/// A UDP receiver that counts datagrams and drops them: with the daemon's own socket options and its own
/// call, but nothing behind it.
final class NullReceiver: Sendable {
    struct Figures {
        var datagramCount: UInt64 = 0
        /// Runs that the kernel had coalesced.
        var bufferCount: UInt64 = 0
        var cpuNanoseconds: UInt64 = 0
    }

    private static let bufferCount: UInt32 = 32
    private static let bufferByteCount = 1 << 16

    /// HOST:PORT as bound.
    let address: String
    /// The receive buffer that the kernel granted.
    let bufferByteCount: Int64
    private let socket: Int32
    private let isStopped = Atomic(false)
    private let figures = Mutex(Figures())
    private let queue = DispatchQueue(label: "ingest-bench.receiver")

    init() throws {
        var any = ingest_address()
        var bound = ingest_address()
        // SAFETY: each call reads or writes one address of ours.
        unsafe ingest_address_resolve("127.0.0.1", 0, nil, false, &any)
        socket = unsafe ingest_udp_bind(&any, 20)
        guard socket >= 0 else { throw BenchFailure("bind: errno \(-socket)") }
        unsafe ingest_udp_address(socket, &bound)
        address = "127.0.0.1:\(unsafe ingest_address_port(&bound))"
        bufferByteCount = ingest_udp_receive_buffer(socket, 64 << 20)
        queue.async { [self] in receive() }
    }

    deinit { close(socket) }

    /// Stops once nothing has come for a while; what came.
    func stop() -> Figures {
        isStopped.store(true, ordering: .relaxed)
        queue.sync {}
        return figures.withLock { $0 }
    }

    private func receive() {
        let count = Int(Self.bufferCount)
        // SAFETY: every buffer is a part of `memory` of the size that the receiver is told; all three are
        // freed below, when nothing uses them any more.
        let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: count * Self.bufferByteCount)
        let datagrams = UnsafeMutablePointer<ingest_datagram>.allocate(capacity: count)
        for i in 0..<count {
            unsafe datagrams[i] = ingest_datagram()
            unsafe datagrams[i].bytes = memory + i * Self.bufferByteCount
        }
        let receiver = unsafe ingest_receiver_make(Self.bufferCount, UInt32(Self.bufferByteCount))
        defer {
            unsafe ingest_receiver_free(receiver)
            unsafe datagrams.deallocate()
            unsafe memory.deallocate()
        }
        var result = Figures()
        while true {
            let received = unsafe ingest_receive(receiver, socket, datagrams, true, nil)
            if received <= 0 {
                if isStopped.load(ordering: .relaxed) { break }
                continue
            }
            for i in 0..<Int(received) {
                let segment = unsafe max(1, datagrams[i].segment_byte_count)
                let bytes = unsafe datagrams[i].byte_count
                result.datagramCount += UInt64((bytes + segment - 1) / segment)
            }
            result.bufferCount += UInt64(received)
        }
        result.cpuNanoseconds = ThreadTime.nanoseconds
        figures.withLock { $0 = result }
    }
}

/// `ingest-bench congestion`: what congestion control costs where there is no congestion.
struct CongestionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "congestion",
        abstract:
            "A sender over loopback as fast as it goes, with and without congestion control, in turn.",
        discussion: """
            Without it everything leaves that the credit allows. For a disk that stalls, run it with \
            LD_PRELOAD=disk-stalls.so (Tests/Fixtures/shims): the daemon inherits it.
            """)

    @OptionGroup var daemon: DaemonOptions

    @OptionGroup var pairs: PairOptions

    @Option(help: ArgumentHelp("Seconds a run.", valueName: "n"))
    var seconds = 5.0

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading("events durable per second, packets sent again")
        let results = try pairs.run { number, hasControl in
            let figures = try measure(hasControl)
            Report.line("pair \(number), \(hasControl ? "with" : "without")", text(figures))
            return figures
        }
        let ratios = results.map { rate($0.first) / rate($0.other) }
        Report.line("ratios", ratios.map { fixed($0, 3) }.joined(separator: ", "))
        Report.line("median", fixed(median(ratios), 3), goal: "≥ 0.97")
    }

    private func measure(_ hasCongestionControl: Bool) throws -> PathLoad.Figures {
        let directory = try daemon.makeScratch()
        let process = try daemon.start(in: directory)
        var load = PathLoad(address: process.address, seconds: seconds)
        load.unackedByteCountMax = 64 << 20
        load.hasCongestionControl = hasCongestionControl
        let figures = try load.run()
        _ = try process.stop()
        let counted = try LogFigures(directory).events[.counted]
        guard counted == figures.totals.eventsSent else {
            throw BenchFailure("\(figures.totals.eventsSent) events sent, \(counted ?? 0) counted")
        }
        return figures
    }

    /// To the last ack: what waits at the end is not the same.
    private func rate(_ figures: PathLoad.Figures) -> Double {
        Double(figures.totals.eventsAcked) / max(1e-9, figures.totals.elapsed / .seconds(1))
    }

    private func text(_ figures: PathLoad.Figures) -> String {
        "\(grouped(Int(rate(figures))))/s, \(grouped(figures.totals.packetsResent))"
    }
}
