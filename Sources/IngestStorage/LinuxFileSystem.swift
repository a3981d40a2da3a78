// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import Glibc
import SystemPackage

/// A directory on a local Linux file system.
///
/// Everything is relative to one directory descriptor, opened once; no call follows a symbolic link;
/// no descriptor is inherited by a child process.
///
/// **Cost** Each call is its system call; no call allocates but `names`, `create` and `open`.
package struct LinuxFileSystem: FileSystem {
    package var path: String { directory.path }
    private let directory: LinuxFile

    /// Opens a directory.
    /// - Parameters:
    ///   - create: Makes the directory if it is not there; only its last component is made. Its name is made
    ///     durable in its parent also where it is there: the start that made it may have been cut off.
    ///   - sync: fsync(2), or what a test has in its place.
    /// - Throws: `missingDirectory` if it is not there or is no directory.
    package init(
        path: String, create: Bool, sync: (Int32) -> Int32 = { fsync($0) }
    ) throws(StorageError) {
        let isNew = create ? try Self.makeDirectory(path) : false
        // SAFETY: the path is a temporary C string that outlives the call. It may end in a link: the
        // operator gave it.
        let opened = SystemCall.retrying {
            unsafe Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }
        switch opened {
        case .success(let descriptor): directory = LinuxFile(descriptor, path: path)
        case .failure(.noSuchFileOrDirectory), .failure(.notDirectory):
            throw .missingDirectory(path: path)
        case .failure(let errno):
            throw StorageError(path: path, call: "open", errno: errno.rawValue)
        }
        if create { try syncParent(isNew: isNew, sync) }
    }

    private init(directory: LinuxFile) { self.directory = directory }

    /// - Returns: `false` if it was there.
    private static func makeDirectory(_ path: String) throws(StorageError) -> Bool {
        switch SystemCall.makeDirectory(path, at: AT_FDCWD) {
        case .success: return true
        case .failure(.fileExists): return false
        case .failure(.noSuchFileOrDirectory), .failure(.notDirectory):
            throw .missingDirectory(path: path)
        case .failure(let errno):
            throw StorageError(path: path, call: "mkdir", errno: errno.rawValue)
        }
    }

    /// Makes the directory's name durable.
    private func syncParent(isNew: Bool, _ sync: (Int32) -> Int32) throws(StorageError) {
        let parent: LinuxFile
        switch SystemCall.open("..", flags: O_RDONLY | O_DIRECTORY, at: directory.descriptor) {
        case .success(let descriptor): parent = LinuxFile(descriptor, path: "\(path)/..")
        // The operator made the directory, in one that the daemon may not read: it is the operator's to keep.
        case .failure(.permissionDenied) where !isNew: return
        case .failure(let errno):
            throw StorageError(path: "\(path)/..", call: "openat", errno: errno.rawValue)
        }
        switch SystemCall.retrying({ sync(parent.descriptor) }) {
        case .success: break
        // A parent on a file system that has nothing to sync.
        case .failure(.invalidArgument) where !isNew, .failure(.readOnlyFileSystem) where !isNew:
            break
        case .failure(let errno):
            throw .durabilityLost(path: parent.path, call: "fsync", errno: errno.rawValue)
        }
    }

    package func create(_ name: String) throws(StorageError) -> LinuxFile {
        try open(name, flags: O_RDWR | O_CREAT | O_EXCL)
    }

    package func open(_ name: String, _ access: FileAccess) throws(StorageError) -> LinuxFile {
        try open(name, flags: access == .read ? O_RDONLY : O_RDWR)
    }

    /// Opens a regular file. Without waiting: the open of a pipe would wait for its other end for ever.
    private func open(
        _ name: String, flags: Int32, holding companion: LinuxFile? = nil
    ) throws(StorageError) -> LinuxFile {
        let path = path(of: name)
        let file: LinuxFile
        switch SystemCall.open(name, flags: flags | O_NONBLOCK, at: directory.descriptor) {
        case .success(let descriptor):
            file = LinuxFile(descriptor, path: path, holding: companion)
        // A directory, a symbolic link, a socket.
        case .failure(.isDirectory), .failure(.tooManySymbolicLinkLevels),
            .failure(.noSuchAddressOrDevice):
            throw Self.notRegular(path)
        case .failure(.noSpace) where SystemCall.hasNoFreeInode(directory.descriptor):
            throw .diskFull(path: path, call: "openat, no inode is free", errno: ENOSPC)
        case .failure(let errno):
            throw StorageError(path: path, call: "openat", errno: errno.rawValue)
        }
        guard try SystemCall.isRegularFile(file.descriptor).orThrow(path, "fstat") else {
            throw Self.notRegular(path)
        }
        return file
    }

    private static func notRegular(_ path: String) -> StorageError {
        .corrupt(path: path, offset: 0, detail: "not a regular file")
    }

    package func names() throws(StorageError) -> [String] {
        try SystemCall.names(directory.descriptor).orThrow(path, "readdir")
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    package func rename(_ name: String, to newName: String) throws(StorageError) {
        _ = try SystemCall.rename(name, to: newName, at: directory.descriptor)
            .orThrow(path(of: name), "renameat")
    }

    package func move(
        _ name: String, to newName: String, in other: LinuxFileSystem
    ) throws(StorageError) {
        _ = try SystemCall.move(
            name, at: directory.descriptor, to: newName, at: other.directory.descriptor
        ).orThrow(path(of: name), "renameat2")
    }

    package func link(
        _ name: String, to newName: String, in other: LinuxFileSystem
    ) throws(StorageError) {
        _ = try SystemCall.link(
            name, at: directory.descriptor, to: newName, at: other.directory.descriptor
        ).orThrow(other.path(of: newName), "linkat")
    }

    package func exchange(_ name: String, with other: String) throws(StorageError) {
        switch SystemCall.exchange(name, with: other, at: directory.descriptor) {
        case .success: break
        // A file system that cannot.
        case .failure(.invalidArgument): try rename(name, to: other)
        case .failure(let errno):
            throw StorageError(path: path(of: name), call: "renameat2", errno: errno.rawValue)
        }
    }

    package func unlink(_ name: String) throws(StorageError) {
        _ = try SystemCall.unlink(name, at: directory.descriptor).orThrow(
            path(of: name), "unlinkat")
    }

    package func syncDirectory() throws(StorageError) { try directory.sync() }

    package func subdirectory(
        _ name: String, create: Bool
    ) throws(StorageError) -> LinuxFileSystem {
        let path = path(of: name)
        if create {
            switch SystemCall.makeDirectory(name, at: directory.descriptor) {
            case .success, .failure(.fileExists): break
            case .failure(let errno):
                throw StorageError(path: path, call: "mkdirat", errno: errno.rawValue)
            }
        }
        let descriptor = try SystemCall.open(
            name, flags: O_RDONLY | O_DIRECTORY, at: directory.descriptor
        ).orThrow(path, "openat")
        return LinuxFileSystem(directory: LinuxFile(descriptor, path: path))
    }

    package func lock(_ name: String) throws(StorageError) -> LinuxFile {
        let descriptor = try SystemCall.open(
            ".", flags: O_RDONLY | O_DIRECTORY, at: directory.descriptor
        ).orThrow(path, "openat")
        // The directory itself is locked as well: where somebody removes the lock file of a running daemon,
        // the next one makes a new file and would find that unlocked.
        let itself = LinuxFile(descriptor, path: path)
        let file = try open(name, flags: O_RDWR | O_CREAT, holding: itself)
        for one in [file, itself] {
            switch SystemCall.retrying({ flock(one.descriptor, LOCK_EX | LOCK_NB) }) {
            case .success: break
            case .failure(.wouldBlock):
                throw .locked(path: path, holder: LockHolder.read(from: file))
            case .failure(let errno):
                throw StorageError(path: one.path, call: "flock", errno: errno.rawValue)
            }
        }
        LockHolder.write(getpid(), to: file)
        return file
    }

    package func space() throws(StorageError) -> FileSystemSpace {
        try SystemCall.space(directory.descriptor).orThrow(path, "fstatvfs")
    }

    private func path(of name: String) -> String { "\(path)/\(name)" }
}

/// An open descriptor; closed when the last reference goes.
package final class LinuxFile: StorageFile {
    package let path: String
    package let unreadable = UnreadableRegions()
    fileprivate let descriptor: Int32
    /// Stays open as long as this file does.
    private let companion: LinuxFile?

    fileprivate init(_ descriptor: Int32, path: String, holding companion: LinuxFile? = nil) {
        self.descriptor = descriptor
        self.path = path
        self.companion = companion
    }

    deinit { close(descriptor) }

    package func readSome(
        into bytes: inout MutableRawSpan, from first: Int, at offset: UInt64
    ) throws(StorageError) -> Int {
        try SystemCall.read(descriptor, into: &bytes, from: first, at: offset)
            .orThrow(path, "pread")
    }

    package func writeSome(_ bytes: RawSpan, at offset: UInt64) throws(StorageError) -> Int {
        let count = try SystemCall.write(descriptor, bytes, at: offset).orThrow(path, "pwrite")
        // A regular file that takes nothing and names no error would make the caller loop for ever.
        if count == 0 && !bytes.isEmpty { throw .io(path: path, call: "pwrite", errno: EIO) }
        return count
    }

    package func syncData() throws(StorageError) {
        try durably("fdatasync", SystemCall.retrying { fdatasync(descriptor) })
    }

    package func sync() throws(StorageError) {
        try durably("fsync", SystemCall.retrying { fsync(descriptor) })
    }

    package func allocate(to byteCount: UInt64) throws(StorageError) {
        let present = try self.byteCount()
        guard byteCount > present else { return }
        switch SystemCall.allocate(descriptor, from: present, to: byteCount) {
        case .success: break
        // A file system that cannot reserve (some network ones): the size alone has to do.
        case .failure(.notSupported): try truncate(to: byteCount)
        case .failure(let errno):
            throw StorageError(path: path, call: "fallocate", errno: errno.rawValue)
        }
    }

    package func truncate(to byteCount: UInt64) throws(StorageError) {
        guard let byteCount = off_t(exactly: byteCount) else {
            throw .io(path: path, call: "ftruncate", errno: EFBIG)
        }
        _ = try SystemCall.retrying { ftruncate(descriptor, byteCount) }.orThrow(path, "ftruncate")
    }

    package func byteCount() throws(StorageError) -> UInt64 {
        try SystemCall.byteCount(descriptor).orThrow(path, "fstat")
    }

    package func allocatedByteCount() throws(StorageError) -> UInt64 {
        try SystemCall.allocatedByteCount(descriptor).orThrow(path, "fstat")
    }

    package func nextData(from offset: UInt64) throws(StorageError) -> UInt64 {
        stopReadingAhead()
        if let found = SystemCall.nextData(descriptor, from: offset) { return found }
        return try byteCount()
    }

    package func stopReadingAhead() { _ = posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM) }

    package func lease(from first: UInt64) throws(StorageError) {
        _ = try SystemCall.lease(descriptor, from: first).orThrow(path, "fcntl")
    }

    package func isLeased(at byte: UInt64) throws(StorageError) -> Bool {
        try SystemCall.isLeased(descriptor, at: byte).orThrow(path, "fcntl")
    }

    package func forgetCached() { _ = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) }

    private func durably(_ call: String, _ result: Result<Int32, Errno>) throws(StorageError) {
        if case .failure(let errno) = result {
            throw .durabilityLost(path: path, call: call, errno: errno.rawValue)
        }
    }
}

extension Result where Failure == Errno {
    /// The value, or the failure as an error that names path and call.
    fileprivate func orThrow(_ path: String, _ call: String) throws(StorageError) -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let errno): throw StorageError(path: path, call: call, errno: errno.rawValue)
        }
    }
}
