import Foundation
import Glibc
import IngestFormat

/// The exit codes that scripts may rely on; those of BSD's sysexits where there is one.
enum ExitReason: Int32 {
    case usage = 64
    case dataWrong = 65
    case notThere = 66
    case notAvailable = 69
    case durabilityLost = 71
    case inputOutput = 74
    case configuration = 78
}

/// An error that ends the program: one line on stderr (what, where, what to do) and an exit code.
struct Fault: Error, Equatable {
    let reason: ExitReason
    let message: String

    init(_ reason: ExitReason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    /// The line, whatever the message quotes: one line of bounded length that a terminal only shows.
    var line: String { "ingestd: \(OneLine.escaped(message))" }
}

extension Fault {
    /// Ends the process. Nothing is left to flush: files are written and synced by their own owners.
    func exit() -> Never {
        Self.print(line)
        Glibc.exit(reason.rawValue)
    }

    private static func print(_ line: String) {
        FileHandle.standardError.write(Data((line + "\n").utf8))
    }
}
