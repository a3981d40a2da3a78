// packet → decode → ring → [admit → block → segment → compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// A directory that is ready to be written to: locked, recovered, everything in it sealed and published,
/// its names in memory. Made before the socket is bound: nothing is received, counted or served earlier.
///
/// **Cost** The unsealed tail is read and written once; about 100 ns a name, 45 ns an id in the window.
package struct PipelineStart<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    package let directory: DataDirectory<Files>
    package let recovery: RecoveryReport
    /// Hashes names and event ids under the directory's key.
    package let hash: KeyedHash
    package let log: LogStart
    var dictionary: NameDictionary
    var attributions: KnownAttributions
    var repeats: RepeatRule
    var sessions: SessionRule
    /// `nil` where no session is looked at.
    let sessionKeys: SessionKeyFile<Files>?
    let reserve: DiskReserve<Files>
    /// What is amiss beside what directory and recovery say.
    package let warnings: [String]
    /// Whether the disk was so full that the reserve had to be spent.
    package let hasSpentReserve: Bool
    var mark: DurableMarkFile<Files>
    var publisher: SnapshotPublisher<Files, Clock>

    /// How much of the reserve was no room on the disk.
    package var missingReserveByteCount: UInt64 { reserve.missingByteCount }

    package var manifest: Manifest { publisher.manifest }

    /// Opens, recovers and loads a directory (docs/durability.md). On a full disk with the room of the reserve.
    ///
    /// - Parameters:
    ///   - policy: the counting rules.
    ///   - bound: how many campaigns and the like there may be.
    ///   - acceptsClock: whether a clock that is behind the log is right, and the log's was not. Else it is not believed: the
    ///     start has to wait for it (`LogStart.isAhead`).
    ///   - random: identity and hash key of a new directory come from it.
    /// **Errors** As `DataDirectory.checkIsOurs` and `open`, and `SegmentRecovery.run`. A crash anywhere leaves a directory
    /// for which all of this can be done again.
    package static func open(
        _ files: Files, clock: Clock, policy: CountingPolicy = CountingPolicy(),
        attributions bound: AttributionBound = AttributionBound(), acceptsClock: Bool = false,
        counters: PipelineCounters, random: inout some RandomNumberGenerator
    ) throws(PipelineError) -> PipelineStart {
        let fresh = makeManifest(at: clock.wallMicroseconds(), random: &random)
        let lock: Files.File
        do {
            try DataDirectory.checkIsOurs(files)
            lock = try files.lock(FileName.lock.text)
        } catch { throw .storage(error) }
        do throws(PipelineError) {
            return try open(
                files, holding: lock, fresh, clock, policy, bound, acceptsClock, counters,
                hasSpentReserve: false)
        } catch {
            guard error.shortage == .space else { throw error }
            let isHeld: Bool
            do { isHeld = try DiskReserve.isHeld(in: files) } catch { throw .storage(error) }
            guard isHeld else { throw error }
        }
        return try open(
            files, holding: lock, fresh, clock, policy, bound, acceptsClock, counters,
            hasSpentReserve: true)
    }

    private static func open(
        _ files: Files, holding lock: Files.File, _ fresh: Manifest, _ clock: Clock,
        _ policy: CountingPolicy, _ bound: AttributionBound, _ acceptsClock: Bool,
        _ counters: PipelineCounters, hasSpentReserve: Bool
    ) throws(PipelineError) -> PipelineStart {
        let wall = clock.wallMicroseconds()
        var directory = try openDirectory(
            files, holding: lock, fresh, maySpendReserve: hasSpentReserve)
        guard let hash = KeyedHash(key: directory.manifest.hashKey),
            directory.manifest.hashAlgorithm == KeyedHash.algorithm
        else { throw .inconsistent("hash algorithm \(directory.manifest.hashAlgorithm)") }
        var names = try loadNames(hash, &directory)
        let recovery: RecoveryReport
        let reserve: DiskReserve<Files>
        do {
            recovery = try SegmentRecovery.run(
                in: files, after: directory.manifest, keys: names.keys, now: wall,
                usesReserve: hasSpentReserve)
            // Not before: what was the reserve may have become a segment.
            reserve = try DiskReserve(in: files)
        } catch {
            throw .storage(error)
        }
        // No earlier than the log, though the clock may be: ids would be taken for older than they are, and be forgotten early.
        let last = recovery.lastAdmissionTime
        let now = acceptsClock && LogStart.isAhead(last, of: wall) ? wall : max(wall, last)
        var publisher = SnapshotPublisher(
            store: directory.store, manifest: recovery.manifest, keys: names.keys, clock: clock,
            counters: counters)
        publisher.retire(directory.retired)
        try publisher.mergeCrowd()
        if recovery.isClean && !recovery.repaired.isEmpty { try publisher.publishFirst([]) }
        if !recovery.isClean {
            try publish(recovery, behind: directory.manifest.cut, at: now, &publisher, &names)
        }
        names.reserve(upTo: recovery.next)
        let manifest = publisher.whole
        let mark = try openMark(in: files, publisher.manifest)
        let attributions = try loadAttributions(bound, of: manifest, in: files)
        let ids = try LoadedIDs(policy, of: manifest, now: now, in: files)
        // No clock is believed that is behind the log: it would take all keys for ones of the future.
        let keys = SessionKeyFile.open(
            policy.sessions, in: files, directory: manifest.directory,
            now: max(now, recovery.lastAdmissionTime))
        let sessions = try loadSessions(
            policy.sessions, keys.file?.ring, of: manifest, now: now, in: files)
        let warnings = [ids.warning, keys.warning].compactMap { $0 }
        let repeats = ids.finish()
        publisher.noteForgottenIDs(repeats.completeSinceMicroseconds)
        return PipelineStart(
            directory: directory, recovery: recovery, hash: hash,
            log: makeLog(manifest, recovery, policy, now: now),
            dictionary: names.takeDictionary(), attributions: attributions, repeats: repeats,
            sessions: sessions, sessionKeys: keys.file, reserve: reserve,
            warnings: warnings,
            hasSpentReserve: hasSpentReserve, mark: mark, publisher: publisher)
    }

    /// Publishes what was recovered behind the cut of the manifest.
    private static func publish(
        _ recovery: RecoveryReport, behind cut: LogPosition, at now: Int64,
        _ publisher: inout SnapshotPublisher<Files, Clock>, _ names: inout LoadedNames
    ) throws(PipelineError) {
        let position = recovery.segments.last.map(\.file.footer.end)
        publisher.add(
            recovery.segments.flatMap(\.file.names),
            upTo: recovery.segments.last?.file.footer.keys.upperBound ?? 0)
        try publisher.publishFirst(
            recovery.segments.map(\.file),
            uncleanStop: UncleanStop(foundAt: now, position: position ?? cut))
        names.add(recovery.segments.flatMap(\.file.names))
    }

    /// The campaigns and sources that the tables list.
    private static func loadAttributions(
        _ bound: AttributionBound, of manifest: Manifest, in files: Files
    ) throws(PipelineError) -> KnownAttributions {
        do { return try KnownAttributions(of: manifest, in: files, bound) } catch {
            throw .storage(error)
        }
    }

    /// The rule on sessions, with what the rows of the log say.
    private static func loadSessions(
        _ policy: SessionPolicy, _ ring: SessionKeyRing?, of manifest: Manifest, now: Int64,
        in files: Files
    ) throws(PipelineError) -> SessionRule {
        var rule = SessionRule(policy, ring)
        do {
            try LoggedSessions.load(into: &rule, policy, of: manifest, now: now, in: files)
        } catch {
            throw .storage(error)
        }
        return rule
    }

    /// The names of the runs; of those made again, where a page of one cannot be read.
    private static func loadNames(
        _ hash: KeyedHash, _ directory: inout DataDirectory<Files>
    ) throws(PipelineError) -> LoadedNames {
        do throws(PipelineError) { return try LoadedNames(hash: hash, of: directory) } catch {
            guard case .storage(let wrong) = error, wrong.damagedFile != nil else { throw error }
            do { directory = try directory.remakingNames(after: wrong) } catch {
                throw .storage(error)
            }
        }
        return try LoadedNames(hash: hash, of: directory)
    }

    private static func makeLog(
        _ manifest: Manifest, _ recovery: RecoveryReport, _ policy: CountingPolicy, now: Int64
    ) -> LogStart {
        var log = LogStart(
            directory: manifest.directory, shard: manifest.shard.shard,
            lastSegment: recovery.lastSegment, commitEpoch: recovery.next.commitEpoch,
            previousChecksum: recovery.next.previousChecksum,
            windows: recovery.windows, lastAdmissionTime: recovery.lastAdmissionTime)
        log.origin = manifest.origin
        log.policy = policy
        log.beganAt = now
        // As long as nothing is sealed behind it, the manifest alone has it.
        log.uncleanStopAt =
            manifest.uncleanStops.last { $0.position == manifest.cut }?.foundAt ?? 0
        log.firstName = NameOrdinal(rawValue: recovery.next.nextName)
        log.firstKey = KeyOrdinal(rawValue: recovery.next.nextKey)
        return log
    }

    /// As `DataDirectory.open`. Tables that have to be made again on a full disk take the room of the reserve.
    private static func openDirectory(
        _ files: Files, holding lock: Files.File, _ fresh: Manifest, maySpendReserve: Bool
    ) throws(PipelineError) -> DataDirectory<Files> {
        do throws(StorageError) {
            do throws(StorageError) {
                return try DataDirectory.open(files, holding: lock) { fresh }
            } catch {
                guard error.shortage == .space, maySpendReserve,
                    try DiskReserve.spend(in: files)
                else { throw error }
            }
            return try DataDirectory.open(files, holding: lock) { fresh }
        } catch { throw .storage(error) }
    }

    private static func openMark(
        in files: Files, _ manifest: Manifest
    ) throws(PipelineError) -> DurableMarkFile<Files> {
        do {
            return try DurableMarkFile(
                in: files, directory: manifest.directory, startingAt: manifest.cut)
        } catch {
            throw .storage(error)
        }
    }

    private static func makeManifest(
        at now: Int64, random: inout some RandomNumberGenerator
    ) -> Manifest {
        let key = (0..<KeyedHash.keyByteCount).map { _ in UInt8.random(in: 0...255, using: &random)
        }
        return Manifest(
            directory: DirectoryID(rawValue: random.next()), createdAt: now,
            hashAlgorithm: KeyedHash.algorithm, hashKey: key)
    }
}
