// packet → decode → [ring] → [admit] → [block] → [segment] → [compaction] → [snapshot] → [query]
// The system calls that swift-system has not got, in its manner: a result, errno in the failure, EINTR
// handled here and nowhere else.
import CIngestLinux
import Glibc
import SystemPackage

/// What a program that runs unattended does before it opens anything and makes a thread.
package enum ProcessStart {
    /// A closed pipe shows as EPIPE of a write, a limit on the size of files as EFBIG, and descriptors 0, 1 and 2 are open: one
    /// that the parent closed would be given to the first file or socket, and what is printed would be written into that.
    ///
    /// - Parameter isAnswer: whether what goes to standard output is what the program is for: then a write into a closed one
    ///     fails, and is no success.
    package static func prepare(isAnswer: Bool = false) {
        raiseDescriptorLimit()
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest free number is given, which is `descriptor`.
            let isUnwritable = isAnswer && descriptor == STDOUT_FILENO
            // SAFETY: the path is a constant C string.
            _ = unsafe Glibc.open("/dev/null", isUnwritable ? O_RDONLY : O_RDWR)
        }
    }
}

extension ProcessStart {
    /// How many descriptors the process may have open.
    package static var descriptorCountMax: Int {
        var limit = rlimit()
        // SAFETY: the call writes the one structure, which outlives it.
        let isKnown = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
        return isKnown ? Int(clamping: limit.rlim_cur) : .max
    }

    /// As many descriptors as the system lets the process have: the soft limit is for programs that use select(2).
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        // SAFETY: each call reads or writes the one structure, which outlives it.
        guard unsafe getrlimit(resource, &limit) == 0, limit.rlim_cur < limit.rlim_max else {
            return
        }
        limit.rlim_cur = limit.rlim_max
        unsafe setrlimit(resource, &limit)
    }
}

/// Thin, total wrappers. No policy, no paths in errors: callers put them there.
enum SystemCall {
    /// Calls until it is not interrupted; the value, or errno where it was −1.
    static func retrying<Value: SignedInteger>(_ call: () -> Value) -> Result<Value, Errno> {
        while true {
            let value = call()
            if value != -1 { return .success(value) }
            let code = Glibc.errno
            if code != EINTR { return .failure(Errno(rawValue: code)) }
        }
    }

    /// *The corresponding C function is openat(2)*, always with O_NOFOLLOW and O_CLOEXEC.
    static func open(_ name: String, flags: Int32, at directory: Int32) -> Result<Int32, Errno> {
        // SAFETY: the name is a temporary C string that outlives the call.
        retrying { unsafe openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, 0o600) }
    }

    static func read(
        _ descriptor: Int32, into bytes: inout MutableRawSpan, from first: Int, at offset: UInt64
    ) -> Result<Int, Errno> {
        guard let offset = off_t(exactly: offset) else { return .failure(.invalidArgument) }
        return unsafe bytes.withUnsafeMutableBytes { buffer in
            // SAFETY: the slice is bounds-checked; the kernel writes at most `count` bytes into it.
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[first...])
            return retrying { unsafe pread(descriptor, rest.baseAddress, rest.count, offset) }
        }
    }

    static func write(
        _ descriptor: Int32, _ bytes: RawSpan, at offset: UInt64
    ) -> Result<Int, Errno> {
        guard let offset = off_t(exactly: offset) else { return .failure(.invalidArgument) }
        // SAFETY: the kernel reads at most `count` bytes of a buffer of `count` bytes.
        return unsafe bytes.withUnsafeBytes { buffer in
            retrying { unsafe pwrite(descriptor, buffer.baseAddress, buffer.count, offset) }
        }
    }

    static func rename(_ name: String, to newName: String, at directory: Int32) -> Result<
        Int32, Errno
    > {
        // SAFETY: both names are temporary C strings that outlive the call.
        retrying { unsafe renameat(directory, name, directory, newName) }
    }

    /// *The corresponding C function is fallocate(2)* with mode 0.
    static func allocate(
        _ descriptor: Int32, from offset: UInt64, to end: UInt64
    ) -> Result<Int32, Errno> {
        guard let start = Int64(exactly: offset), let end = Int64(exactly: end), start < end else {
            return .failure(.invalidArgument)
        }
        return retrying { ingest_allocate(descriptor, start, end - start) }
    }

    /// *The corresponding C function is renameat2(2)* with RENAME_NOREPLACE.
    static func move(
        _ name: String, at directory: Int32, to newName: String, at newDirectory: Int32
    ) -> Result<Int32, Errno> {
        // SAFETY: both names are temporary C strings that outlive the call.
        retrying { unsafe ingest_rename_exclusive(directory, name, newDirectory, newName) }
    }

    static func link(
        _ name: String, at directory: Int32, to newName: String, at newDirectory: Int32
    ) -> Result<Int32, Errno> {
        // SAFETY: both names are temporary C strings that outlive the call.
        retrying { unsafe linkat(directory, name, newDirectory, newName, 0) }
    }

    /// *The corresponding C function is renameat2(2)* with RENAME_EXCHANGE.
    static func exchange(_ name: String, with other: String, at directory: Int32) -> Result<
        Int32, Errno
    > {
        // SAFETY: both names are temporary C strings that outlive the call.
        retrying { unsafe ingest_rename_exchange(directory, name, other) }
    }

    static func unlink(_ name: String, at directory: Int32) -> Result<Int32, Errno> {
        // SAFETY: the name is a temporary C string that outlives the call.
        retrying { unsafe unlinkat(directory, name, 0) }
    }

    static func makeDirectory(_ name: String, at directory: Int32) -> Result<Int32, Errno> {
        // SAFETY: the name is a temporary C string that outlives the call.
        retrying { unsafe mkdirat(directory, name, 0o700) }
    }

    /// *The corresponding C function is fcntl(2)* with F_OFD_SETLK: a shared lock from a byte on.
    static func lease(_ descriptor: Int32, from first: UInt64) -> Result<Int32, Errno> {
        guard let first = Int64(exactly: first) else { return .failure(.invalidArgument) }
        return retrying { ingest_lease(descriptor, first) }
    }

    /// *The corresponding C function is fcntl(2)* with F_OFD_GETLK.
    static func isLeased(_ descriptor: Int32, at byte: UInt64) -> Result<Bool, Errno> {
        guard let byte = Int64(exactly: byte) else { return .failure(.invalidArgument) }
        return retrying { ingest_is_leased(descriptor, byte) }.map { $0 != 0 }
    }

    /// Who owns what is at a path, its mode in octal digits, and as whom this process runs.
    static func access(_ path: String) -> Result<(owner: UInt32, mode: String, user: UInt32), Errno>
    {
        var status = stat()
        // SAFETY: the path is a temporary C string, the structure a local that the kernel fills.
        return retrying { unsafe stat(path, &status) }.map { _ in
            let mode = String(status.st_mode & 0o7777, radix: 8)
            let zeros = String(repeating: "0", count: max(0, 4 - mode.count))
            return (status.st_uid, zeros + mode, geteuid())
        }
    }

    static func byteCount(_ descriptor: Int32) -> Result<UInt64, Errno> {
        var status = stat()
        // SAFETY: the structure is a local that the kernel fills.
        return retrying { unsafe fstat(descriptor, &status) }.map { _ in
            UInt64(max(0, status.st_size))
        }
    }

    /// *The corresponding C function is lseek(2)* with SEEK_DATA.
    /// - Returns: `nil` where nothing but holes and zeros that were never written lie behind `offset`.
    static func nextData(_ descriptor: Int32, from offset: UInt64) -> UInt64? {
        guard let offset = off_t(exactly: offset) else { return nil }
        let seekData: Int32 = 3
        let found = lseek(descriptor, offset, seekData)
        if found >= 0 { return UInt64(found) }
        return Glibc.errno == ENXIO ? nil : UInt64(offset)
    }

    static func allocatedByteCount(_ descriptor: Int32) -> Result<UInt64, Errno> {
        var status = stat()
        // SAFETY: the structure is a local that the kernel fills.
        return retrying { unsafe fstat(descriptor, &status) }.map { _ in
            UInt64(max(0, status.st_blocks)) &* 512
        }
    }

    /// Whether the file system counts inodes, and none is left.
    static func hasNoFreeInode(_ descriptor: Int32) -> Bool {
        var status = statvfs()
        // SAFETY: the structure is a local that the kernel fills.
        let result = retrying { unsafe fstatvfs(descriptor, &status) }
        if case .success = result { return status.f_files > 0 && status.f_favail == 0 }
        return false
    }

    static func isRegularFile(_ descriptor: Int32) -> Result<Bool, Errno> {
        var status = stat()
        // SAFETY: the structure is a local that the kernel fills.
        return retrying { unsafe fstat(descriptor, &status) }.map { _ in
            status.st_mode & S_IFMT == S_IFREG
        }
    }

    static func space(_ descriptor: Int32) -> Result<FileSystemSpace, Errno> {
        var status = statvfs()
        // SAFETY: the structure is a local that the kernel fills.
        return retrying { unsafe fstatvfs(descriptor, &status) }.map { _ in
            (
                totalByteCount: UInt64(status.f_blocks).multipliedSaturating(
                    by: UInt64(status.f_frsize)),
                freeByteCount: UInt64(status.f_bavail).multipliedSaturating(
                    by: UInt64(status.f_frsize))
            )
        }
    }

    /// The names in a directory. Takes a descriptor of its own, so that the position is not shared.
    static func names(_ directory: Int32) -> Result<[String], Errno> {
        open(".", flags: O_RDONLY | O_DIRECTORY, at: directory).flatMap { descriptor in
            // SAFETY: the stream owns the descriptor; `closedir` ends both.
            guard let stream = unsafe fdopendir(descriptor) else {
                let code = Glibc.errno
                close(descriptor)
                return .failure(Errno(rawValue: code))
            }
            defer { unsafe closedir(stream) }
            var names: [String] = []
            while true {
                Glibc.errno = 0
                guard let entry = unsafe readdir(stream) else { break }
                let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { field in
                    // SAFETY: the kernel ends `d_name` with a zero byte.
                    unsafe String(
                        cString: UnsafeRawPointer(field).assumingMemoryBound(to: CChar.self))
                }
                if name != "." && name != ".." { names.append(name) }
            }
            let code = Glibc.errno
            return code == 0 ? .success(names) : .failure(Errno(rawValue: code))
        }
    }
}

extension UInt64 {
    fileprivate func multipliedSaturating(by other: UInt64) -> UInt64 {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}

/// A counting semaphore whose time limits follow the monotonic clock.
///
/// Those of Dispatch wait for a point in wall time on Linux (`sem_timedwait`): a clock that is set back meanwhile holds
/// whoever waits for as long.
///
/// **Cost** A signal and a wait that finds one are an atomic operation each; a wait that sleeps is a system call.
@safe package final class WaitSemaphore: @unchecked Sendable {
    // `@unchecked Sendable`: the C functions may be called by any thread.
    private let semaphore: UnsafeMutablePointer<sem_t>

    package init() {
        unsafe semaphore = .allocate(capacity: 1)
        // SAFETY, of all calls: the memory is allocated until `deinit`, and no thread waits without a reference.
        unsafe sem_init(semaphore, 0, 0)
    }

    deinit {
        unsafe sem_destroy(semaphore)
        unsafe semaphore.deallocate()
    }

    package func signal() { unsafe sem_post(semaphore) }

    /// Takes a signal, and waits for it as long as it takes.
    package func wait() { while unsafe sem_wait(semaphore) != 0 && errno == EINTR {} }

    /// Takes a signal, and waits for it so long at most; `false` if none came.
    package func wait(nanosecondsMax: UInt64) -> Bool {
        if unsafe sem_trywait(semaphore) == 0 { return true }
        if nanosecondsMax == 0 { return false }
        return unsafe ingest_semaphore_wait(semaphore, nanosecondsMax)
    }
}
