import ArgumentParser
import Foundation
import Glibc
import IngestFormat

// Every way out of the program ends here: help and version on standard output, an error as one line on
// standard error; 64 for wrong usage, 1 for what could not be measured.
do {
    var command = try IngestBench.parseAsRoot()
    try command.run()
} catch let code as ExitCode {
    exit(code.rawValue)
} catch {
    let code = IngestBench.exitCode(for: error)
    if code == .success { IngestBench.exit(withError: error) }
    let isUsage = code == .validationFailure
    let message = OneLine.escaped(OneLine.joined(IngestBench.message(for: error)))
    let advice = isUsage ? ", command line, see 'ingest-bench --help'" : ""
    FileHandle.standardError.write(Data("ingest-bench: \(message)\(advice)\n".utf8))
    exit(isUsage ? 64 : 1)
}
