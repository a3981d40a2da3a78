// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat
import SystemPackage

/// What can go wrong with a data directory. Every case names the path; `description` is one line, *what,
/// where, what to do*; `exitCode` is the one a program ends with when it cannot go on.
package enum StorageError: Error, Equatable, Sendable {
    /// A system call failed.
    case io(path: String, call: String, errno: Int32)
    /// No space or no quota left. Nothing that was durable is lost; the call can be made again.
    /// - Parameter wanted: bytes that have to be free for it, where that is known beforehand.
    case diskFull(path: String, call: String, errno: Int32, wanted: UInt64? = nil)
    /// A sync failed: what was written since the last good one may be gone although it can still be read.
    /// Final for the file: never synced again, never acked. A restart seals what survived.
    case durabilityLost(path: String, call: String, errno: Int32)
    case notFound(path: String)
    case alreadyExists(path: String)
    /// Another process has the lock; its id if it could be read.
    case locked(path: String, holder: Int32?)
    case missingDirectory(path: String)
    /// The directory has other things in it, one of which is `name`, and none of a log.
    case foreignDirectory(path: String, name: String)
    /// Files of a log are there, but no manifest that says what they are.
    case missingManifest(directory: String, fileCount: Int)
    /// The bytes at `offset` are not what was written there.
    case corrupt(path: String, offset: UInt64, detail: String)
    /// The directory, or a file in it that this process writes to, is not there any more.
    case removed(path: String, detail: String)
    /// Written by a later version of the project.
    case newerFormat(path: String, version: UInt32)
    /// A bound of `Limits` or of the caller would be passed.
    case overLimit(path: String, detail: String)

    /// The error of a system call other than a sync.
    package init(path: String, call: String, errno code: Int32) {
        switch Errno(rawValue: code) {
        case .noSpace, .diskQuotaExceeded: self = .diskFull(path: path, call: call, errno: code)
        case .noSuchFileOrDirectory: self = .notFound(path: path)
        case .fileExists: self = .alreadyExists(path: path)
        default: self = .io(path: path, call: call, errno: code)
        }
    }

    /// The exit code; the table is in docs/operations.md.
    package var exitCode: Int32 {
        switch self {
        case .corrupt, .newerFormat, .removed: 65
        case .notFound, .missingDirectory, .foreignDirectory, .missingManifest: 66
        case .locked: 69
        case .durabilityLost: 71
        case .io, .diskFull, .alreadyExists, .overLimit: 74
        }
    }
}

extension StorageError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .io(let path, let call, let errno):
            "\(call) failed: \(Self.text(errno)), \(path), \(remedy)"
        case .diskFull(let path, let call, let errno, _):
            "disk full: \(call): \(Self.text(errno)), \(path), free space or inodes on this file system; "
                + "nothing durable was lost"
        case .durabilityLost(let path, let call, let errno):
            "durability lost: \(call): \(Self.text(errno)), \(path), check the disk, then start "
                + "again: what reached the disk is sealed at the start"
        case .notFound(let path):
            "no such file, \(path), check the path"
        case .alreadyExists(let path):
            "the file exists already, \(path), it is not overwritten: check what created it"
        case .locked(let path, let holder?):
            "another daemon (pid \(holder)) uses this directory, \(path), stop it or use another"
        case .locked(let path, nil):
            "another daemon uses this directory, \(path), stop it or use another"
        case .missingDirectory(let path):
            "no such directory, \(path), check that it is a directory and that its parent exists"
        case .foreignDirectory(let path, let name):
            "the directory holds other files (\(name)), \(path), name an empty directory or a new one"
        case .missingManifest(let directory, let fileCount):
            "no manifest beside \(fileCount) log files, \(directory), restore the *.manifest files; "
                + "an existing log is not opened as a new directory"
        case .corrupt(let path, let offset, let detail):
            "corrupt: \(detail), \(path) at byte \(offset), restore the file from a copy"
        case .removed(let path, let detail):
            "\(detail), \(path), find out what removed it; ingest-reader reconcile tells what to send again"
        case .newerFormat(let path, let version):
            "written by a newer version (format \(version)), \(path), use that version"
        case .overLimit(let path, let detail):
            "over a limit: \(detail), \(path)"
        }
    }

    /// The same without what to do, where that was done.
    package var finding: String {
        switch self {
        case .notFound(let path): "no such file, \(path)"
        case .missingManifest(let directory, let fileCount):
            "no manifest beside \(fileCount) log files, \(directory)"
        case .corrupt(let path, let offset, let detail):
            "corrupt: \(detail), \(path) at byte \(offset)"
        default: description
        }
    }

    /// What `body` reads, or `nil` where the file is missing or damaged.
    ///
    /// **Errors** What else `body` throws: `io`, `newerFormat`, …
    package static func readable<Value>(
        _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do { return try body() } catch {
            switch error {
            case .notFound, .corrupt: return nil
            default: throw error
            }
        }
    }

    /// The file of ours that is missing or damaged, if that is it.
    package var damagedFile: FileName? {
        switch self {
        case .notFound(let path), .corrupt(let path, _, _):
            path.split(separator: "/").last.flatMap { FileName(String($0)) }
        default: nil
        }
    }

    /// What to do about a call that failed.
    package var remedy: String {
        switch shortage {
        case .writeAccess: "check why the file system is read-only, and remount it read-write"
        case .resources: "raise the limit on open files (ulimit -n), or free memory"
        case .space, nil: accessHint ?? "check the disk and the permissions"
        }
    }

    /// Whose the file or directory is that this process may not use; or that a later call will do.
    private var accessHint: String? {
        guard case .io(let path, _, let code) = self else { return nil }
        if Errno(rawValue: code) == .resourceTemporarilyUnavailable { return "try again" }
        guard
            Errno(rawValue: code) == .permissionDenied || Errno(rawValue: code) == .notPermitted
        else { return nil }
        let parent = path.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        for place in [path, parent.joined(separator: "/")] where !place.isEmpty {
            guard case .success(let found) = SystemCall.access(place) else { continue }
            return
                "\(place) belongs to user \(found.owner) with mode \(found.mode), this process is user "
                + "\(found.user): run it as that user, or give it access"
        }
        return nil
    }

    /// The system's word for it, and its number.
    package static func text(_ errno: Int32) -> String {
        "\(Errno(rawValue: errno).description) (\(errno))"
    }
}

/// What a call was refused for want of, although nothing is broken and nothing was lost: the same call can be made
/// again once it is back.
package enum Shortage: UInt8, Sendable, CaseIterable {
    /// No space or no quota is left.
    case space = 1
    /// The file system is mounted read-only.
    case writeAccess
    /// No descriptor, of the process or of the machine, or no memory in the kernel.
    case resources
}

extension StorageError {
    /// What is to come back before the same call can succeed; `nil` for what waiting does not mend.
    package var shortage: Shortage? {
        switch self {
        case .diskFull: .space
        case .io(_, _, let code):
            switch Errno(rawValue: code) {
            case .readOnlyFileSystem: .writeAccess
            case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory: .resources
            default: nil
            }
        default: nil
        }
    }

    /// A sync that failed for want of space, told as `diskFull`: only for a file, or a stretch of one, that is
    /// written anew from memory and of which nothing was relied on. Any other failed sync stays final.
    package var ofUnneededBytes: StorageError {
        guard case .durabilityLost(let path, let call, let code) = self else { return self }
        switch Errno(rawValue: code) {
        case .noSpace, .diskQuotaExceeded: return .diskFull(path: path, call: call, errno: code)
        default: return self
        }
    }
}

extension StorageError {
    /// A read that failed because of what is on the disk there, told as `corrupt`; any other stays as it is.
    ///
    /// A sector that cannot be read (EIO) and metadata that the file system does not believe (EBADMSG, EUCLEAN) cost what
    /// is there, and are never a reason not to start.
    func ofBytes(at offset: UInt64) -> StorageError {
        guard case .io(let path, _, let code) = self else { return self }
        switch Errno(rawValue: code) {
        case .ioError, .badMessage, Errno(rawValue: 117):
            return .corrupt(
                path: path, offset: offset, detail: "cannot be read: \(Self.text(code))")
        default: return self
        }
    }

    /// What a decoder said of the bytes at `offset` of a file.
    package init(path: String, offset: UInt64 = 0, _ error: FormatError) {
        switch error {
        case .newerFormat(let fault):
            self = .newerFormat(path: path, version: UInt32(truncatingIfNeeded: fault.got))
        case .torn, .corrupt, .notThisFile:
            let place = offset &+ UInt64(max(0, error.fault.offset))
            let detail = if case .corrupt(let fault) = error { "\(fault)" } else { "\(error)" }
            self = .corrupt(path: path, offset: place, detail: detail)
        }
    }

    /// Runs a decoder over bytes of a file, and names the file in its error.
    package static func decoding<Result>(
        _ path: String, at offset: UInt64 = 0, _ body: () throws(FormatError) -> Result
    ) throws(StorageError) -> Result {
        do { return try body() } catch { throw StorageError(path: path, offset: offset, error) }
    }
}

extension StorageError {
    /// Whether bytes on disk are to blame: what `verify` reports and goes on behind.
    package var isOfData: Bool {
        switch self {
        case .corrupt, .newerFormat, .overLimit: true
        default: false
        }
    }
}

extension FormatFault {
    /// What differs, without the place: `checksum is 0x1f, expected 0x2e`.
    package var comparison: String { "\(field) is \(gotText), expected \(expectedText)" }

    package var gotText: String { "0x" + String(got, radix: 16) }

    package var expectedText: String {
        switch expected {
        case .value(let value): "0x" + String(value, radix: 16)
        case .max(let value): "at most 0x" + String(value, radix: 16)
        case .min(let value): "at least 0x" + String(value, radix: 16)
        }
    }
}
