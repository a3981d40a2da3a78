import ArgumentParser

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
