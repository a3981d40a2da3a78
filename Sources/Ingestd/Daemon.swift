import Dispatch
import Foundation
import Glibc
import IngestFormat
import IngestKeys
import IngestPipeline
import IngestStorage
import Logging
import Synchronization

/// Assembles the daemon and keeps it until it is told to stop.
struct Daemon {
    private let settings: DaemonSettings
    private let log: LogLines
    /// Of one kind at one time: a directory may have any number of files, and so have environments.
    private static let warningCountMax = 50

    init(_ settings: DaemonSettings, unknownVariables: [String]) {
        self.settings = settings
        log = LogLines(Logger(label: "ingestd") { LineLogHandler(label: $0) })
        warn(
            unknownVariables.map {
                "environment variable \($0) is not an option and is ignored, see 'ingestd --help'"
            })
    }

    /// Opens the directory, binds, says that it is ready, and returns once it was told to stop and
    /// everything that was received is durable, sealed and published.
    func runUntilStopped() throws(Fault) {
        defer { log.flush() }
        let counters = PipelineCounters()
        let stopRequest = WaitSemaphore()
        let phase = StartPhase()
        let signals = ProcessSignals(onStop: { [log] in
            guard phase.end() else { return stopRequest.signal() }
            log.inform("stopping during the start, which is done again by the next one")
            log.flush()
            _exit(0)
        })
        // Bound twice: an address that cannot be had is found before a directory is made for it, and while
        // the log is recovered senders get "port unreachable".
        do { _ = try bind() }
        let keys = try settings.readKeys()
        let (zones, owners) = (try ZoneSettings.read(settings), try settings.readOwners())
        let start = try openDirectory(counters)
        guard phase.end() else { return }
        guard waitForClock(after: start.log, stopRequest) else { return }
        let socket = try bind()
        let address = socket.address
        log.inform(
            "receiving on udp \(address), receive buffer \(socket.receiveBufferByteCount) bytes")
        let configuration = settings.pipelineConfiguration(zones, owners)
        let pipeline = try startPipeline(start, socket, keys, configuration, counters)
        say(zones, "in force")
        let reload = ProcessSignals(onReload: {
            reloadKeys(of: pipeline)
            reloadZones(of: pipeline)
            reloadOwners(of: pipeline)
        })
        let ready = ReadyLine(udp: "\(address)", http: nil, processID: getpid())
        if !printLine(ready.text, to: STDOUT_FILENO) {
            log.error(
                "the ready line cannot be written, standard output, check where it goes: \(ready.text)"
            )
        }
        stopRequest.wait()
        log.inform("stopping: draining, then sealing the segment")
        pipeline.stop()
        withExtendedLifetime((signals, reload)) {}
        logSummary(counters)
    }

    // MARK: Start

    private func openDirectory(
        _ counters: PipelineCounters
    ) throws(Fault) -> PipelineStart<LinuxFileSystem, LinuxClock> {
        do {
            let files = try LinuxFileSystem(path: settings.dataDirectory, create: true)
            var random = SystemRandomNumberGenerator()
            let start = try PipelineStart.open(
                files, clock: LinuxClock(), policy: settings.policy,
                attributions: settings.attributionBound, acceptsClock: settings.acceptsClock,
                counters: counters, random: &random)
            say(start.directory, start.recovery)
            warn(start.warnings)
            if start.missingReserveByteCount > 0 {
                log.warn(
                    "\(start.missingReserveByteCount) bytes of the reserve were not allocated (a sparse copy, or a file system that cannot), \(settings.dataDirectory)/reserve, they are allocated again"
                )
            }
            if start.hasSpentReserve {
                log.warn(
                    "disk full: recovery used the reserve file, \(settings.dataDirectory), free disk space"
                )
            }
            return start
        } catch let error as StorageError {
            throw Fault(PipelineError.storage(error))
        } catch let error as PipelineError {
            throw Fault(error)
        } catch {
            throw Fault(.inputOutput, "\(error), \(settings.dataDirectory), look at the directory")
        }
    }

    /// Whether to go on: not if the daemon was told to stop before the clock had come by the log.
    private func waitForClock(after last: LogStart, _ stopRequest: WaitSemaphore) -> Bool {
        let wait = ClockWait(last, clock: LinuxClock(), isAccepted: settings.acceptsClock)
        let isOver = wait.run(
            say: { log.warn($0) },
            isStopped: { stopRequest.wait(nanosecondsMax: 1_000_000_000) })
        if !isOver { log.inform("stopped: nothing was received") }
        return isOver
    }

    /// Replaces the keys by those of the file as it is now; an invalid file changes nothing.
    private func reloadKeys(of pipeline: Pipeline) {
        do {
            guard let keys = try settings.readKeys() else { return }
            pipeline.replaceKeys(by: keys)
            log.inform("keys file reloaded: \(keys.keys.count) keys")
        } catch {
            log.error("\(error.message); keeping the previous keys")
        }
    }

    /// Replaces the zones by those of the zones file and of tzdata as they are now; if any is invalid, nothing changes.
    private func reloadZones(of pipeline: Pipeline) {
        do {
            let zones = try ZoneSettings.read(settings)
            pipeline.replaceZones(by: zones)
            say(zones, "reloaded")
        } catch {
            log.error("\(error.message); keeping the previous zones")
        }
    }

    /// Replaces the owners by those of the file as it is now; an invalid file changes nothing.
    private func reloadOwners(of pipeline: Pipeline) {
        do {
            if settings.ownersPath.isEmpty { return }
            let owners = try settings.readOwners()
            pipeline.replaceOwners(by: owners)
            log.inform("reward owners file reloaded: \(owners.count) rewards")
        } catch {
            log.error("\(error.message); keeping the previous owners")
        }
    }

    private func say(_ zones: BusinessZones, _ what: String) {
        if zones.version == 0 { return }
        log.inform(
            """
            time zones \(what): \(settings.zoneName), \(zones.places.count) businesses with zones of their own, \
            version \(String(zones.version, radix: 16))
            """)
    }

    private func bind() throws(Fault) -> LinuxDatagramSocket {
        do {
            return try LinuxDatagramSocket(
                binding: settings.udp, receiveBufferByteCount: settings.receiveBufferByteCount)
        } catch {
            throw Fault(PipelineError.socket(error))
        }
    }

    private func startPipeline(
        _ start: consuming PipelineStart<LinuxFileSystem, LinuxClock>,
        _ socket: consuming LinuxDatagramSocket, _ keys: KeysFile?,
        _ configuration: PipelineConfiguration, _ counters: PipelineCounters
    ) throws(Fault) -> Pipeline {
        do {
            return try Pipeline(
                start, socket: socket, keys: keys, configuration: configuration,
                counters: counters,
                log: log,
                onFailure: { [log] in
                    log.flush()
                    Fault($0).exit()
                })
        } catch {
            throw Fault(error)
        }
    }

    // MARK: Log

    private func say(
        _ directory: DataDirectory<LinuxFileSystem>, _ recovery: RecoveryReport
    ) {
        if directory.isNew { log.inform("new data directory \(settings.dataDirectory)") }
        warn(directory.warnings)
        warn(recovery.messages)
        log.inform(
            """
            log recovered: last segment \(recovery.lastSegment.rawValue), \
            \(directory.manifest.sealedCount) sealed segments, \
            \(directory.manifest.lastExpired.rawValue) expired
            """)
    }

    private func warn(_ lines: [String]) {
        for line in lines.prefix(Self.warningCountMax) { log.warn(line) }
        if lines.count > Self.warningCountMax {
            log.warn("\(lines.count - Self.warningCountMax) more such lines not shown")
        }
    }

    private func logSummary(_ counters: PipelineCounters) {
        log.inform(
            """
            stopped: \(counters.receive[.datagrams]) datagrams received, \
            \(counters.sync[.durableRows]) rows durable in \(counters.sync[.commits]) commits, \
            \(counters.compact[.segmentsSealed]) segments sealed, \
            \(counters.compact[.segmentsExpired]) expired
            """)
        for line in CompactionSummary(counters).lines { log.inform(line) }
        let steps = counters.commit[.clockSteps]
        if steps > 0 {
            log.warn(
                "the wall clock stepped \(steps) times during this run and was not followed: check time synchronisation"
            )
        }
        let refused = RefusalSummary(counters)
        if !refused.text.isEmpty { log.warn("refused in this run: \(refused.text)") }
    }
}

/// The one line that the daemon prints on standard output: scripts wait for it, and read the port from it.
struct ReadyLine {
    /// As bound: with the port that the kernel chose where 0 was asked for.
    let udp: String
    /// `nil` while there is no server.
    let http: String?
    let processID: Int32

    var text: String {
        let http = http.map { "\"\($0)\"" } ?? "null"
        return "{\"ready\":true,\"udp\":\"\(udp)\",\"http\":\(http),\"pid\":\(processID)}"
    }
}

/// A start whose clock is behind the log's last block: the clock is wrong now, or was wrong before. Blocks would be dated
/// before those in the log, so the daemon waits until the clock has caught up, or is started with `--accept-clock`.
struct ClockWait<Clock: IngestClock> {
    private let log: LogStart
    private let clock: Clock
    private let isAccepted: Bool

    init(_ log: LogStart, clock: Clock, isAccepted: Bool) {
        self.log = log
        self.clock = clock
        self.isAccepted = isAccepted
    }

    /// Returns once the clock has caught up, at once if it is not behind.
    ///
    /// - Parameters:
    ///   - say: writes a line to the log.
    ///   - isStopped: lets a second pass, or less if it has to end.
    /// - Returns: whether the start may go on.
    func run(say: (String) -> Void, isStopped: () -> Bool) -> Bool {
        let now = clock.wallMicroseconds()
        guard log.isAhead(of: now) else { return true }
        let found =
            "clock skew: the clock shows \(Self.text(now)), the log's last block has "
            + Self.text(log.lastAdmissionTime)
        if isAccepted {
            say("\(found): accepted by --accept-clock")
            return true
        }
        say("\(found): waiting, correct the clock, or if it is correct restart with --accept-clock")
        while log.lastAdmissionTime > clock.wallMicroseconds() {
            if isStopped() { return false }
        }
        say("the clock has caught up with the log's last block")
        return true
    }

    /// UTC, to the second.
    private static func text(_ microseconds: Int64) -> String {
        Date(timeIntervalSince1970: Double(microseconds) / 1e6).formatted(.iso8601)
    }
}

/// What a start does, as the recovery of the log: a stop breaks it off as `kill -9` would, and loses as little; once it has
/// ended, a stop drains.
private final class StartPhase: Sendable {
    private let hasEnded = Atomic(false)

    /// Whether it had not ended before: of a stop and the start itself one ends it.
    func end() -> Bool { !hasEnded.exchange(true, ordering: .acquiringAndReleasing) }
}

/// Signals of the process: SIGTERM and SIGINT stop the daemon (a second one ends the process at once), SIGHUP reloads
/// keys and zones. Owned by `Daemon`; each handler runs on a queue of its own, so that a stop that hangs can be cut short.
///
/// **Source** signalfd(2) by way of Dispatch sources: nothing runs in the signal handler itself.
final class ProcessSignals {
    private static let stops = [SIGTERM, SIGINT]
    private let sources: [any DispatchSourceSignal]

    /// What the process needs besides: the signals above are blocked until there is a handler.
    /// **Errors** Too few descriptors: what waits for signals needs some too, and would never hear of one; merges need most.
    static func prepare() throws(Fault) {
        let limit = ProcessStart.descriptorCountMax
        if limit < Limits.daemonDescriptorCountMin {
            throw Fault(
                .configuration,
                "the hard limit on open files is \(limit), raise it to \(Limits.daemonDescriptorCountMin) or "
                    + "more (LimitNOFILE= of systemd, ulimit -Hn as root)")
        }
        var set = sigset_t()
        // SAFETY: each call reads or writes the one set, which outlives it.
        unsafe sigemptyset(&set)
        for number in stops + [SIGHUP] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// - Parameter onStop: called once, on the signal queue.
    init(onStop: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "ingestd.signals")
        let count = SignalCount()
        sources = Self.stops.map { number in
            Self.source(number, queue) {
                count.value += 1
                if count.value > 1 { _exit(128 + number) }
                onStop()
            }
        }
    }

    init(onReload: @escaping @Sendable () -> Void) {
        sources = [Self.source(SIGHUP, DispatchQueue(label: "ingestd.reload"), onReload)]
    }

    deinit {
        for source in sources { source.cancel() }
    }

    private static func source(
        _ number: Int32, _ queue: DispatchQueue, _ handler: @escaping @Sendable () -> Void
    ) -> any DispatchSourceSignal {
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: handler)
        source.activate()
        return source
    }

    /// Touched only on the signal queue.
    private final class SignalCount: @unchecked Sendable {
        var value = 0
    }
}
