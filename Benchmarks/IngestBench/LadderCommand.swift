import ArgumentParser

/// `ingest-bench ladder`: steps the offered rate until events are lost.
struct LadderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ladder",
        abstract: "Find the highest offered rate at which nothing is lost, by stepping.",
        discussion: """
            Goes up by --step from --from until a run loses events (or the sender cannot keep its \
            schedule), then halves the distance --refine times. Each run has a daemon of its own; a rate \
            stands if all of its --runs lost nothing.
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("The first rate, events per second.", valueName: "n"))
    var from = 1_000_000.0

    @Option(help: ArgumentHelp("The last rate to try.", valueName: "n"))
    var to = 8_000_000.0

    @Option(help: ArgumentHelp("How much faster each rung is.", valueName: "n"))
    var step = 500_000.0

    @Option(
        help: ArgumentHelp("Halvings between the last good and the first bad rate.", valueName: "n")
    )
    var refine = 2

    @Option(help: ArgumentHelp("Seconds of load a run.", valueName: "n"))
    var seconds = 10.0

    @Option(help: ArgumentHelp("Runs a rate.", valueName: "n"))
    var runs = 1

    func validate() throws {
        guard from > 0, to >= from, step > 0, seconds > 0, runs > 0, refine >= 0 else {
            throw ValidationError("--from, --to, --step, --seconds and --runs are above 0")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading(
            "offered/s, durable/s, lost, runs dropped by the kernel, late ms, CPU ns/event")
        var pool = mix.makePool()
        var good: Double?
        var bad: Double?
        var rate = from
        while bad == nil, rate <= to {
            if try holds(rate, &pool) { good = rate } else { bad = rate }
            rate += step
        }
        for _ in 0..<refine {
            guard let low = good, let high = bad else { break }
            let middle = (low + high) / 2
            if try holds(middle, &pool) { good = middle } else { bad = middle }
        }
        Report.heading("result")
        Report.line(
            "highest without loss", good.map { "\(grouped(Int($0))) events/s offered" } ?? "none")
        Report.line(
            "lowest with loss", bad.map { "\(grouped(Int($0))) events/s offered" } ?? "none")
    }

    /// Whether every run at this rate lost nothing and was offered as scheduled.
    private func holds(_ rate: Double, _ pool: inout PacketPool) throws -> Bool {
        for _ in 0..<runs {
            let result = try LoadRun(daemon: daemon).run(
                &pool, eventCount: UInt64(rate * seconds), eventsPerSecond: rate)
            let cpu = result.cpu.userNanoseconds + result.cpu.systemNanoseconds
            let columns = [
                grouped(Int(rate)), grouped(Int(result.durableEventsPerSecond)),
                "\(result.lostEventCount)", "\(result.kernelDropCount)",
                fixed(Double(result.sent.lagNanosecondsMax) / 1e6, 1),
                fixed(Double(cpu) / Double(max(1, result.log.rowCount)), 1),
            ]
            print("  " + columns.joined(separator: ", "))
            // A sender that ends more than a tenth late has not offered this rate.
            let isOffered = result.sent.eventsPerSecond > 0.9 * rate
            if !isOffered { print("  the sender could not offer \(grouped(Int(rate)))/s") }
            if result.lostEventCount != 0 || !isOffered { return false }
        }
        return true
    }
}
