// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Records of eight words, kept in parts that are read one by one: what does not fit its buffers is in a temporary file
/// without a name, which goes with the process. Owned by one reconciliation.
///
/// **Cost** The memory of the buffers, 16 bytes for each that was written, 64 bytes a record on disk.
final class Spill<Files: FileSystem> {
    typealias Record = InlineArray<8, UInt64>

    private static var recordByteCount: Int { 64 }

    private let files: Files
    private let bufferRecordCount: Int
    private var buffers: [[Record]]
    private var file: Files.File?
    private var byteCount: UInt64 = 0
    /// By part: what was written of it.
    private var chunks: [[(offset: UInt64, recordCount: Int)]]
    private(set) var recordCount: UInt64 = 0

    var partCount: Int { buffers.count }

    /// - Parameters:
    ///   - partCount: at least 1.
    ///   - byteCountMax: what all buffers may take.
    ///   - files: where the file is made.
    init(partCount: Int, byteCountMax: Int, in files: Files) {
        self.files = files
        bufferRecordCount = max(8, min(byteCountMax / partCount, 1 << 20) / Self.recordByteCount)
        buffers = Array(repeating: [], count: partCount)
        chunks = Array(repeating: [], count: partCount)
    }

    /// Adds a record to the part that its hash falls into.
    func append(_ record: Record, hash: UInt64) throws(ReaderError) {
        let part = Int(hash.multipliedFullWidth(by: UInt64(partCount)).high)
        buffers[part].append(record)
        recordCount += 1
        if buffers[part].count == bufferRecordCount { try write(part) }
    }

    private func write(_ part: Int) throws(ReaderError) {
        var writer = ByteWriter(capacity: bufferRecordCount * Self.recordByteCount)
        for record in buffers[part] {
            for word in record.indices { writer.append(u64: record[word]) }
        }
        try ReaderError.reading { () throws(StorageError) in
            if file == nil { file = try Self.makeFile(in: files) }
            try file?.write(writer.bytes, at: byteCount)
        }
        chunks[part].append((byteCount, buffers[part].count))
        byteCount += UInt64(writer.byteCount)
        buffers[part].removeAll(keepingCapacity: true)
    }

    private static func makeFile(in files: Files) throws(StorageError) -> Files.File {
        let name = "ingest-reader.\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).tmp"
        let file = try files.create(name)
        try files.unlink(name)
        return file
    }

    /// Gives the records of a part in the order in which they were added.
    func forEach(
        in part: Int, _ body: (Record) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        if let file {
            for chunk in chunks[part] {
                let bytes = try ReaderError.reading { () throws(StorageError) in
                    try file.readArray(
                        at: chunk.offset, byteCount: chunk.recordCount * Self.recordByteCount)
                }
                try ByteReader.reading(bytes) { (reader) throws(ReaderError) in
                    for _ in 0..<chunk.recordCount {
                        var record = Record(repeating: 0)
                        for word in record.indices {
                            guard let value = reader.readU64() else { throw .cutScratch(file.path) }
                            record[word] = value
                        }
                        try body(record)
                    }
                }
            }
        }
        for record in buffers[part] { try body(record) }
    }
}

extension ReaderError {
    fileprivate static func cutScratch(_ path: String) -> ReaderError {
        ReaderError(
            kind: .io, what: "a temporary file is shorter than it was written", path: path,
            advice: "check the disk")
    }
}
