// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
import ArgumentParser
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify

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
            var copy = try BackupDirectory(in: LinuxFileSystem(path: out, create: true))
            try backup.copy(to: &copy)
            try report(copy.fileCount, copy.byteCount, backup.end)
        } catch let error as StorageError {
            throw Ending(code: error.exitCode, message: "\(error)")
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
