import Glibc
import IngestStorage

/// What a simulated machine has: files and names, each as its processes see it and as it is on disk,
/// and the changes between the two. A plain value, so that one crash can be played out in many ways.
struct SimulatedDiskState: Sendable {
    enum Entry: Hashable, Sendable {
        case file(Int)
        case directory
    }

    /// A change of names not yet on disk: all of it happens or none. Paths are in it with what they become.
    struct NameChange: Sendable {
        let entries: [(path: String, entry: Entry?)]
        /// The directories (as prefixes) that still have to be synced.
        var unsynced: Set<String>

        func touches(_ other: NameChange) -> Bool {
            entries.contains { mine in other.entries.contains { $0.path == mine.path } }
        }
    }

    struct Failure: Sendable {
        let kind: SimulatedDisk.Kind
        /// How the names of the files end that it is about.
        let suffix: String
        let call: Int
        let errno: Int32
        let isForever: Bool
        /// Calls of such files since the fault was set.
        var callCount = 0

        /// Counts a call; whether it fails.
        mutating func isDue(_ kind: SimulatedDisk.Kind, _ path: String) -> Bool {
            guard kind == self.kind, path.hasSuffix(suffix) else { return false }
            callCount += 1
            return isForever ? callCount >= call : callCount == call
        }
    }

    var inodes: [SimulatedInode] = []
    var names: [String: Entry] = [:]
    var durableNames: [String: Entry] = [:]
    var nameChanges: [NameChange] = []
    /// Directories, as prefixes.
    var locked: Set<String> = []
    /// By open file.
    var leases: [ObjectIdentifier: (inode: Int, first: UInt64)] = [:]
    /// How many open files there are of an inode; none of an inode that is left out.
    var openCounts: [Int: Int] = [:]
    /// Inodes that are open and have no name any more: they take their room until they are closed.
    var nameless: Set<Int> = []

    var random: SeededRandom
    var operationCount = 0
    var readByteCount = 0
    /// Reads that met a sector that cannot be read.
    var failedReadCount = 0
    var failsReadsAtBeginning = false
    var callCounts: [SimulatedDisk.Kind: Int] = [:]
    var crashPoint = Int.max
    var isDown = false
    var failures: [Failure] = []
    var byteBudget = 1 << 40
    var isHogged = false
    var shortWriteChance: UInt64 = 0
    var forgetsSyncs = false

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    /// Counts a call; errno if a fault is due.
    mutating func admit(_ kind: SimulatedDisk.Kind, _ path: String) -> Int32? {
        if kind.isChange && operationCount >= crashPoint { isDown = true }
        if isDown { return EIO }
        if kind.isChange { operationCount += 1 }
        callCounts[kind, default: 0] += 1
        var errno: Int32?
        for index in failures.indices where failures[index].isDue(kind, path) {
            errno = errno ?? failures[index].errno
        }
        return errno
    }

    func inode(_ path: String) -> Int? {
        if case .file(let inode)? = names[path] { inode } else { nil }
    }

    var freeByteCount: Int {
        // A file with two names takes its room once.
        var held = nameless
        for case .file(let inode) in names.values where !inodes[inode].isSparse {
            held.insert(inode)
        }
        return byteBudget - held.reduce(0) { $0 + inodes[$1].current.count }
    }

    mutating func addFile(_ path: String) -> Int {
        inodes.append(SimulatedInode(path: path))
        change([(path, .file(inodes.count - 1))])
        return inodes.count - 1
    }

    mutating func change(_ entries: [(path: String, entry: Entry?)]) {
        for (path, entry) in entries {
            if case .file(let inode)? = names[path], openCounts[inode] != nil {
                nameless.insert(inode)
            }
            names[path] = entry
            if case .file(let inode)? = entry {
                nameless.remove(inode)
                inodes[inode].path = path
            }
        }
        let directories = Set(entries.map { Self.directory(of: $0.path) })
        nameChanges.append(NameChange(entries: entries, unsynced: directories))
    }

    mutating func write(_ inode: Int, _ bytes: [UInt8], at offset: Int) -> SimulatedResult<Int> {
        var count = bytes.count
        if shortWriteChance > 0 && count > 1 && random.below(shortWriteChance) == 0 {
            count = 1 + Int(random.below(UInt64(count - 1)))
        }
        // A page of which only a part is written is read first.
        if inodes[inode].hasBadEdge(offset..<offset + count) { return .failure(EIO) }
        let byteCount = inodes[inode].current.count
        let room = max(0, freeByteCount) + max(0, byteCount - offset)
        count = min(count, room)
        if count == 0 && !bytes.isEmpty { return .failure(ENOSPC) }
        inodes[inode].apply(.write(offset, Array(bytes[..<count])))
        return .success(count)
    }

    mutating func retain(_ inode: Int) { openCounts[inode, default: 0] += 1 }

    mutating func release(_ inode: Int) {
        guard let count = openCounts[inode] else { return }
        openCounts[inode] = count > 1 ? count - 1 : nil
        if count == 1 { nameless.remove(inode) }
    }

    /// Makes a file longer or shorter. Of room that is not there a part may be given, as file systems do.
    mutating func resize(
        _ inode: Int, to byteCount: Int, isAllocation: Bool
    ) -> SimulatedResult<Void> {
        let count = inodes[inode].current.count
        if isAllocation && byteCount <= count { return .success(()) }
        let room = max(0, freeByteCount)
        if room < byteCount - count {
            if isAllocation { inodes[inode].apply(.resize(count + room / 2)) }
            return .failure(ENOSPC)
        }
        if byteCount == 0 { inodes[inode].isSparse = false }
        return .success(inodes[inode].apply(.resize(byteCount)))
    }

    /// Makes durable what waits for this directory, and what it was built on.
    mutating func syncNames(in directory: String) {
        var done: [NameChange] = []
        for index in nameChanges.indices { nameChanges[index].unsynced.remove(directory) }
        for index in nameChanges.indices.reversed() {
            let isDone = nameChanges[index].unsynced.isEmpty
            if isDone || done.contains(where: { $0.touches(nameChanges[index]) }) {
                done.append(nameChanges.remove(at: index))
            }
        }
        for change in done.reversed() { applyDurably(change) }
    }

    mutating func applyDurably(_ change: NameChange) {
        for (path, entry) in change.entries { durableNames[path] = entry }
    }

    static func directory(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
    }
}

/// One file: what processes see, what is on disk, and the changes between.
struct SimulatedInode: Sendable {
    enum Change: Sendable {
        case write(Int, [UInt8])
        case resize(Int)
    }

    /// Its last name, as a path.
    var path: String
    var current: [UInt8] = []
    /// Whether all of it is a hole.
    var isSparse = false
    var durable: [UInt8] = []
    var pending: [Change] = []
    /// Pages that the disk cannot read.
    var badPages: Set<Int> = []

    static let pageByteCount = 4096

    func firstBadByte(in bytes: Range<Int>) -> Int? {
        if badPages.isEmpty || bytes.isEmpty { return nil }
        let pages =
            bytes.lowerBound / Self.pageByteCount...(bytes.upperBound - 1) / Self.pageByteCount
        return pages.first { badPages.contains($0) }.map { $0 * Self.pageByteCount }
    }

    func hasBadEdge(_ bytes: Range<Int>) -> Bool {
        [bytes.lowerBound, bytes.upperBound].contains {
            $0 % Self.pageByteCount != 0 && badPages.contains($0 / Self.pageByteCount)
        }
    }

    mutating func apply(_ change: Change) {
        if case .write(let offset, let bytes) = change, !badPages.isEmpty {
            // The drive puts another sector in the place of one that is written to.
            badPages = badPages.filter {
                $0 * Self.pageByteCount < offset
                    || ($0 + 1) * Self.pageByteCount > offset + bytes.count
            }
        }
        Self.apply(change, to: &current)
        pending.append(change)
    }

    mutating func makeDurable() {
        for change in pending { Self.apply(change, to: &durable) }
        pending = []
    }

    static func apply(_ change: Change, to bytes: inout [UInt8]) {
        switch change {
        case .write(let offset, let new):
            let end = offset + new.count
            if end > bytes.count { resize(&bytes, to: end) }
            bytes.replaceSubrange(offset..<end, with: new)
        case .resize(let count): resize(&bytes, to: count)
        }
    }

    private static func resize(_ bytes: inout [UInt8], to count: Int) {
        if count < bytes.count {
            bytes.removeLast(bytes.count - count)
        } else {
            bytes += [UInt8](repeating: 0, count: count - bytes.count)
        }
    }
}
