// packet → [tag] → decode → …

import Glibc
import IngestFormat

extension KeysFile {
    /// Reads a file that its owner alone can read: mode 0400 or 0600.
    ///
    /// **Errors** Those of `init`, and `unreadable`, `notAFile`, `mode`, `tooLarge`.
    package init(path: String) throws(KeysError) {
        // Without waiting for a writer, should somebody have put a pipe there.
        // SAFETY: the path is copied by the kernel.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .unreadable(path: path, errno: errno) }
        defer { _ = close(descriptor) }
        // Asked of what was opened, not of the path, which may change under our hands.
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0 else {
            throw .unreadable(path: path, errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notAFile(path: path) }
        let mode = status.st_mode & 0o7777
        guard mode == 0o400 || mode == 0o600 else { throw .mode(path: path, mode: mode) }
        try self.init(Self.bytes(descriptor, path), path: path)
    }

    private static func bytes(_ descriptor: Int32, _ path: String) throws(KeysError) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            // SAFETY: at most the piece's own bytes are written.
            let count = unsafe piece.withUnsafeMutableBytes {
                unsafe read(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0 {
                if errno == EINTR { continue }
                throw .unreadable(path: path, errno: errno)
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= Limits.keysFileByteCountMax else {
                throw .tooLarge(path: path, byteCountMax: Limits.keysFileByteCountMax)
            }
        }
    }
}
