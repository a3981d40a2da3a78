// file → [lines] → send → spool → packet

import CIngestLinux
import Glibc
import IngestClient
import IngestFormat

/// Stays with the file of a name through rotation: the file that was renamed is read to its end before the new one of the
/// name, also after a restart, which finds it in the directory by its inode.
///
/// A file is left when another one has its name, and nothing was written to it since, or for `settlingNanoseconds`: its writer
/// goes on with it until it opens the name again. What is written to it later is not read, and said so.
struct FileFollower {
    /// nginx and logrotate take milliseconds to reopen; two seconds cost only delay.
    static let settlingNanoseconds: UInt64 = 2_000_000_000

    private let path: String
    private let tell: (String) -> Void
    private var current: FollowedFile?
    /// Those that had the name after it, the last of which has it now.
    private var next: [FollowedFile] = []
    /// The one that was read to its end before.
    private var left: FollowedFile?
    /// Those that were read to their end, the newest last: a number of an inode alone is given to new files.
    private var done: [(inode: UInt64, made: UInt64)] = []
    private static let doneCountMax = 64
    private var toldOf: String?

    /// - Parameters:
    ///   - note: of the spool, and whether all of its input was acked.
    ///   - tell: prints a line.
    ///
    /// **Errors** The name is of something that cannot be followed, or the spool holds a part of another input.
    init(
        path: String, from note: SpoolNote, hasEnded: Bool, now: UInt64,
        tell: @escaping (String) -> Void
    ) throws(AgentFailure) {
        (self.path, self.tell) = (path, tell)
        if note.isFollowed {
            try find(note)
        } else if note.position > 0, !hasEnded {
            let failure = SendJob.Failure.otherInput
            throw AgentFailure(failure.description, exitCode: failure.exitCode)
        }
        // What cannot be read at the start will not be later, unless it is not there yet.
        if try !notice(now: now) {
            say("\(path.debugDescription) is not there yet, waiting for it")
        }
    }

    /// Reads on. Take all lines of the file that it returns, with `isFinal`, before the next call.
    ///
    /// - Returns: `nil` where there is nothing to read now.
    mutating func advance(
        now: UInt64
    ) throws(AgentFailure) -> (file: FollowedFile, isFinal: Bool)? {
        do throws(AgentFailure) {
            _ = try notice(now: now)
        } catch {
            say(error.message)
        }
        watchLeft()
        if current == nil, !next.isEmpty { current = next.removeFirst() }
        guard let file = current else { return nil }
        let hasMore = try file.fill()
        // Behind the read: what it has read of a file that was written anew since the last look is dropped.
        for file in [file] + next { try look(at: file, now: now) }
        if hasMore { return (file, false) }
        guard !next.isEmpty, now - min(now, file.changedAt) >= Self.settlingNanoseconds else {
            return nil
        }
        (left, current) = (file, next.removeFirst())
        done.append((file.inode, file.times.made))
        if done.count > Self.doneCountMax { done.removeFirst() }
        return (file, true)
    }

    private func look(at file: FollowedFile, now: UInt64) throws(AgentFailure) {
        guard let lost = try file.look(now: now) else { return }
        let count = lost.isEmpty ? "" : ", at least \(lost.count) bytes,"
        tell(
            "\(file.path.debugDescription) was truncated: what was written behind its byte \(lost.lowerBound)"
                + " before the truncation\(count) was not read and is lost here; where a copy was made it is there (tail -c"
                + " +\(lost.lowerBound + 1) COPY); rotate by renaming instead (logrotate without copytruncate)"
        )
    }

    /// Looks who has the name; a file that was not known is read after those that are.
    ///
    /// - Returns: `false` if there is none.
    private mutating func notice(now: UInt64) throws(AgentFailure) -> Bool {
        var status = stat()
        // SAFETY: the path is copied; the kernel writes one stat.
        guard unsafe stat(path, &status) == 0 else {
            if errno == ENOENT { return false }
            throw .file(path, errno)
        }
        let known = next.last ?? current
        if let known, known.inode == UInt64(status.st_ino), known.device == UInt64(status.st_dev) {
            return true
        }
        // More than one may have had the name since it was looked at.
        let names = namesOfParts()
        let file = try FollowedFile(path: path)
        var found = [file]
        if let known { found = between(known, names.map(\.name), before: file) + found }
        // While names change one may be seen twice and another not at all: they are looked at again.
        guard namesOfParts().elementsEqual(names, by: ==),
            (try FollowedFile(path: path)).inode == file.inode
        else { return true }
        known?.changedAt = now
        next += found
        toldOf = nil
        return true
    }

    private mutating func watchLeft() {
        guard let file = left, file.unreadByteCount > 0 else { return }
        tell(
            "\(file.unreadByteCount) bytes were written to a file that had been renamed and read to its end, they"
                + " are not sent: make its writer open \(path.debugDescription) again at once")
        left = nil
    }

    private mutating func say(_ message: String) {
        if message == toldOf { return }
        toldOf = message
        tell(message)
    }

    // MARK: What was renamed unseen

    /// Where the place is: in the file of the name, or in one that had it. The device is not compared: its number may be
    /// another one after a restart of the machine.
    ///
    /// **Errors** It may not be read: what is behind the place is not given up for that.
    private mutating func find(_ note: SpoolNote) throws(AgentFailure) {
        let others = otherFiles()
        for name in [path] + others.filter({ $0.inode == note.inode }).map(\.name) {
            // SAFETY: the path is copied by the kernel. By what this process may now, not by who started it.
            if unsafe faccessat(AT_FDCWD, name, R_OK, AT_EACCESS) != 0, errno == EACCES {
                throw .file(name, EACCES)
            }
            guard let file = try? FollowedFile(path: name), file.resume(at: note) else { continue }
            current = file
            if name != path {
                next = between(
                    file, namesOfParts().map(\.name), before: try? FollowedFile(path: path))
            }
            tell("resuming \(name.debugDescription) after \(note.position) bytes sent before")
            return
        }
        tell(
            "what was followed before is gone or was truncated: lines behind its byte \(note.position) that were"
                + " not sent are lost; \(path.debugDescription) is sent from its beginning")
    }

    /// Those that had the name after the file, and were renamed while nobody looked. By their names, for copies may lie beside
    /// them.
    ///
    /// One that had the name later was made later. Where both were in one tick of the clock, those that are known are told by
    /// their inodes.
    private func between(
        _ file: FollowedFile, _ names: [String], before last: FollowedFile?
    ) -> [FollowedFile] {
        let times = file.times
        let known = ([file, last, current].compactMap { $0 } + next).map(\.inode)
        return names.compactMap { open($0, modifiedSince: times.modified) }
            .map { (file: $0, times: $0.times) }
            .filter { part in
                part.times.made >= times.made && part.times.modified >= times.modified
                    && !known.contains(part.file.inode)
                    && !done.contains { $0 == (part.file.inode, part.times.made) }
            }
            .sorted { $0.times < $1.times }.map(\.file)
    }

    /// A file, if it can be read; says so where not, and it may be one that is looked for.
    private func open(_ name: String, modifiedSince time: UInt64) -> FollowedFile? {
        do throws(AgentFailure) {
            return try FollowedFile(path: name)
        } catch {
            var status = stat()
            // SAFETY: the path is copied; the kernel writes one stat.
            if unsafe stat(name, &status) == 0, FollowedFile.modified(status) >= time {
                tell(
                    "\(error.message); its lines are not sent, make it readable and send it without --follow"
                )
            }
            return nil
        }
    }

    /// What the name was renamed to, by its looks: `.1`, `-20261125` and the like are behind it, or before its extension,
    /// where `-2` is another log's.
    private func namesOfParts() -> [(name: String, inode: UInt64)] {
        let start = path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex
        let dot = path[start...].lastIndex(of: ".") ?? path.endIndex
        return otherFiles().filter { other in
            [path.endIndex, dot].contains { end in
                let (stem, suffix) = (path[..<end], path[end...])
                guard other.name.hasPrefix(stem), other.name.hasSuffix(suffix) else { return false }
                let part = other.name.utf8.dropFirst(stem.utf8.count).dropLast(suffix.utf8.count)
                let isShort = part.first == UInt8(ascii: "-") && part.count < 9
                return part.first.map { ".-".utf8.contains($0) } == true
                    && part.dropFirst().allSatisfy { "0123456789.-_T".utf8.contains($0) }
                    && !(isShort && end < path.endIndex)
            }
        }.sorted { $0.name < $1.name }
    }

    /// What lies beside it, by its paths.
    private func otherFiles() -> [(name: String, inode: UInt64)] {
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { String(path[...$0]) } ?? "./"
        // SAFETY: the path is copied; each entry is read before the next call, and the stream closed at the end.
        guard let stream = unsafe opendir(directory) else { return [] }
        defer { unsafe closedir(stream) }
        var files: [(name: String, inode: UInt64)] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
            }
            let inode = unsafe UInt64(entry.pointee.d_ino)
            files.append((slash == nil ? name : directory + name, inode))
        }
        return files.filter { $0.name != path }
    }
}

/// A file that another program writes, read line by line from any place as far as it reaches, and on when it has grown.
///
/// A class, since several of these wait in a queue.
///
/// **Cost** A descriptor, and the buffer once it is read; at each look two system calls; for each line a CRC-32C of 256 bytes.
final class FollowedFile {
    /// So much before a place tells whether a file is still the same.
    private static let tailByteCount = 256

    let device: UInt64
    let inode: UInt64
    let path: String
    private let descriptor: Int32
    /// Has what was taken last before its next line.
    private(set) var buffer = LineBuffer(keptByteCount: tailByteCount)
    /// How far it has been read.
    private var readEnd: UInt64 = 0
    private(set) var lineNumber = 0
    /// What was found at the last look, and what stood before its end.
    private var seen: (byteCount: UInt64, modified: UInt64, tail: [UInt8]) = (0, 0, [])
    /// When it was first seen as it is, or lost its name.
    var changedAt: UInt64 = 0

    /// **Errors** It is not there, cannot be read, or is no regular file.
    init(path: String) throws(AgentFailure) {
        self.path = path
        // SAFETY: the path is copied by the kernel. A FIFO must not wait for its writer here.
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if descriptor < 0 { throw .file(path, errno) }
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw AgentFailure(
                "\(path.debugDescription) is no regular file, give one, or a pipe without --follow",
                exitCode: 66)
        }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }

    deinit { _ = close(descriptor) }

    /// How far it has been taken.
    var note: SpoolNote {
        let tail = buffer.bytes[max(0, buffer.start - Self.tailByteCount)..<buffer.start]
        return SpoolNote(
            position: position, checksum: Checksum.crc32c(tail), device: device, inode: inode)
    }

    private var position: UInt64 { readEnd - UInt64(buffer.end - buffer.start) }

    private var status: (byteCount: UInt64, modified: UInt64) {
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0 else { return (readEnd, 0) }
        return (UInt64(status.st_size), Self.modified(status))
    }

    static func modified(_ status: stat) -> UInt64 {
        UInt64(status.st_mtim.tv_sec) * 1_000_000_000 + UInt64(status.st_mtim.tv_nsec)
    }

    /// When it was made and when it was written last; the latter for both where the file system does not keep the former.
    var times: (made: UInt64, modified: UInt64) {
        let (made, modified) = (ingest_birth_nanoseconds(descriptor), status.modified)
        return (made == 0 ? modified : made, modified)
    }

    /// Bytes behind what has been read.
    var unreadByteCount: UInt64 { status.byteCount - min(status.byteCount, readEnd) }

    /// Goes to a place; `false`, and it stays at its beginning, where the bytes before that are not those of the note.
    func resume(at note: SpoolNote) -> Bool {
        guard inode == note.inode, note.position <= status.byteCount,
            let tail = try? tail(before: note.position), Checksum.crc32c(tail) == note.checksum
        else { return false }
        buffer = LineBuffer(keptByteCount: Self.tailByteCount, taken: tail)
        readEnd = note.position
        return true
    }

    /// Sees how far it reaches, and whether what was seen before is still there. Where it was truncated it begins anew.
    ///
    /// - Returns: which bytes had been seen, and were not taken before they were cut off.
    func look(now: UInt64) throws(AgentFailure) -> Range<UInt64>? {
        var cutOff: Range<UInt64>?
        if try tail(before: seen.byteCount) != seen.tail {
            // What has been read and taken since may be of what took its place.
            cutOff = min(position, seen.byteCount)..<seen.byteCount
            buffer = LineBuffer(keptByteCount: Self.tailByteCount)
            (readEnd, lineNumber, seen) = (0, 0, (0, 0, []))
        }
        let (byteCount, modified) = status
        if (byteCount, modified) != (seen.byteCount, seen.modified),
            let tail = try tail(before: byteCount)
        {
            (seen, changedAt) = ((byteCount, modified, tail), now)
        }
        return cutOff
    }

    /// Reads on; `false` at the end of the file as it is now. Call it when there is no line left.
    func fill() throws(AgentFailure) -> Bool {
        // SAFETY: the kernel writes within the place.
        let count = unsafe buffer.fill {
            unsafe pread(descriptor, $0.baseAddress, $0.count, off_t(readEnd))
        }
        if count < 0 { throw .file(path, errno) }
        readEnd += UInt64(count)
        return count > 0
    }

    /// The next line without its line end, as a place in the buffer.
    ///
    /// - Parameter isFinal: nothing is written to the file any more: what has no newline is a line too.
    func takeLine(isFinal: Bool) -> Range<Int>? {
        guard let line = buffer.takeLine(isFinal: isFinal) else { return nil }
        lineNumber += 1
        return line
    }

    /// The bytes before a place that tell the file; `nil` where it does not reach so far.
    private func tail(before end: UInt64) throws(AgentFailure) -> [UInt8]? {
        let byteCount = min(end, UInt64(Self.tailByteCount))
        var bytes = [UInt8](repeating: 0, count: Int(byteCount))
        // SAFETY: at most the array's own bytes are written.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe pread(descriptor, buffer.baseAddress, buffer.count, off_t(end - byteCount))
        }
        if count < 0 { throw .file(path, errno) }
        return count == bytes.count ? bytes : nil
    }
}

/// What ends an agent, or keeps it from starting.
struct AgentFailure: Error {
    let message: String
    let exitCode: Int32

    init(_ message: String, exitCode: Int32) {
        self.message = message
        self.exitCode = exitCode
    }

    init(_ error: ClientError) { self.init(error.description, exitCode: error.exitCode) }

    static func file(_ path: String, _ errno: Int32) -> AgentFailure {
        let failure = LineReader.Failure(path: path, errno: errno)
        return AgentFailure(failure.description, exitCode: failure.exitCode)
    }
}
