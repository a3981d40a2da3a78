import Glibc
import IngestStorage
import Synchronization

/// The state behind all `SimulatedFileSystem` values of one simulated machine, and the switches for its
/// faults. Any thread may call; calls take effect one after another, so a single-threaded run is
/// the same for the same seed.
package final class SimulatedDisk: Sendable {
    /// What a call is, for faults and counts.
    package enum Kind: String, Sendable, CaseIterable {
        case create, write, syncData, sync, allocate, truncate, rename, move, link, unlink
        case syncDirectory, makeDirectory
        case open, read, names, byteCount, space

        /// Whether a crash point lies before it.
        var isChange: Bool {
            switch self {
            case .open, .read, .names, .byteCount, .space: false
            default: true
            }
        }
    }

    static let processID: Int32 = 4242
    private let state: Mutex<SimulatedDiskState>

    package init(seed: UInt64) { state = Mutex(SimulatedDiskState(seed: seed)) }
    private init(_ state: SimulatedDiskState) { self.state = Mutex(state) }

    // MARK: Faults

    /// The `number`-th changing call from the disk's start (0 = the next on a new disk) and all after it fail.
    package func crash(beforeOperation number: Int) { state.withLock { $0.crashPoint = number } }

    /// The `number`-th call of a kind from now on (1 = the next) fails; all after it too if `forever`.
    /// - Parameter suffix: counts and fails only calls of files whose names end so, before the call.
    package func fail(
        _ kind: Kind, ofFiles suffix: String = "", onCall number: Int, errno: Int32 = EIO,
        forever: Bool = false
    ) {
        state.withLock {
            $0.failures.append(
                .init(
                    kind: kind, suffix: suffix, call: number, errno: errno, isForever: forever))
        }
    }

    /// Syncs say 0 and write nothing from now on, as a disk does that lies about its flush.
    package func forgetSyncs() { state.withLock { $0.forgetsSyncs = true } }

    package func clearFailures() { state.withLock { $0.failures = [] } }

    /// All files together may have this many bytes.
    package func limit(byteCount: Int) { state.withLock { $0.byteBudget = byteCount } }

    /// Somebody else takes every byte that is free after any call, over restarts too.
    package func hog(_ isOn: Bool = true) { state.withLock { $0.isHogged = isOn } }

    /// A file becomes one hole, as a copy makes it that leaves zeros out.
    package func makeSparse(_ path: String) {
        state.withLock { state in
            if let inode = state.inode(path) { state.inodes[inode].isSparse = true }
        }
    }

    /// One write in `chance` takes only a part; 0 = none.
    package func shortenWrites(oneIn chance: UInt64) {
        state.withLock { $0.shortWriteChance = chance }
    }

    /// The machine after a power cut, as a disk of its own: one of the many that may be left,
    /// chosen by the seed. This one is down from now on; further cuts of it give further outcomes.
    /// - Parameter garbledSectorByteCount: of a disk that may leave any sector unreadable in which it was writing to a
    ///   segment; 0 for one that leaves it as it was.
    package func powerCut(
        seed: UInt64, garbledSectorByteCount: Int = 0
    ) -> SimulatedFileSystem {
        var next = state.withLock {
            $0.isDown = true
            return $0
        }
        next.powerCut(seed: seed, garbledSectorByteCount: garbledSectorByteCount)
        return SimulatedFileSystem(disk: SimulatedDisk(next), prefix: "")
    }

    /// The machine after its process was killed: nothing written is lost, no lock is held.
    package func kill() -> SimulatedFileSystem {
        var next = state.withLock {
            $0.isDown = true
            return $0
        }
        next.startProcess()
        return SimulatedFileSystem(disk: SimulatedDisk(next), prefix: "")
    }

    /// What another process sees now, as a disk of its own; this one goes on.
    package func copy() -> SimulatedFileSystem {
        var next = state.withLock { $0 }
        next.startProcess()
        return SimulatedFileSystem(disk: SimulatedDisk(next), prefix: "")
    }

    // MARK: What tests look at

    package var operationCount: Int { state.withLock { $0.operationCount } }
    /// Whether the crash point was reached.
    package var isDown: Bool { state.withLock { $0.isDown } }
    package func callCount(_ kind: Kind) -> Int {
        state.withLock { $0.callCounts[kind, default: 0] }
    }

    /// How many bytes reads have given since the last power cut.
    package var readByteCount: Int { state.withLock { $0.readByteCount } }

    /// From now on a read of which some page cannot be read gives nothing, where it would give the pages before: so does a
    /// kernel whose page cache has larger units.
    package func failReadsAtBeginning() { state.withLock { $0.failsReadsAtBeginning = true } }

    /// How many reads met a sector that cannot be read, each of which takes a real disk seconds.
    package var failedReadCount: Int { state.withLock { $0.failedReadCount } }

    /// The bytes that a reader sees under a path relative to the data directory.
    package func contents(_ path: String) -> [UInt8]? {
        state.withLock { state in state.inode(path).map { state.inodes[$0].current } }
    }

    /// Changes bytes behind everybody's back, durably.
    package func damage(_ path: String, _ change: (inout [UInt8]) -> Void) {
        state.withLock { state in
            guard let inode = state.inode(path) else { return }
            change(&state.inodes[inode].current)
            state.inodes[inode].durable = state.inodes[inode].current
            state.inodes[inode].pending = []
        }
    }

    /// The sectors under some bytes of a file cannot be read from now on, in this life and in all that follow, until they are
    /// written to; with them goes the page that the kernel reads at once.
    package func makeUnreadable(_ path: String, _ bytes: Range<Int>) {
        state.withLock { state in
            guard let inode = state.inode(path), !bytes.isEmpty else { return }
            let page = SimulatedInode.pageByteCount
            let pages = bytes.lowerBound / page...(bytes.upperBound - 1) / page
            state.inodes[inode].badPages.formUnion(pages)
        }
    }

    // MARK: Calls

    func create(_ path: String) throws(StorageError) -> Int {
        try call(.create, path) { state in
            if state.names[path] != nil { return .failure(EEXIST) }
            return .success(state.addFile(path))
        }
    }

    func open(_ path: String) throws(StorageError) -> Int {
        try call(.open, path) { state in
            state.inode(path).map { .success($0) } ?? .failure(ENOENT)
        }
    }

    func openOrCreate(_ path: String) throws(StorageError) -> Int {
        do { return try open(path) } catch {
            guard case .notFound = error else { throw error }
            return try create(path)
        }
    }

    func openDirectory(_ path: String, create: Bool) throws(StorageError) {
        try call(create ? .makeDirectory : .open, path) { state -> SimulatedResult<Void> in
            switch state.names[path] {
            case .directory?: return .success(())
            case .file?: return .failure(ENOTDIR)
            case nil where create: return .success(state.change([(path, .directory)]))
            case nil: return .failure(ENOENT)
            }
        }
    }

    func names(_ prefix: String) throws(StorageError) -> [String] {
        try call(.names, prefix) { state in
            let here = state.names.keys.filter {
                $0.hasPrefix(prefix) && !$0.dropFirst(prefix.count).contains("/")
            }
            return .success(here.map { String($0.dropFirst(prefix.count)) }.sorted())
        }
    }

    func rename(_ path: String, to newPath: String, kind: Kind) throws(StorageError) {
        try call(kind, path) { state -> SimulatedResult<Void> in
            guard let entry = state.names[path] else { return .failure(ENOENT) }
            if kind == .move && state.names[newPath] != nil { return .failure(EEXIST) }
            return .success(state.change([(path, nil), (newPath, entry)]))
        }
    }

    func exchange(_ path: String, with other: String) throws(StorageError) {
        try call(.rename, path) { state -> SimulatedResult<Void> in
            guard let entry = state.names[path], let second = state.names[other] else {
                return .failure(ENOENT)
            }
            return .success(state.change([(path, second), (other, entry)]))
        }
    }

    func link(_ path: String, to newPath: String) throws(StorageError) {
        try call(.link, newPath) { state -> SimulatedResult<Void> in
            guard case .file? = state.names[path] else { return .failure(ENOENT) }
            if state.names[newPath] != nil { return .failure(EEXIST) }
            return .success(state.change([(newPath, state.names[path])]))
        }
    }

    func unlink(_ path: String) throws(StorageError) {
        try call(.unlink, path) { state -> SimulatedResult<Void> in
            guard case .file? = state.names[path] else { return .failure(ENOENT) }
            return .success(state.change([(path, nil)]))
        }
    }

    func syncDirectory(_ prefix: String) throws(StorageError) {
        try call(.syncDirectory, prefix) { state in .success(state.syncNames(in: prefix)) }
    }

    func read(_ inode: Int, at offset: UInt64, byteCountMax: Int) throws(StorageError) -> [UInt8] {
        try call(.read, of: inode) { state in
            let bytes = state.inodes[inode].current
            guard let start = Int(exactly: offset), start < bytes.count else { return .success([]) }
            var end = min(bytes.count - start, byteCountMax) + start
            if let bad = state.inodes[inode].firstBadByte(in: start..<end) {
                if bad <= start || state.failsReadsAtBeginning {
                    state.failedReadCount += 1
                    return .failure(EIO)
                }
                end = bad
            }
            state.readByteCount += end - start
            return .success(Array(bytes[start..<end]))
        }
    }

    func write(_ inode: Int, _ bytes: [UInt8], at offset: UInt64) throws(StorageError) -> Int {
        try call(.write, of: inode) { state in state.write(inode, bytes, at: Int(offset)) }
    }

    func resize(_ inode: Int, to byteCount: UInt64, kind: Kind) throws(StorageError) {
        try call(kind, of: inode) { state in
            state.resize(inode, to: Int(byteCount), isAllocation: kind == .allocate)
        }
    }

    func sync(_ inode: Int, _ kind: Kind) throws(StorageError) {
        try call(kind, of: inode) { state in
            if state.forgetsSyncs {
                state.inodes[inode].pending = []
            } else {
                state.inodes[inode].makeDurable()
            }
            return .success(())
        } failing: { state in
            state.loseUnsynced(inode)
        }
    }

    func byteCount(_ inode: Int) throws(StorageError) -> UInt64 {
        try call(.byteCount, of: inode) { state in
            .success(UInt64(state.inodes[inode].current.count))
        }
    }

    func allocatedByteCount(_ inode: Int) -> UInt64 {
        state.withLock { UInt64($0.inodes[inode].isSparse ? 0 : $0.inodes[inode].current.count) }
    }

    func forgetCached(_ inode: Int) {
        state.withLock { state in
            // Bytes still to be written stay; what a failed sync forgot is no longer seen.
            guard state.inodes[inode].pending.isEmpty else { return }
            state.inodes[inode].current = state.inodes[inode].durable
        }
    }

    func space() throws(StorageError) -> FileSystemSpace {
        try call(.space, "") { state in
            .success(
                (
                    totalByteCount: UInt64(state.byteBudget),
                    freeByteCount: UInt64(max(0, state.freeByteCount))
                ))
        }
    }

    func retain(_ inode: Int) { state.withLock { $0.retain(inode) } }
    func release(_ inode: Int, by file: ObjectIdentifier) {
        state.withLock {
            $0.release(inode)
            $0.leases[file] = nil
        }
    }

    func lease(_ inode: Int, by file: ObjectIdentifier, from first: UInt64) {
        state.withLock { $0.leases[file] = (inode, first) }
    }

    func isLeased(_ inode: Int, at byte: UInt64, butBy file: ObjectIdentifier) -> Bool {
        state.withLock { state in
            state.leases.contains {
                $0.key != file && $0.value.inode == inode && $0.value.first <= byte
            }
        }
    }

    func lock(_ prefix: String) -> Bool { state.withLock { $0.locked.insert(prefix).inserted } }
    func unlock(_ prefix: String) { state.withLock { _ = $0.locked.remove(prefix) } }

    /// As below, of an open file.
    private func call<Value: Sendable>(
        _ kind: Kind, of inode: Int,
        _ body: (inout SimulatedDiskState) -> SimulatedResult<Value>,
        failing: (inout SimulatedDiskState) -> Void = { _ in }
    ) throws(StorageError) -> Value {
        let path = state.withLock { $0.inodes[inode].path }
        return try call(kind, path, body, failing: failing)
    }

    /// Counts the call, lets the faults have their say, then does it.
    private func call<Value: Sendable>(
        _ kind: Kind, _ path: String,
        _ body: (inout SimulatedDiskState) -> SimulatedResult<Value>,
        failing: (inout SimulatedDiskState) -> Void = { _ in }
    ) throws(StorageError) -> Value {
        let result = state.withLock { state -> SimulatedResult<Value> in
            if let errno = state.admit(kind, path) {
                if !state.isDown { failing(&state) }
                return .failure(errno)
            }
            defer { if state.isHogged { state.byteBudget -= max(0, state.freeByteCount) } }
            return body(&state)
        }
        switch result {
        case .success(let value): return value
        case .failure(let errno):
            if kind == .sync || kind == .syncData || kind == .syncDirectory {
                throw .durabilityLost(path: "/sim/\(path)", call: kind.rawValue, errno: errno)
            }
            throw StorageError(path: "/sim/\(path)", call: kind.rawValue, errno: errno)
        }
    }
}

/// What a simulated call gives: its value or errno.
enum SimulatedResult<Value: Sendable>: Sendable {
    case success(Value)
    case failure(Int32)
}
