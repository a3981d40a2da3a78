import Foundation
import Glibc

/// The programs under test: those that were built beside this test binary, or those in the directory
/// that `INGESTD_PROGRAMS` names (to run the same tests against a release build).
enum Programs {
    static let directory: String = {
        if let chosen = ProcessInfo.processInfo.environment["INGESTD_PROGRAMS"] { return chosen }
        let testBinary = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        var folder = testBinary.deletingLastPathComponent()
        while folder.path != "/" {
            if FileManager.default.isExecutableFile(atPath: folder.path + "/ingestd") {
                return folder.path
            }
            folder.deleteLastPathComponent()
        }
        return root.appendingPathComponent(".build/debug").path
    }()

    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    static func path(_ name: String) -> String {
        name.hasPrefix("/") ? name : "\(directory)/\(name)"
    }
}

/// What a program that has ended left behind.
struct Ended {
    /// The exit code, or 128 + the signal that ended it.
    let code: Int32
    let output: String
    let errors: String

    /// The lines of the standard error that do not come from the log.
    var errorLines: [Substring] { errors.split(separator: "\n") }
}

/// A program that was started and whose output goes to files, so that it never waits for a reader.
final class Running {
    let process = Process()
    private let outputPath: String
    private let errorPath: String

    init(
        _ program: String, _ arguments: [String], in folder: TemporaryFolder, input: String? = nil,
        environment: [String: String] = [:]
    ) throws {
        let name = folder.unusedName(for: (program as NSString).lastPathComponent)
        outputPath = "\(folder.path)/\(name).out"
        errorPath = "\(folder.path)/\(name).err"
        for path in [outputPath, errorPath] {
            try Data().write(to: URL(fileURLWithPath: path))
        }
        process.executableURL = URL(fileURLWithPath: Programs.path(program))
        process.arguments = arguments
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("INGESTD_") }
        variables.merge(environment) { $1 }
        process.environment = variables
        process.standardOutput = FileHandle(forWritingAtPath: outputPath)
        process.standardError = FileHandle(forWritingAtPath: errorPath)
        process.standardInput =
            input.flatMap { FileHandle(forReadingAtPath: $0) } ?? FileHandle.nullDevice
        try process.run()
    }

    var output: String { Self.text(of: outputPath) }
    var errors: String { Self.text(of: errorPath) }
    var pid: Int32 { process.processIdentifier }
    var isRunning: Bool { process.isRunning }

    func send(_ signal: Int32) { kill(pid, signal) }

    /// Waits for the end; a program that does not end is killed, which shows as 128 + 9.
    func end(withinSeconds seconds: Double = 60) -> Ended {
        _ = eventually(withinSeconds: seconds) { !process.isRunning }
        if process.isRunning { send(SIGKILL) }
        process.waitUntilExit()
        let status = process.terminationStatus
        let code = process.terminationReason == .uncaughtSignal ? 128 + status : status
        return Ended(code: code, output: output, errors: errors)
    }

    private static func text(of path: String) -> String {
        String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
    }
}

/// Runs a program to its end.
@discardableResult
func run(
    _ program: String, _ arguments: [String], in folder: TemporaryFolder, input: String? = nil,
    environment: [String: String] = [:], withinSeconds seconds: Double = 60
) throws -> Ended {
    try Running(program, arguments, in: folder, input: input, environment: environment)
        .end(withinSeconds: seconds)
}
