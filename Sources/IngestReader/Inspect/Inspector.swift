// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

/// Describes the structure of one file of a data directory as text. It believes nothing that fails a
/// check, prints what it could read, and says what it cannot see.
package struct Inspector<Files: FileSystem> {
    let files: Files
    let name: String
    /// What the file's name says it is, where it is a name of ours.
    let meant: FileName?
    private let emit: (String) -> Void
    /// Whether everything that was read passed its checks.
    private(set) var isSound = true

    private static var magicByteCount: Int { 4 }

    package init(_ files: Files, name: String, emit: @escaping (String) -> Void) {
        self.files = files
        self.name = name
        meant = FileName(name)
        self.emit = emit
    }

    /// Prints the file.
    /// - Returns: whether all of it is sound.
    /// **Errors** `notFound`, `io`. Damage is no error: it is printed.
    package mutating func run() throws(ReaderError) -> Bool {
        do throws(StorageError) {
            try describe(try files.open(name, .read))
        } catch {
            guard error.exitCode == 65 else { throw ReaderError(error) }
            bad("\(error)")
        }
        return isSound
    }

    private mutating func describe(_ file: Files.File) throws(StorageError) {
        let byteCount = try file.byteCount()
        let head = try file.readArray(at: 0, byteCount: Self.magicByteCount)
        let magic = head.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        line("file", "\(name), \(byteCount) bytes")
        switch magic {
        case SegmentHeader.magic: try describeSegment(file, byteCount: byteCount)
        case RunHeader.magic: try describeRun(file)
        case NamesRun.Header.magic: try describeNames(file)
        case Manifest.magic: try describeManifest(file)
        case DurableMark.magic: try describeMark(file)
        default:
            if name == FileName.lock.text {
                describeLock(try file.readArray(at: 0, byteCount: 64))
            } else {
                bad("not a file of ingestd: it begins with \(Self.hex(magic))")
            }
        }
    }

    // MARK: Lines

    func line(_ label: String, _ text: String) {
        let gap = String(repeating: " ", count: max(1, 11 - label.utf8.count))
        emit("\(label)\(gap)\(text)")
    }

    func indented(_ text: String) { emit("           \(text)") }

    mutating func bad(_ text: String) {
        isSound = false
        line("CORRUPT", text)
    }

    /// Decodes a part at `offset`; `nil` after a line that says what is wrong.
    mutating func decoding<Value>(
        _ what: String, at offset: UInt64, _ body: () throws(FormatError) -> Value
    ) -> Value? {
        do throws(FormatError) { return try body() } catch {
            bad("\(what) at offset \(offset): \(error)")
            return nil
        }
    }

    /// The fields of an image, by the table that encodes and decodes it too.
    static func text<Record>(_ image: [UInt8], _ layout: Layout<Record>) -> String {
        layout.values(in: image).map { name, value in
            if name.hasSuffix("checksum") || name == "directory" || name == "magic" {
                return "\(name) \(hex(value))"
            }
            let isTime = name.hasSuffix(" at") || name.hasSuffix("timestamp")
            return "\(name) \(isTime ? TimeText.utc(Int64(bitPattern: value)) : String(value))"
        }.joined(separator: ", ")
    }

    func list<Record>(_ label: String, _ entries: [Record], _ layout: Layout<Record>) {
        for entry in entries { line(label, Self.text(layout.image(of: entry), layout)) }
    }

    static func hex(_ value: some FixedWidthInteger) -> String { "0x" + String(value, radix: 16) }

    // MARK: Small files

    private mutating func describeMark(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: DurableMark.byteCount)
        let mark = decoding("durable mark", at: 0) { () throws(FormatError) in
            try DurableMark.decode(bytes)
        }
        guard let mark else { return }
        line("mark", "everything before \(mark.position.text) is durable")
        line("directory", Self.hex(mark.directory.rawValue))
        cannotSee("the log: it may be durable further than the mark says")
    }

    private mutating func describeLock(_ bytes: [UInt8]) {
        if !LockHolder.isWellFormed(bytes) {
            bad("neither empty nor what a daemon wrote")
        } else {
            let pid = String(decoding: bytes.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
            line("lock", bytes.isEmpty ? "never held" : "last held by process \(pid)")
        }
        cannotSee("whether it is held: the kernel knows")
    }

    func cannotSee(_ what: String) { line("not seen", what) }
}

extension Inspector where Files == LinuxFileSystem {
    /// As `run`, of a file at any path.
    package static func run(
        path: String, emit: @escaping (String) -> Void
    ) throws(ReaderError) -> Bool {
        let slash = path.lastIndex(of: "/")
        let name = slash.map { String(path[path.index(after: $0)...]) } ?? path
        let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let files: LinuxFileSystem
        do throws(StorageError) {
            files = try LinuxFileSystem(path: directory, create: false)
        } catch { throw ReaderError(error) }
        var inspector = Inspector(files, name: name, emit: emit)
        return try inspector.run()
    }
}
