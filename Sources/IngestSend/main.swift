// file → [lines] → send → packet → socket

import ArgumentParser
import Glibc
import IngestFormat

// Every way out of the program ends here: help and version on standard output, an error as one line on
// standard error, with the exit code that docs/sending.md lists.
do {
    var command = try IngestSend.parseAsRoot()
    try command.run()
} catch let code as ExitCode {
    // Its line was printed.
    exit(code.rawValue)
} catch {
    if IngestSend.exitCode(for: error) == .success { IngestSend.exit(withError: error) }
    let message = OneLine.joined(IngestSend.message(for: error))
    exit(fail("\(message), command line, see 'ingest-send --help'", exitCode: 64).rawValue)
}
