// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import IngestFormat

/// The process id in the lock file, for the message of the one who finds it locked. A hint only: the lock
/// is the kernel's, never the file's content.
///
/// **Layout** The id in decimal, a space, the CRC-32C of the id's digits in eight hexadecimal digits, a
/// newline; or nothing, where it was never written.
package enum LockHolder {
    private static let byteCountMax = 32

    package static func write(_ pid: Int32, to file: some StorageFile) {
        // A hint that cannot be written is no reason not to start.
        try? file.truncate(to: 0)
        try? file.write(text(pid), at: 0)
    }

    package static func read(from file: some StorageFile) -> Int32? {
        guard let bytes = try? file.readArray(at: 0, byteCount: byteCountMax) else { return nil }
        return pid(in: bytes)
    }

    /// Whether the file's content is nothing, or what `write` writes.
    package static func isWellFormed(_ bytes: [UInt8]) -> Bool {
        bytes.isEmpty || pid(in: bytes) != nil
    }

    private static func pid(in bytes: [UInt8]) -> Int32? {
        let digits = String(decoding: bytes.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
        guard let pid = Int32(digits), pid > 0, bytes == text(pid) else { return nil }
        return pid
    }

    private static func text(_ pid: Int32) -> [UInt8] {
        let digits = Array("\(pid)".utf8)
        let checksum = String(Checksum.crc32c(digits), radix: 16)
        let zeros = String(repeating: "0", count: 8 - checksum.utf8.count)
        return digits + Array(" \(zeros)\(checksum)\n".utf8)
    }
}
