import ArgumentParser
import IngestClient

/// `ingest-bench recovery`: kills the daemon in the middle of a load and times the next start.
struct RecoveryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery",
        abstract: "kill -9 in the middle of a load, then the time until the next start is ready.",
        discussion: """
            kill -9 ends the process, not the machine: what the kernel holds is still written. Power \
            loss is what the simulated disk of the tests is for.
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second before the kill.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Seconds of load before the kill, at most.", valueName: "n"))
    var seconds = 5.0

    @Option(help: ArgumentHelp("Kills, one after the other on the same directory.", valueName: "n"))
    var runs = 5

    func validate() throws {
        guard rate > 0, seconds >= 0.2, runs > 0 else {
            throw ValidationError("--rate and --runs are above 0, --seconds is at least 0.2")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading("killed after s, rows before, rows after, log MiB, ready in s")
        let directory = try daemon.makeScratch()
        var random = SeededRandom(seed: mix.seed)
        var process = try daemon.start(in: directory)
        for _ in 0..<runs {
            let load = try BackgroundLoad(mix, to: process.address)
            load.start(eventsPerSecond: rate, seconds: seconds + 60)
            let killAfter = 0.1 + random.unit() * (seconds - 0.1)
            let now = SenderClock.monotonicNanoseconds()
            SenderClock.sleep(untilMonotonicNanoseconds: now + UInt64(killAfter * 1e9))
            process.crash()
            _ = load.wait()
            // Of the dead directory: what a reader can show without any daemon.
            let before = try durableRowCount(directory)
            let logByteCount = try directory.byteCounts()["segment"] ?? 0
            process = try daemon.start(in: directory)
            let columns = [
                fixed(killAfter, 2), grouped(before), grouped(try durableRowCount(directory)),
                fixed(Double(logByteCount) / Double(1 << 20), 1),
                fixed(process.readySeconds, 3),
            ]
            print("  " + columns.joined(separator: ", "))
        }
        _ = try process.stop()
        let verify = try ProgramRun(
            DaemonOptions.besideThis("ingest-reader"), ["verify", "--data", directory.path])
        Report.line(
            "verify at the end", "exit \(verify.exitCode) in \(fixed(verify.seconds, 2)) s")
    }
}

/// `ingest-bench start`: how long a start takes on a directory that is there.
struct StartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract:
            "The time until a daemon is ready on a directory, as `throughput --keep` leaves one.",
        discussion: """
            Names, windows and the ids that are known come from the log. The first start may read from \
            the disk, the others from the page cache; the last one finds a daemon that was killed.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Argument(help: "The data directory. Daemons run on it: it is not the same afterwards.")
    var directory: String

    @Option(help: ArgumentHelp("Starts, one after the other.", valueName: "n"))
    var runs = 3

    func run() throws {
        Report.machine(directory: directory)
        let kept = try ScratchDirectory(at: directory)
        let segmentByteCount = try kept.byteCounts()["segment"] ?? 0
        Report.heading("start")
        Report.line("sealed log", mebibytes(segmentByteCount))
        for number in 1...max(1, runs) {
            let process = try daemon.start(in: kept)
            let figures = try ProcessFigures(processID: process.processID)
            Report.line(
                "run \(number)",
                "ready in \(fixed(process.readySeconds, 3)) s, CPU "
                    + "\(fixed(Double(figures.userNanoseconds + figures.systemNanoseconds) / 1e9, 2)) s, "
                    + "\(mebibytes(figures.residentByteCountMax))")
            if number == runs - 1 { process.crash() } else { _ = try process.stop() }
        }
    }
}
