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
