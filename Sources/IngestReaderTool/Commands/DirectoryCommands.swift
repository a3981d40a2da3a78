// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import SystemPackage

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "The cut, segments, files, and what became of packets.")

    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            let status = try reader.status()
            // The cut is a field of its own here: `--with-cut` has nothing to add.
            try RowFormatter(format: formatter.format, cut: nil, output: formatter.output)
                .one(status.fields(isForPerson: formatter.format == .table))
        }
    }
}

extension DirectoryStatus {
    /// - Parameter isForPerson: leave out packets and events of which there are none.
    package func fields(isForPerson: Bool) -> [Field] {
        func named<Key: NamedCode>(_ counts: [Key: UInt64]) -> Cell {
            isForPerson ? .counts(counts) : .counts(counts, of: Key.allCases)
        }
        return [
            Field("cut", cut.cell),
            Field("durable", durable.cell),
            Field("compacted", compacted.cell),
            Field("generation", .count(generation)),
            Field(
                "windows",
                .fields([Field("idsCompleteSince", .time(idsCompleteSinceMicroseconds))])),
            Field(
                "segments",
                .fields([
                    Field("sealed", .count(UInt64(sealedSegmentCount))),
                    Field("unsealed", .count(UInt64(unsealedSegmentCount))),
                ])),
            Field("expired", expired?.cell ?? .none),
            Field("files", .count(UInt64(fileCount))),
            Field("bytes", .count(byteCount)),
            Field("names", .count(UInt64(nameCount))),
            Field("keys", .count(UInt64(keyCount))),
            Field("rows", .count(rowCount)),
            Field("packets", named(packets)),
            Field("events", named(events)),
            Field("lostRanges", .count(UInt64(lostRangeCount))),
            Field("uncleanStops", .list(uncleanStops.map(\.cell))),
        ]
    }
}

extension DirectoryStatus.UncleanStopRecord {
    fileprivate var cell: Cell {
        .fields([
            Field("foundAt", .time(foundAtMicroseconds)),
            Field("position", position.cell),
        ])
    }
}

extension ExpiredPart {
    fileprivate var cell: Cell {
        .fields([
            Field("lastSegment", .count(UInt64(lastSegment))),
            Field("rows", .count(rowCount)),
            Field("newestEvent", .time(newestEventMicroseconds)),
            Field("missingSegments", .count(UInt64(missingSegmentCount))),
        ])
    }
}

struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "The structure of one segment, run, manifest or mark, human-readable.",
        discussion: """
            Prints what can be read of a damaged file too; the exit code is then 65. Names, the \
            key of the event hash, and whether the numbers are right are not shown. Always text: \
            --format and --with-cut are not taken.
            """)

    @Argument(
        help: ArgumentHelp(
            "The file: a path, or the name of a file in the data directory.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String?

    func run() throws {
        let path = Environment.resolved(path) ?? path
        _ = try Environment.openRegular(path, "give a file of a data directory")
        let output = OutputBuffer(StandardOutput.write)
        let (directory, name) = ExportCommand.split(path)
        var inspector = Inspector(try Environment.files(at: directory), name: name) { line in
            output.put(TerminalText.escaped(line) + "\n")
        }
        let isSound = try inspector.run()
        try Ending.check(
            isSound ? EXIT_SUCCESS : 65,
            "corrupt: see the lines marked CORRUPT, \(path), restore what ingest-reader verify names"
        ) { try output.flush() }
    }

    /// A name without a folder is one of the data directory, if that is given and has it.
    private var path: String {
        guard let data, !file.contains("/") else { return file }
        return Self.isThere(file, in: data) || !Self.isThere(file, in: ".")
            ? "\(data)/\(file)" : file
    }

    private static func isThere(_ name: String, in directory: String) -> Bool {
        (try? LinuxFileSystem(path: directory, create: false).open(name, .read)) != nil
    }
}

struct RebuildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract:
            "Make manifest, names and counter tables again from the log; stop the daemon first.",
        discussion: """
            Merges the footers of all segments, and of expired ones, into one run of each table, and the \
            names that the blocks introduced into one names run. Segments whose footers cannot be read are \
            sealed again from their blocks first, if none of these is damaged. Where footers have not all, \
            only names and tables that are damaged are made, as far as sound ones and the log have them. \
            Damaged files that are no longer needed go to aside/; sound ones that were there before are \
            removed by the next start of the daemon.
            """)

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String

    func run() throws {
        let output = OutputBuffer(StandardOutput.write)
        do throws(StorageError) {
            let (manifest, losses) = try rebuild()
            for line in losses {
                ReaderProgram.standardError("ingest-reader: \(TerminalText.escaped(line))\n")
            }
            for run in manifest.runs {
                output.put("\(run.table.name): \(run.rowCount) rows\n")
            }
        } catch {
            if case .missingManifest(_, fileCount: 0) = error { throw ReaderError(error) }
            throw Ending(code: error.exitCode, message: "\(error)")
        }
        try output.flush()
    }

    private func rebuild() throws(StorageError) -> LogRebuild<LinuxFileSystem>.Outcome {
        let files = try LinuxFileSystem(path: data, create: false)
        // Before the lock, whose file would be left in a directory that is somebody else's.
        guard try DataDirectory.isThere(in: files) else {
            throw .missingManifest(directory: files.path, fileCount: 0)
        }
        let lock = try files.lock(FileName.lock.text)
        defer { withExtendedLifetime(lock) {} }
        try DataDirectory.checkVersions(files)
        let store = ManifestStore(files: files)
        let newest: Manifest
        do { newest = try store.readNewest(isWhole: false) } catch {
            switch error {
            case .missingManifest, .corrupt: newest = try LogRebuild.manifest(of: files)
            default: throw error
            }
        }
        try store.checkExpired(of: newest)
        try DataDirectory.checkTail(of: newest, in: files)
        return try LogRebuild.all(of: newest, store)
    }
}

struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "A consistent copy of a directory, whether or not a daemon is running on it.",
        discussion: """
            Copies the newest generation, the segments, and the log behind it up to the last durable block. --out \
            names a new or empty directory; the copy is verified at the end, and a line of JSON says what is in it. With \
            --out - it is a tar archive on standard output, and at the end the directory is verified, in its newest \
            generation by then. Exit code 0 means that the copy is whole; of an archive, that all of it was written and \
            that the directory is sound: unpack it and run verify to know more. To restore, stop the daemon and put the \
            copy in the place of the directory.
            """)

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir")) var data: String
    @Option(
        help: ArgumentHelp("A new or empty directory, or - for a tar archive.", valueName: "path"))
    var out: String

    func run() throws {
        do {
            let backup = try DirectoryBackup(of: LinuxFileSystem(path: data, create: false))
            if out == "-" {
                var archive = TarArchive()
                try backup.copy(to: &archive)
                // An archive that has gone into a pipe cannot be read again. The directory can: its segments are still leased,
                // its generation may be a newer one.
                return try withExtendedLifetime(backup) {
                    let verified = try verify(data)
                    try Ending.check(verified.exitCode, verified.failure(in: data)) {}
                }
            }
            try checkTarget()
            var copy = try emptyDirectory()
            try backup.copy(to: &copy)
            try report(copy.fileCount, copy.byteCount, backup.end)
        } catch let error as StorageError {
            throw Ending(code: error.exitCode, message: "\(error)")
        } catch let errno as Errno where out == "-" {
            // Nothing but the exit code says that the archive is whole.
            throw Ending.cannotWrite("\(errno)", "standard output")
        }
    }

    private func emptyDirectory() throws -> BackupDirectory<LinuxFileSystem> {
        let files = try LinuxFileSystem(path: out, create: true)
        do throws(StorageError) { return try BackupDirectory(in: files) } catch {
            guard case .foreignDirectory = error else { throw error }
            throw Ending(code: 64, message: "--out: \(error)")
        }
    }

    /// Neither in a data directory nor below one, whatever the path is called.
    private func checkTarget() throws {
        func parent(_ path: String) -> String { ExportCommand.split(path).directory }
        var path = out
        // Also the working directory may be gone.
        while Environment.resolved(path) == nil, path != "/", path != "." { path = parent(path) }
        var place = Environment.resolved(path) ?? "/"
        if path == out { place = parent(place) }
        while true {
            if let files = try? LinuxFileSystem(path: place, create: false),
                try DataDirectory.isThere(in: files)
            {
                throw Ending(
                    code: 64,
                    message:
                        "--out is inside a data directory, \(out), back up to another directory")
            }
            if place == "/" { return }
            place = parent(place)
        }
    }

    private func verify(_ directory: String) throws -> VerifyReport {
        do throws(VerifyError) { return try Verifier(directory: directory).run() } catch {
            throw Ending(code: error.cause?.exitCode ?? 74, message: "\(error)")
        }
    }

    private func report(_ fileCount: Int, _ byteCount: UInt64, _ end: LogPosition) throws {
        let verified = try verify(out)
        let fields = [
            Field("files", .count(UInt64(fileCount))), Field("bytes", .count(byteCount)),
            Field("cut", Cut(segment: end.segment.rawValue, block: end.blockCount).cell),
            Field("rows", .count(verified.rowCount)), Field("verify", .text(verified.result)),
        ]
        let line = OutputBuffer.bytes { ValueText.json.put(fields, to: $0) } + [0x0A]
        try Ending.check(verified.exitCode, verified.failure(in: out)) {
            try StandardOutput.write(line)
        }
    }
}

/// A POSIX tar archive (ustar) on standard output.
struct TarArchive: BackupSink {
    private static let blockByteCount = 512
    private var padding = 0

    mutating func begin(_ name: String, byteCount: UInt64) throws {
        try StandardOutput.write(
            [UInt8](repeating: 0, count: padding) + Self.header(name, byteCount))
        padding = Self.padding(byteCount)
    }

    func add(_ bytes: [UInt8]) throws { try StandardOutput.write(bytes) }

    mutating func finish() throws {
        let end = 2 * Self.blockByteCount
        try StandardOutput.write([UInt8](repeating: 0, count: padding + end))
    }

    private static func padding(_ byteCount: UInt64) -> Int {
        let rest = Int(byteCount % UInt64(blockByteCount))
        return rest == 0 ? 0 : blockByteCount - rest
    }

    /// Name, mode 0600, owner 0, size, time 0, checksum, type of a regular file, magic and version.
    static func header(_ name: String, _ byteCount: UInt64) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: blockByteCount)
        func put(_ text: String, at offset: Int) {
            bytes.replaceSubrange(offset..<offset + text.utf8.count, with: text.utf8)
        }
        func octal(_ value: UInt64, _ count: Int) -> String {
            let digits = String(value, radix: 8)
            return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
        }
        put(name, at: 0)
        put(octal(0o600, 7), at: 100)
        put(octal(0, 7), at: 108)
        put(octal(0, 7), at: 116)
        if byteCount < 1 << 33 {
            put(octal(byteCount, 11), at: 124)
        } else {
            // Beyond 8 GiB: base 256, as GNU tar and POSIX readers take it.
            bytes[124] = 0x80
            for place in 0..<8 {
                bytes[135 - place] = UInt8(truncatingIfNeeded: byteCount >> (8 * UInt64(place)))
            }
        }
        put(octal(0, 11), at: 136)
        put("        ", at: 148)
        put("0", at: 156)
        put("ustar\u{0}00", at: 257)
        put(octal(bytes.reduce(0) { $0 + UInt64($1) }, 6) + "\u{0} ", at: 148)
        return bytes
    }
}
