// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// The lines of a text file, from any place on, each as bytes without its newline.
///
/// **Cost** 1 MiB, and the longest line up to its limit: of a longer one only so much is given as shows that it is.
struct TextLines<File: StorageFile> {
    /// Of one read.
    private static var chunkByteCount: Int { 1 << 20 }
    private static var shortChunkByteCount: Int { 4 << 10 }
    /// One byte more than an event may have.
    private static var lineByteCountMax: Int { Limits.packetByteCountMax + 1 }

    let file: File

    /// Gives the lines from `offset` on, with the place of each; the last one also without a newline.
    /// - Parameter body: `false` ends it.
    func forEach(
        from start: UInt64 = 0, chunkByteCount: Int = Self.chunkByteCount,
        _ body: (UInt64, ArraySlice<UInt8>) throws(ReaderError) -> Bool
    ) throws(ReaderError) {
        var (offset, lineStart) = (start, start)
        // What is there of a line that goes on in the next chunk.
        var beginning: [UInt8] = []
        while true {
            let chunk = try ReaderError.reading { () throws(StorageError) in
                try file.readArray(at: offset, byteCount: chunkByteCount)
            }
            if chunk.isEmpty { break }
            var rest = chunk[...]
            while let end = rest.firstIndex(of: 0x0A) {
                var line = rest[..<end]
                if !beginning.isEmpty {
                    Self.add(line, to: &beginning)
                    line = beginning[...]
                }
                guard try body(lineStart, line) else { return }
                beginning.removeAll(keepingCapacity: true)
                lineStart = offset + UInt64(end) + 1
                rest = rest[(end + 1)...]
            }
            Self.add(rest, to: &beginning)
            offset += UInt64(chunk.count)
        }
        if !beginning.isEmpty { _ = try body(lineStart, beginning[...]) }
    }

    /// Gives the line at `offset`, as above.
    func give(
        lineAt offset: UInt64, _ body: (ArraySlice<UInt8>) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        try forEach(from: offset, chunkByteCount: Self.shortChunkByteCount) {
            (_, line) throws(ReaderError) in
            try body(line)
            return false
        }
    }

    private static func add(_ more: ArraySlice<UInt8>, to line: inout [UInt8]) {
        line += more.prefix(lineByteCountMax - line.count)
    }
}
