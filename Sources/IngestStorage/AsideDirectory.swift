// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import Glibc
import IngestFormat

/// The folder `aside/`: where bytes and files go that cannot be used and may be evidence. Nothing in it is
/// used by the daemon again, and nothing in it is ever overwritten.
package struct AsideDirectory<Files: FileSystem> {
    private let files: Files
    private let aside: Files
    private let taken = TakenNames()

    private static var copyByteCount: Int { 1 << 20 }

    /// The names in the folder; `nil` until one is asked for.
    private final class TakenNames {
        var names: Set<String>?
    }

    /// Opens the folder, and makes it durably if it is not there.
    package init(of files: Files) throws(StorageError) {
        self.files = files
        aside = try files.subdirectory(FileName.aside.text, create: true)
        try files.syncDirectory()
    }

    /// Moves a file of the data directory here, durably; or removes it, where it was kept here before.
    /// - Returns: its name here, with the folder's.
    package func take(_ name: String) throws(StorageError) -> String {
        var isFirst = true
        let free = try freeName(name) { (present) throws(StorageError) in
            defer { isFirst = false }
            return isFirst ? try isCopy(present, of: name) : false
        }
        if free.isTaken {
            try files.unlink(name)
        } else {
            try files.move(name, to: free.name, in: aside)
            try aside.syncDirectory()
        }
        try files.syncDirectory()
        return "\(FileName.aside.text)/\(free.name)"
    }

    /// Gives a file of the data directory a name here too, durably: its bytes stay when the other name goes. Once, however
    /// often it is called; what is no regular file, each time.
    ///
    /// **Cost** No room but for the name, until the other one goes. Both are read where there is a file of that name here.
    package func keep(_ name: String) throws(StorageError) {
        let free = try freeName(name) { (present) throws(StorageError) in
            try isCopy(present, of: name)
        }
        if !free.isTaken {
            do throws(StorageError) {
                try files.link(name, to: free.name, in: aside)
            } catch .io(_, _, errno: EPERM) where isNoFile(name) {
                // It has one name alone, and is in the way of what takes its place.
                try files.move(name, to: free.name, in: aside)
                try aside.syncDirectory()
                try files.syncDirectory()
            }
        }
        try aside.syncDirectory()
    }

    /// Whether something else than a regular file has this name.
    private func isNoFile(_ name: String) -> Bool {
        do { _ = try files.open(name, .read) } catch { if case .corrupt = error { return true } }
        return false
    }

    /// Copies a part of a file here, durably; once, however often it is called. 255 stands for each byte that the disk
    /// cannot read.
    /// - Returns: the copy's name, with the folder's.
    package func copy(
        _ range: Range<UInt64>, of file: Files.File, as name: String
    ) throws(StorageError) -> String {
        let free = try freeName(name) { (present) throws(StorageError) in
            try isCopy(present, of: file, range)
        }
        if !free.isTaken { try write(range, of: file, as: free.name) }
        return "\(FileName.aside.text)/\(free.name)"
    }

    private func write(
        _ range: Range<UInt64>, of file: Files.File, as name: String
    ) throws(StorageError) {
        let temporary = name + ".tmp"
        do { try aside.unlink(temporary) } catch {
            guard case .notFound = error else { throw error }
        }
        let copy = try aside.create(temporary)
        let buffer = ReadBuffer(capacity: Self.copyByteCount)
        var done: UInt64 = 0
        while done < UInt64(range.count) {
            let count = min(UInt64(Self.copyByteCount), UInt64(range.count) - done)
            try buffer.readAround(file, at: range.lowerBound + done, byteCount: Int(count))
            if buffer.byteCount == 0 { break }
            try buffer.withBytes { (bytes) throws(StorageError) in try copy.write(bytes, at: done) }
            done += UInt64(buffer.byteCount)
        }
        try copy.sync()
        try aside.rename(temporary, to: name)
        try aside.syncDirectory()
    }

    private func isCopy(_ present: Files.File, of name: String) throws(StorageError) -> Bool {
        let isSame = try StorageError.readable { () throws(StorageError) in
            let file = try files.open(name, .read)
            return try isCopy(present, of: file, 0..<file.byteCount())
        }
        return isSame ?? false
    }

    private func isCopy(
        _ present: Files.File, of file: Files.File, _ range: Range<UInt64>
    ) throws(StorageError) -> Bool {
        guard try present.byteCount() == UInt64(range.count) else { return false }
        let (one, other) = (ReadBuffer(), ReadBuffer())
        var done: UInt64 = 0
        while done < UInt64(range.count) {
            let count = Int(min(UInt64(Self.copyByteCount), UInt64(range.count) - done))
            try one.readAround(present, at: done, byteCount: count)
            try other.readAround(file, at: range.lowerBound + done, byteCount: count)
            if one.array(0..<one.byteCount) != other.array(0..<other.byteCount) { return false }
            done += UInt64(count)
        }
        return true
    }

    /// `name`, or `name.1` and so on: the first that is not taken, which it is then, or whose file will do as it is.
    private func freeName(
        _ name: String, _ isGood: (Files.File) throws(StorageError) -> Bool
    ) throws(StorageError) -> (name: String, isTaken: Bool) {
        if taken.names == nil { taken.names = Set(try aside.names()) }
        var number = 0
        while true {
            let candidate = number == 0 ? name : "\(name).\(number)"
            if taken.names?.insert(candidate).inserted == true { return (candidate, false) }
            let file = try StorageError.readable { () throws(StorageError) in
                try aside.open(candidate, .read)
            }
            if let file, try isGood(file) { return (candidate, true) }
            number += 1
        }
    }
}
