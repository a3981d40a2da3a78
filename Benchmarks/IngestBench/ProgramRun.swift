import Foundation
import IngestClient

/// One run of a program from start to exit, as a shell would see it; its output is dropped.
struct ProgramRun {
    let seconds: Double
    let exitCode: Int32

    init(_ program: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let startedAt = SenderClock.monotonicNanoseconds()
        try process.run()
        process.waitUntilExit()
        seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        exitCode = process.terminationStatus
    }
}
