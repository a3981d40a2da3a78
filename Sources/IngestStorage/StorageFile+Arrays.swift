// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

extension StorageFile {
    /// Writes an array; as `write` of its bytes.
    package func write(_ bytes: [UInt8], at offset: UInt64) throws(StorageError) {
        // SAFETY: bytes of an array are initialised; the span ends with the call.
        try write(unsafe bytes.span.bytes, at: offset)
    }

    /// The `byteCount` bytes from `offset` on, fewer where the file ends earlier.
    /// - Parameter byteCount: checked against a limit by the caller: so much memory is taken.
    package func readArray(at offset: UInt64, byteCount: Int) throws(StorageError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: byteCount)
        var span = bytes.mutableSpan
        // SAFETY: any bytes are a valid array of u8.
        var raw = unsafe span.mutableBytes
        let count = try read(into: &raw, at: offset)
        if count < byteCount { bytes.removeLast(byteCount - count) }
        return bytes
    }

    /// The whole file.
    ///
    /// **Errors** `overLimit` if it is larger than `byteCountMax`, before memory is taken.
    package func readAll(byteCountMax: Int) throws(StorageError) -> [UInt8] {
        let byteCount = try self.byteCount()
        guard byteCount <= UInt64(byteCountMax) else {
            throw .overLimit(path: path, detail: "\(byteCount) of at most \(byteCountMax) bytes")
        }
        return try readArray(at: 0, byteCount: Int(byteCount))
    }
}
