// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

/// The process id in the lock file, for the message of the one who finds it locked. Decimal text and a
/// newline; a hint only: the lock is the kernel's, never the file's content.
enum LockHolder {
    private static let byteCountMax = 16

    static func write(_ pid: Int32, to file: some StorageFile) {
        let text = Array("\(pid)\n".utf8)
        // A hint that cannot be written is no reason not to start.
        try? file.truncate(to: 0)
        try? file.write(text, at: 0)
    }

    static func read(from file: some StorageFile) -> Int32? {
        guard let bytes = try? file.readArray(at: 0, byteCount: byteCountMax) else { return nil }
        let text = String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self)
        return Int32(text).flatMap { $0 > 0 ? $0 : nil }
    }
}
