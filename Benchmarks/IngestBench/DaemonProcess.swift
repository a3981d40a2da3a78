import Dispatch
import Foundation
import IngestClient
import IngestStorage
import Synchronization

/// What must not outlive this program if a signal ends it: its daemons, and what it made for one run.
enum RunRemains {
    private struct State {
        var processes: Set<Int32> = []
        var paths: Set<String> = []
    }

    private static let state = Mutex(State())

    static func add(process: Int32) { state.withLock { _ = $0.processes.insert(process) } }
    static func remove(process: Int32) { state.withLock { _ = $0.processes.remove(process) } }
    static func add(paths: [String]) { state.withLock { $0.paths.formUnion(paths) } }

    static func remove(paths: [String]) {
        state.withLock { $0.paths.subtract(paths) }
        for path in paths { try? FileManager.default.removeItem(atPath: path) }
    }

    /// From now on SIGINT, SIGTERM and SIGHUP end the program once all of that is gone. To be called before
    /// there are other threads: the signals are blocked in all of them, as a Dispatch source needs it.
    /// - Returns: what has to be kept for as long.
    static func removeOnSignals() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM, SIGHUP].map { number in
            var mask = sigset_t()
            unsafe sigemptyset(&mask)
            unsafe sigaddset(&mask, number)
            unsafe pthread_sigmask(SIG_BLOCK, &mask, nil)
            let blocked = mask
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler {
                state.withLock { state in
                    for process in state.processes { kill(process, SIGKILL) }
                    for path in state.paths { try? FileManager.default.removeItem(atPath: path) }
                }
                var signals = blocked
                unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
                raise(number)
                // Who started it may have it ignore the signal.
                _exit(128 + number)
            }
            source.activate()
            return source
        }
    }
}

/// One `ingestd` process on a directory, as an operator would start it: from its executable, watched from
/// outside. Killed when it goes out of use without having been stopped.
final class DaemonProcess {
    struct Options {
        var executable: String
        var directory: String
        /// Further options of `ingestd`, as on its command line.
        var arguments: [String] = []
    }

    let processID: Int32
    /// HOST:PORT as bound.
    let address: String
    /// From the start of the process to its ready line.
    let readySeconds: Double
    /// Where its log lines went; shown when something fails.
    let logPath: String
    private let process: Process

    /// Starts the daemon and waits for its ready line.
    init(_ options: Options) throws {
        process = Process()
        process.executableURL = URL(fileURLWithPath: options.executable)
        process.arguments =
            ["--data", options.directory, "--udp", "127.0.0.1:0", "--http", "off"]
            + options.arguments
        logPath = options.directory + ".log"
        guard FileManager.default.createFile(atPath: logPath, contents: nil) else {
            throw BenchFailure("\(logPath) cannot be made")
        }
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: logPath))
        _ = try log.seekToEnd()
        process.standardError = log
        let output = Pipe()
        process.standardOutput = output
        let startedAt = SenderClock.monotonicNanoseconds()
        do { try process.run() } catch {
            throw BenchFailure(
                "\(process.executableURL?.path ?? "ingestd") cannot be run: give its path by --daemon"
            )
        }
        processID = process.processIdentifier
        RunRemains.add(process: processID)
        let line = Self.firstLine(of: output.fileHandleForReading)
        readySeconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        guard let ready = try? JSONDecoder().decode(Ready.self, from: line), ready.ready else {
            process.terminate()
            throw BenchFailure(
                "\(options.executable) did not get ready: \(Self.tail(of: logPath))")
        }
        address = ready.udp
    }

    deinit {
        if process.isRunning { kill(processID, SIGKILL) }
        RunRemains.remove(process: processID)
    }

    private struct Ready: Decodable {
        let ready: Bool
        let udp: String
    }

    /// SIGTERM, and the seconds until it was gone.
    func stop() throws -> Double {
        let startedAt = SenderClock.monotonicNanoseconds()
        process.terminate()
        process.waitUntilExit()
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            throw BenchFailure(
                "ingestd stopped with status \(process.terminationStatus): "
                    + Self.tail(of: logPath))
        }
        return Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
    }

    /// SIGKILL, as a crash of the process; returns when it is gone.
    func crash() {
        kill(processID, SIGKILL)
        process.waitUntilExit()
    }

    /// Everything up to the first newline; what there is if the process ends before.
    private static func firstLine(of pipe: FileHandle) -> Data {
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let more = pipe.availableData
            if more.isEmpty { break }
            line.append(more)
        }
        return line
    }

    /// What the daemon's log says of its receive buffer: asked for and effective.
    var receiveBuffer: String {
        let log = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        let mark = "receive buffer "
        let line = log.split(separator: "\n").first { $0.contains(mark) }
        guard let line, let start = line.range(of: mark)?.upperBound else {
            return "not in the daemon's log"
        }
        return String(line[start...])
    }

    /// The numbers of one of the daemon's last lines, which is `title: name number, name number …`.
    func lastNumbers(of title: String) -> [(name: String, value: UInt64)] {
        let log = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        let mark = "\(title): "
        guard let line = log.split(separator: "\n").last(where: { $0.contains(mark) }),
            let start = line.range(of: mark)?.upperBound
        else { return [] }
        return line[start...].components(separatedBy: ", ").compactMap { part in
            guard let blank = part.lastIndex(of: " "),
                let value = UInt64(part[part.index(after: blank)...])
            else { return nil }
            return (String(part[..<blank]), value)
        }
    }

    private static func tail(of path: String) -> String {
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(3).joined(separator: " / ")
    }
}

/// A data directory that a real daemon wrote from a load of known size: made for one run and removed with it,
/// or kept under a name and used again.
struct BenchDirectory {
    /// What is in it, so that one that was made of something else is not taken for it.
    struct Content: Equatable {
        var mix: EventMix.Options
        var eventCount: UInt64

        /// As it stands beside the directory, in `PATH.load`.
        var text: String {
            "\(eventCount) events of \(mix.rewardCount) rewards (\(mix.popularity), \(mix.names)) and "
                + "\(mix.businessCount) businesses over \(mix.dayCount) days, seed \(mix.seed)\n"
        }
    }

    let path: String
    /// Removes the directory when the last user lets go of it; `nil` if it is kept.
    private let scratch: ScratchDirectory?

    /// A directory of this run alone.
    static func make(_ load: DirectoryLoad) throws -> BenchDirectory {
        let scratch = try load.daemon.makeScratch()
        try load.fill(scratch)
        return BenchDirectory(path: scratch.path, scratch: scratch)
    }

    /// The directory at `path`: made if it is not there.
    static func kept(at path: String, _ load: DirectoryLoad) throws -> BenchDirectory {
        let label = path + ".load"
        if FileManager.default.fileExists(atPath: label) {
            let found = try String(contentsOfFile: label, encoding: .utf8)
            guard found == load.content.text else {
                throw BenchFailure(
                    "\(path) holds \(found.trimmingCharacters(in: .newlines)), not "
                        + load.content.text.trimmingCharacters(in: .newlines)
                        + ": remove it and \(label), or name another")
            }
        } else {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
            guard names.isEmpty else {
                throw BenchFailure(
                    "\(path) is there and was not made by ingest-bench, which adds its events: name a new one"
                )
            }
            try load.fill(ScratchDirectory(at: path))
            try load.content.text.write(toFile: label, atomically: true, encoding: .utf8)
        }
        return BenchDirectory(path: path, scratch: nil)
    }
}

/// How a directory is made: a daemon, a load, and what the daemon spent on it.
struct DirectoryLoad {
    let daemon: DaemonOptions
    let mix: MixOptions
    let eventCount: UInt64
    let eventsPerSecond: Double

    var content: BenchDirectory.Content {
        BenchDirectory.Content(mix: mix.options, eventCount: eventCount)
    }

    /// Sends the load to a daemon on `directory`, stops that, and prints what it took.
    func fill(_ directory: ScratchDirectory) throws {
        let process = try daemon.start(in: directory)
        let before = try ProcessFigures(processID: process.processID)
        var pool = mix.makePool()
        let sent = try LoadSender(to: process.address)
            .send(&pool, eventCount: eventCount, eventsPerSecond: eventsPerSecond)
        _ = DurableWatch(directory).waitUntilStill()
        let after = try ProcessFigures(processID: process.processID)
        let stopSeconds = try process.stop()
        Report.heading("the directory")
        Report.line("load", content.text.trimmingCharacters(in: .newlines))
        let log = try LogFigures(directory)
        let events = Double(max(1, log.rowCount))
        Report.line(
            "sent, durable, lost",
            "\(grouped(sent.eventCount)) at \(grouped(Int(sent.eventsPerSecond)))/s, "
                + "\(grouped(log.rowCount)), "
                + "\(grouped(sent.eventCount - min(sent.eventCount, log.rowCount))) events")
        let compact =
            after.nanoseconds(ofThread: "compact") - before.nanoseconds(ofThread: "compact")
        Report.line(
            "compact queue", fixed(Double(compact) / events, 1) + " ns/event of CPU",
            goal: "≤ 10 at 1,000,000 rewards and 2,000,000 events/s")
        Report.line(
            "daemon memory", "\(mebibytes(after.residentByteCountMax)) at most",
            goal: "≤ 1.2 GB with 10,000,000 keys")
        Report.line(
            "written",
            fixed(Double(after.writtenByteCount - before.writtenByteCount) / events, 1)
                + " bytes/event")
        Report.line("stopped in", fixed(stopSeconds, 2) + " s")
    }
}
