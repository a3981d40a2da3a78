// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat

extension StorageError {
    /// What a decoder said of the bytes at `offset` of a file.
    package init(path: String, offset: UInt64 = 0, _ error: FormatError) {
        switch error {
        case .newerFormat(let fault):
            self = .newerFormat(path: path, version: UInt32(truncatingIfNeeded: fault.got))
        case .torn, .corrupt, .notThisFile:
            let place = offset &+ UInt64(max(0, error.fault.offset))
            self = .corrupt(path: path, offset: place, detail: "\(error)")
        }
    }

    /// Runs a decoder over bytes of a file, and names the file in its error.
    package static func decoding<Result>(
        _ path: String, at offset: UInt64 = 0, _ body: () throws(FormatError) -> Result
    ) throws(StorageError) -> Result {
        do { return try body() } catch { throw StorageError(path: path, offset: offset, error) }
    }
}
