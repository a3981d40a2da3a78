// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestStorage
import SystemPackage

/// Runs one command and turns every way in which it can end into an exit code of docs/operations.md and, where
/// something is wrong, one line on stderr: `ingest-reader: what, where, what to do`.
package enum ReaderProgram {
    static let name = "ingest-reader"

    /// - Parameter sqlite: what writes SQLite files, in the program that is linked with it.
    package static func run(_ arguments: [String], sqlite: SQLiteWriter? = nil) -> Int32 {
        // A reader that went away (`| head`) shows as EPIPE at the write, and is no error.
        ProcessStart.prepare(isAnswer: true)
        do {
            let ordered = Self.subcommandFirst(arguments)
            try Self.requireCommand(ordered)
            var command = try ReaderCommand.parseAsRoot(ordered)
            if let export = command as? ExportCommand {
                if export.format == .sqlite, sqlite == nil {
                    throw SiblingProgram.failureToBecome("\(name)-sqlite", arguments)
                }
                try export.run(sqlite: sqlite)
            } else {
                try command.run()
            }
            return EXIT_SUCCESS
        } catch let ending as Ending {
            return report(ending)
        } catch let error as ReaderError {
            return report(Ending(code: exitCode(of: error), message: error.description))
        } catch let errno as Errno {
            return report(errno)
        } catch {
            return reportUsage(error, of: arguments)
        }
    }

    private static let commonOptions = ["--data", "--format", "--with-cut"]

    /// Lets the common options stand before the command's name too: `--data DIR rewards`.
    static func subcommandFirst(_ arguments: [String]) -> [String] {
        var rest = arguments[...]
        var moved: [String] = []
        while let first = rest.first {
            if first == "--with-cut" || first.hasPrefix("--data=") || first.hasPrefix("--format=") {
                moved.append(rest.removeFirst())
            } else if first == "--data" || first == "--format", rest.count > 1 {
                moved += [rest.removeFirst(), rest.removeFirst()]
            } else {
                break
            }
        }
        guard let command = rest.popFirst() else { return arguments }
        return [command] + moved + rest
    }

    /// Names a first word that is no command: the parser would complain of what stands behind it.
    static func requireCommand(_ arguments: [String]) throws {
        guard let first = arguments.first else {
            throw Ending(code: 64, message: "no command, command line, see \(name) --help")
        }
        let names = ReaderCommand.configuration.subcommands.map { $0.configuration.commandName }
        if commonOptions.contains(where: { first == $0 || first.hasPrefix("\($0)=") }) {
            throw Ending(
                code: 64, message: "no command behind the options, command line, see \(name) --help"
            )
        }
        let wanted = first == "help" ? arguments.dropFirst().first ?? first : first
        if wanted.hasPrefix("-") || wanted == "help" || names.contains(wanted) { return }
        throw Ending(
            code: 64,
            message: "no command '\(wanted)' in this version, command line, see \(name) --help")
    }

    /// A failed write. That nobody reads any more is no error.
    private static func report(_ errno: Errno) -> Int32 {
        if errno == .brokenPipe { return EXIT_SUCCESS }
        return report(.cannotWrite("\(errno)", "standard output"))
    }

    private static func report(_ ending: Ending) -> Int32 {
        if let message = ending.message { note(message) }
        return ending.code
    }

    /// A line on stderr, of which nothing acts on a terminal.
    static func note(_ message: String) {
        standardError("\(name): \(TerminalText.escaped(message))\n")
    }

    /// What the argument parser throws: help and version, or wrong usage.
    private static func reportUsage(_ error: any Error, of arguments: [String]) -> Int32 {
        let code = ReaderCommand.exitCode(for: error)
        guard !code.isSuccess else {
            do {
                try StandardOutput.write(Array(ReaderCommand.fullMessage(for: error).utf8) + [10])
            } catch { return report(error as? Errno ?? .ioError) }
            return EXIT_SUCCESS
        }
        var message = ReaderCommand.message(for: error).split(separator: "\n").joined(
            separator: " ")
        if message.hasSuffix(".") { message.removeLast() }
        // The parser takes an id or a number with a dash in front for options.
        let isDashed = arguments.prefix { $0 != "--" }.contains {
            $0.hasPrefix("-") && !$0.hasPrefix("--") && !["-", "-h"].contains($0)
        }
        let advice =
            isDashed
            ? "; write --option=-value, or an id that begins with - behind --" : ""
        return report(
            Ending(code: 64, message: "\(message), command line, see \(name) --help\(advice)"))
    }

    static func exitCode(of error: ReaderError) -> Int32 {
        switch error.kind {
        case .corrupt, .newerFormat: 65
        case .notFound, .missingManifest: 66
        case .io: 74
        }
    }

    static func standardError(_ text: String) {
        _ = try? FileDescriptor.standardError.writeAll(text.utf8)
    }
}

/// A command that ends with another code than 0; `message` is for stderr.
struct Ending: Error {
    let code: Int32
    let message: String?

    /// Ends a check. Its verdict is lost to no reader that went away: a pipe that is closed, or a full
    /// disk, matters only where nothing was found.
    static func check(
        _ code: Int32, _ message: @autoclosure () -> String, writing write: () throws -> Void
    ) throws {
        var failure: (any Error)?
        do { try write() } catch { failure = error }
        if code != EXIT_SUCCESS { throw Ending(code: code, message: message()) }
        if let failure { throw failure }
    }

    /// A failed write into a file, or where answers go.
    /// - Parameter code: 71 where a sync failed.
    static func cannotWrite(_ what: String, _ path: String, code: Int32 = 74) -> Ending {
        Ending(code: code, message: "cannot write: \(what), \(path), check where it goes")
    }
}

enum StandardOutput {
    static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Writes answers in a format: on a terminal without what it would act on.
    static func writer(of format: OutputFormat) -> ([UInt8]) throws -> Void {
        enlargePipe()
        guard isTerminal, format != .table else { return write }
        return { try write(TerminalText.escaped($0, format)) }
    }

    static func write(_ bytes: [UInt8]) throws {
        _ = try FileDescriptor.standardOutput.writeAll(bytes)
    }

    /// Gives standard output as much room as any process may have by default, where it is a pipe that has less. With the 64 KiB
    /// of a new pipe, who writes and who reads wait for each other all the time: an export as NDJSON into `wc -l` took half as
    /// long again. Where it is no pipe, or the system refuses, nothing changes.
    private static func enlargePipe() {
        let wanted: Int32 = 1 << 20
        let byteCount = fcntl(STDOUT_FILENO, pipeSize.get)
        if byteCount < 0 || byteCount >= wanted { return }
        _ = fcntl(STDOUT_FILENO, pipeSize.set, wanted)
    }

    /// `F_GETPIPE_SZ` and `F_SETPIPE_SZ` of fcntl(2), which Glibc's module does not import.
    private static let pipeSize: (get: Int32, set: Int32) = (1032, 1031)
}

/// What `--version` prints: the release, and the versions of what it reads.
enum ReaderVersion {
    static let text = "\(ReaderProgram.name) \(Release.version), files \(FileEnvelope.version)"
}

/// A program that is installed beside this one.
enum SiblingProgram {
    /// Replaces this process by the program `name`, with the same arguments, descriptors and environment. Returns
    /// only if that fails, with why.
    ///
    /// *The corresponding C function is execv(3).*
    static func failureToBecome(_ name: String, _ arguments: [String]) -> Ending {
        guard let folder else {
            return Ending(
                code: 74, message: "realpath failed (errno \(errno)), /proc/self/exe, mount /proc")
        }
        let path = "\(folder)/\(name)"
        // SAFETY: C strings of our own, ended by nil, which live until they are freed below.
        var words: [UnsafeMutablePointer<CChar>?] = unsafe ([path] + arguments).map {
            unsafe strdup($0)
        }
        unsafe words.append(nil)
        unsafe execv(path, words)
        let code = errno
        unsafe words.forEach { unsafe free($0) }
        if code == ENOENT {
            return Ending(
                code: 69,
                message:
                    "program not found: \(name), needed for --format sqlite, \(path), install it there"
            )
        }
        return Ending(
            code: 74, message: "execv failed (errno \(code)), \(path), check the program")
    }

    /// Where this program lies.
    private static var folder: String? {
        Environment.resolved("/proc/self/exe").map { ExportCommand.split($0).directory }
    }
}

/// What the system knows by a name.
enum Environment {
    /// A path without links; `nil` where nothing is there. *The corresponding C function is realpath(3).*
    static func resolved(_ path: String) -> String? {
        // SAFETY: realpath gives a C string that is ours to free, or nil.
        guard let resolved = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(resolved) }
        return unsafe String(cString: resolved)
    }

    static func files(at path: String) throws -> LinuxFileSystem {
        do { return try LinuxFileSystem(path: path, create: false) } catch {
            throw ReaderError(error)
        }
    }

    /// A file that an operator gave: it may be a link.
    static func openRegular(_ path: String, _ advice: String) throws -> LinuxFile {
        let (directory, name) = ExportCommand.split(resolved(path) ?? path)
        do { return try files(at: directory).open(name, .read) } catch {
            guard let error = error as? StorageError else { throw error }
            guard case .corrupt = error else { throw ReaderError(error) }
            throw Ending(code: 66, message: "not a regular file, \(path), \(advice)")
        }
    }

    /// A variable of the process's environment; `nil` where it is not set, or empty.
    static func value(_ name: String) -> String? {
        // SAFETY: getenv gives a C string that nobody changes in this process, or nil.
        guard let value = unsafe getenv(name) else { return nil }
        let text = unsafe String(cString: value)
        return text.isEmpty ? nil : text
    }
}
