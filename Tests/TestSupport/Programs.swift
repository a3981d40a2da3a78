import Foundation
import Glibc

/// Where the tests find what is checked in beside them.
package enum Repository {
    package static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The bytes of a golden file.
    /// - Parameter name: under Tests/Fixtures, as `v1/block.bin`.
    package static func fixture(_ name: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: root.appending(path: "Tests/Fixtures/\(name)")))
    }
}

/// The programs under test: those that were built beside this test binary, or those in the directory
/// that `INGESTD_PROGRAMS` names (to run the same tests against a release build).
package enum Programs {
    package static let directory: String = {
        if let chosen = ProcessInfo.processInfo.environment["INGESTD_PROGRAMS"] { return chosen }
        let testBinary = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        var folder = testBinary.deletingLastPathComponent()
        while folder.path != "/" {
            if FileManager.default.isExecutableFile(atPath: folder.path + "/ingestd") {
                return folder.path
            }
            folder.deleteLastPathComponent()
        }
        return Repository.root.appendingPathComponent(".build/debug").path
    }()

    package static func path(_ name: String) -> String {
        name.hasPrefix("/") ? name : "\(directory)/\(name)"
    }

    /// Where a program of the machine is; `nil` if it is not there.
    /// - Parameter name: looked up as a shell does, or its path.
    package static func found(_ name: String) -> String? {
        let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":") ?? []
        let paths = name.hasPrefix("/") ? [name] : folders.map { "\($0)/\(name)" }
        return paths.first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}

/// What a program that has ended left behind.
package struct Ended {
    /// The exit code, or 128 + the signal that ended it.
    package let code: Int32
    package let output: String
    package let errors: String

    /// The lines of the standard error that do not come from the log.
    package var errorLines: [Substring] { errors.split(separator: "\n") }
}

/// A program that was started and whose output goes to files, so that it never waits for a reader.
package final class Running {
    package let process = Process()
    /// It stays until the program and what it printed are done with.
    private let folder: TemporaryFolder
    private let outputPath: String
    private let errorPath: String

    /// - Parameters:
    ///   - input: what it reads; nothing by default.
    ///   - output: takes the place of the file of its standard output.
    ///   - directory: where it starts; the test's own by default.
    package init(
        _ program: String, _ arguments: [String], in folder: TemporaryFolder,
        input: FileHandle = .nullDevice, output: FileHandle? = nil, directory: URL? = nil,
        environment: [String: String] = [:]
    ) throws {
        self.folder = folder
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
        process.standardOutput = output ?? FileHandle(forWritingAtPath: outputPath)
        process.standardError = FileHandle(forWritingAtPath: errorPath)
        process.standardInput = input
        if let directory { process.currentDirectoryURL = directory }
        try process.run()
    }

    package var output: String { Self.text(of: outputPath) }
    package var errors: String { Self.text(of: errorPath) }
    package var pid: Int32 { process.processIdentifier }
    package var isRunning: Bool { process.isRunning }

    package func send(_ signal: Int32) { kill(pid, signal) }

    /// Waits for the end; a program that does not end is killed, which shows as 128 + 9.
    package func end(withinSeconds seconds: Double = 60) -> Ended {
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
package func run(
    _ program: String, _ arguments: [String], in folder: TemporaryFolder,
    input: FileHandle = .nullDevice, output: FileHandle? = nil, directory: URL? = nil,
    environment: [String: String] = [:], withinSeconds seconds: Double = 60
) throws -> Ended {
    try Running(
        program, arguments, in: folder, input: input, output: output, directory: directory,
        environment: environment
    )
    .end(withinSeconds: seconds)
}

/// Waits for a condition. The deadline is generous: only a broken program reaches it.
package func eventually(
    withinSeconds seconds: Double = 60, _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
        if try condition() { return true }
        if ContinuousClock.now > deadline { return false }
        Thread.sleep(forTimeInterval: 0.01)
    }
}
