import Dispatch
import Glibc
import IngestFormat
import IngestKeys
import IngestPipeline
import IngestStorage
import Logging

/// Assembles the daemon and keeps it until it is told to stop.
struct Daemon {
    private let settings: DaemonSettings
    private let logger: Logger
    /// Of one kind at one time: a directory may have any number of files, and so have environments.
    private static let warningCountMax = 50

    init(_ settings: DaemonSettings, unknownVariables: [String]) {
        self.settings = settings
        logger = Logger(label: "ingestd") { LineLogHandler(label: $0) }
        warn(unknownVariables.map { "\($0) is set and is no option, see 'ingestd --help'" })
    }

    /// Opens the directory, binds, says that it is ready, and returns once it was told to stop and
    /// everything that was received is durable, sealed and published.
    func runUntilStopped() throws(Fault) {
        let counters = PipelineCounters()
        // Bound twice: an address that cannot be had is found before a directory is made for it, and while
        // the log is recovered senders are answered that nobody receives.
        do { _ = try bind() }
        let keys = try readKeys()
        let start = try openDirectory(counters)
        let stopRequest = DispatchSemaphore(value: 0)
        let signals = StopSignals { _ in stopRequest.signal() }
        guard waitForClock(after: start.log, stopRequest) else { return }
        let socket = try bind()
        let address = socket.address
        logger.info(
            "receiving on udp \(address), receive buffer \(socket.receiveBufferByteCount) bytes")
        let pipeline = try startPipeline(start, socket, keys, counters)
        let reload = ReloadSignal { reloadKeys(of: pipeline) }
        ReadyLine(udp: "\(address)", http: nil, processID: getpid()).print()
        stopRequest.wait()
        logger.info("stopping: no more is received, what was is made durable")
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
                files, clock: LinuxClock(), repeats: settings.repeatPolicy, counters: counters,
                random: &random)
            log(start.directory, start.recovery)
            if start.hasSpentReserve {
                logger.warning(
                    "the disk is full: the start used the reserve, \(settings.dataDirectory), free space"
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
    private func waitForClock(after log: LogStart, _ stopRequest: DispatchSemaphore) -> Bool {
        let wait = ClockWait(log, clock: LinuxClock(), isAccepted: settings.acceptsClock)
        let isOver = wait.run(
            say: { logger.warning("\($0)") },
            isStopped: { stopRequest.wait(timeout: .now() + .seconds(1)) == .success })
        if !isOver { logger.info("stopped: nothing was received") }
        return isOver
    }

    private func readKeys() throws(Fault) -> KeysFile? {
        guard let path = settings.keysPath else { return nil }
        do { return try KeysFile(path: path) } catch {
            throw Fault(.configuration, "\(error)")
        }
    }

    /// Takes the keys file as it is now; one that is not in order changes nothing.
    private func reloadKeys(of pipeline: Pipeline) {
        guard let path = settings.keysPath else { return }
        do {
            let keys = try KeysFile(path: path)
            pipeline.replaceKeys(by: keys)
            logger.info("the keys file was read again: \(keys.keys.count) keys")
        } catch {
            logger.error("\(error); the keys from before hold on")
        }
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
        _ socket: consuming LinuxDatagramSocket, _ keys: KeysFile?, _ counters: PipelineCounters
    ) throws(Fault) -> Pipeline {
        do {
            return try Pipeline(
                start, socket: socket, keys: keys, configuration: settings.pipelineConfiguration,
                counters: counters,
                logger: logger, onFailure: { Fault($0).exit() })
        } catch {
            throw Fault(error)
        }
    }

    // MARK: Log

    private func log(
        _ directory: DataDirectory<LinuxFileSystem>, _ recovery: RecoveryReport
    ) {
        if directory.isNew { logger.info("new data directory \(settings.dataDirectory)") }
        warn(directory.warnings)
        warn(recovery.messages)
        logger.info(
            """
            the log stands at segment \(recovery.lastSegment.rawValue), \
            \(directory.manifest.sealed.count) segments were sealed before, behind \
            \(directory.manifest.lastExpired.rawValue) that have expired
            """)
    }

    private func warn(_ lines: [String]) {
        for line in lines.prefix(Self.warningCountMax) { logger.warning("\(line)") }
        if lines.count > Self.warningCountMax {
            logger.warning("and \(lines.count - Self.warningCountMax) more such lines")
        }
    }

    private func logSummary(_ counters: PipelineCounters) {
        logger.info(
            """
            stopped: \(counters.receive[.datagrams]) datagrams received, \
            \(counters.sync[.durableRows]) rows durable in \(counters.sync[.commits]) commits, \
            \(counters.compact[.segmentsSealed]) segments sealed, \
            \(counters.compact[.segmentsExpired]) expired
            """)
        for line in CompactionSummary(counters).lines { logger.info("\(line)") }
        let steps = counters.commit[.clockSteps]
        if steps > 0 {
            logger.warning(
                "the wall clock stepped \(steps) times in this run and was not followed: see that it is right"
            )
        }
        let refused = RefusalSummary(counters)
        if !refused.text.isEmpty { logger.warning("refused in this run: \(refused.text)") }
    }
}

extension Fault {
    init(_ error: PipelineError) {
        self.init(ExitReason(rawValue: error.exitCode) ?? .inputOutput, "\(error)")
    }
}
