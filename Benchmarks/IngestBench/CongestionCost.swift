import ArgumentParser
import Foundation
import IngestClient
import IngestFormat

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

    @Option(help: ArgumentHelp("Pairs of runs.", valueName: "n"))
    var pairs = 5

    @Option(help: ArgumentHelp("Seconds a run.", valueName: "n"))
    var seconds = 5.0

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading("events durable per second, packets sent again")
        var ratios: [Double] = []
        for pair in 0..<pairs {
            // The first of a pair has the warmer or the colder machine: they take turns.
            let isFirst = pair % 2 == 0
            let one = try measure(isFirst)
            let other = try measure(!isFirst)
            let (with, without) = isFirst ? (one, other) : (other, one)
            ratios.append(rate(with) / rate(without))
            Report.line(
                "pair \(pair + 1)",
                "with \(text(with)), without \(text(without)): \(fixed(ratios[pair], 3))")
        }
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
