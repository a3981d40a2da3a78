import IngestStorage

// A disk in memory that fails on purpose, for the tests of every module above the seam.

/// A directory on a `SimulatedDisk`: deterministic, from a seed.
///
/// **The fault model.** Stronger than any one real file system, so that what survives here rests on no
/// habit of ext4:
/// - *A power cut* keeps, of all changes to a file since its last sync, any subset; of each write kept, any
///   subset of its 512-byte sectors. A file may be longer than what was written of it: zeros lie between.
/// - Of the changes of names (create, rename, move, link, unlink, new directory) since the last `syncDirectory`,
///   any subset survives, but of the changes to one name always a prefix. A synced file whose name was not synced
///   is gone. A rename or a move is one change: never half.
/// - *A kill* keeps everything that was written, synced or not (the page cache lives on), drops the locks
///   and every open file.
/// - *A crash before operation n*: the n-th changing call and every call after it throw; nothing of it happens.
/// - *A failed sync* (EIO) writes a random subset of what it should have, and forgets the rest:
///   readers still see it, the next sync says 0, a power cut or `forgetCached` loses it. As the kernels do.
/// - *A disk that lies* (`forgetSyncs`): syncs say 0 and write nothing.
/// - *ENOSPC* at a byte budget, over the sizes of all files that have a name or are open; the write before it is
///   short, and a preallocation has had a part.
/// - *Any error on the n-th call of a kind*, once or for ever, of all files or of those whose names end alike.
/// - *Sectors that cannot be read* (`makeUnreadable`): EIO in every life, until they are written to.
/// - *Short writes*: some calls take only a part. EINTR is not modelled: `SystemCall` handles it below the seam.
///
/// Not modelled: bit rot and misdirected writes (tests damage bytes by `damage`), and reordering across disks.
package struct SimulatedFileSystem: FileSystem {
    package let disk: SimulatedDisk
    /// Empty for the data directory, else `name/`.
    private let prefix: String
    package var path: String { prefix.isEmpty ? "/sim" : "/sim/\(prefix.dropLast())" }

    /// An empty disk.
    package init(seed: UInt64) { self.init(disk: SimulatedDisk(seed: seed), prefix: "") }

    init(disk: SimulatedDisk, prefix: String) {
        self.disk = disk
        self.prefix = prefix
    }

    package func create(_ name: String) throws(StorageError) -> SimulatedFile {
        try file(name, disk.create(prefix + name))
    }

    package func open(_ name: String, _ access: FileAccess) throws(StorageError) -> SimulatedFile {
        try file(name, disk.open(prefix + name))
    }

    package func names() throws(StorageError) -> [String] { try disk.names(prefix) }

    package func rename(_ name: String, to newName: String) throws(StorageError) {
        try disk.rename(prefix + name, to: prefix + newName, kind: .rename)
    }

    package func move(
        _ name: String, to newName: String, in directory: SimulatedFileSystem
    ) throws(StorageError) {
        try disk.rename(prefix + name, to: directory.prefix + newName, kind: .move)
    }

    package func link(
        _ name: String, to newName: String, in directory: SimulatedFileSystem
    ) throws(StorageError) {
        try disk.link(prefix + name, to: directory.prefix + newName)
    }

    package func exchange(_ name: String, with other: String) throws(StorageError) {
        try disk.exchange(prefix + name, with: prefix + other)
    }

    package func unlink(_ name: String) throws(StorageError) { try disk.unlink(prefix + name) }

    package func syncDirectory() throws(StorageError) { try disk.syncDirectory(prefix) }

    package func subdirectory(
        _ name: String, create: Bool
    ) throws(StorageError) -> SimulatedFileSystem {
        try disk.openDirectory(prefix + name, create: create)
        return SimulatedFileSystem(disk: disk, prefix: prefix + name + "/")
    }

    package func lock(_ name: String) throws(StorageError) -> SimulatedFile {
        let file = try file(name, disk.openOrCreate(prefix + name))
        guard disk.lock(prefix) else {
            throw .locked(path: path, holder: LockHolder.read(from: file))
        }
        LockHolder.write(SimulatedDisk.processID, to: file)
        return SimulatedFile(disk: disk, inode: file.inode, path: file.path, locking: prefix)
    }

    package func space() throws(StorageError) -> FileSystemSpace { try disk.space() }

    private func file(_ name: String, _ inode: Int) -> SimulatedFile {
        SimulatedFile(disk: disk, inode: inode, path: "\(path)/\(name)")
    }
}

/// An open file of a `SimulatedDisk`.
package final class SimulatedFile: StorageFile {
    package let path: String
    package let unreadable = UnreadableRegions()
    private let disk: SimulatedDisk
    fileprivate let inode: Int
    /// The directory whose lock goes with this file, as a prefix.
    private let lockedDirectory: String?

    fileprivate init(
        disk: SimulatedDisk, inode: Int, path: String, locking directory: String? = nil
    ) {
        self.disk = disk
        self.inode = inode
        self.path = path
        lockedDirectory = directory
        disk.retain(inode)
    }

    deinit {
        disk.release(inode, by: ObjectIdentifier(self))
        if let lockedDirectory { disk.unlock(lockedDirectory) }
    }

    package func readSome(
        into bytes: inout MutableRawSpan, from first: Int, at offset: UInt64
    ) throws(StorageError) -> Int {
        let found = try disk.read(inode, at: offset, byteCountMax: bytes.byteCount - first)
        return bytes.withUnsafeMutableBytes { buffer in
            // SAFETY: the slice is bounds-checked; `found` is no longer than it.
            UnsafeMutableRawBufferPointer(rebasing: buffer[first...]).copyBytes(from: found)
            return found.count
        }
    }

    package func writeSome(_ bytes: RawSpan, at offset: UInt64) throws(StorageError) -> Int {
        // SAFETY: the buffer is copied before the closure ends.
        let copy = bytes.withUnsafeBytes { [UInt8]($0) }
        return try disk.write(inode, copy, at: offset)
    }

    package func syncData() throws(StorageError) { try disk.sync(inode, .syncData) }
    package func sync() throws(StorageError) { try disk.sync(inode, .sync) }

    package func allocate(to byteCount: UInt64) throws(StorageError) {
        try disk.resize(inode, to: byteCount, kind: .allocate)
    }

    package func truncate(to byteCount: UInt64) throws(StorageError) {
        try disk.resize(inode, to: byteCount, kind: .truncate)
    }

    package func byteCount() throws(StorageError) -> UInt64 { try disk.byteCount(inode) }
    package func allocatedByteCount() -> UInt64 { disk.allocatedByteCount(inode) }
    package func lease(from first: UInt64) {
        disk.lease(inode, by: ObjectIdentifier(self), from: first)
    }
    package func isLeased(at byte: UInt64) -> Bool {
        disk.isLeased(inode, at: byte, butBy: ObjectIdentifier(self))
    }
    package func forgetCached() { disk.forgetCached(inode) }
}
