// file → [lines] → send → packet → socket

import ArgumentParser
import Glibc
import IngestFormat
import IngestStorage

// Every way out of the program ends here: help and version on standard output, an error as one line on
// standard error, with the exit code that docs/sending.md lists.
var arguments = Array(CommandLine.arguments.dropFirst())
var root: any ParsableCommand.Type = IngestSend.self
var name = "ingest-send"
let commands: [String: any ParsableCommand.Type] = [
    "check": Check.self, "spool": SpoolCommand.self,
]
if let first = arguments.first, let command = commands[first] {
    arguments.removeFirst()
    (root, name) = (command, "ingest-send \(first)")
}
// Who reads its output may go away, and its events are sent all the same: that shows as EPIPE at a write.
ProcessStart.prepare(isAnswer: root != IngestSend.self)
do {
    var command = try root.parseAsRoot(arguments)
    try command.run()
} catch let code as ExitCode {
    // Its line was printed.
    exit(code.rawValue)
} catch {
    if root.exitCode(for: error) == .success { root.exit(withError: error) }
    let message = OneLine.joined(root.message(for: error))
    exit(fail("\(message), command line, see '\(name) --help'", exitCode: 64).rawValue)
}
