import ArgumentParser
import Glibc
import IngestFormat
import IngestStorage

// Every way out of the program ends here: help and version on standard output, an error as one line on
// standard error, with the exit code that docs/operations.md lists.
ProcessStart.prepare()
do {
    var command = try IngestdCommand.parseAsRoot(
        IngestdCommand.withRun(Array(CommandLine.arguments.dropFirst())))
    try command.run()
} catch let fault as Fault {
    fault.exit()
} catch {
    if IngestdCommand.exitCode(for: error) == .success { IngestdCommand.exit(withError: error) }
    let message = OneLine.joined(IngestdCommand.message(for: error))
    Fault(.usage, "\(message), command line, see 'ingestd --help'").exit()
}
