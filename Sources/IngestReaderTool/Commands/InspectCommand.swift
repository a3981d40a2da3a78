// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestReader
import IngestStorage

struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "The structure of one segment, run, manifest or mark, human-readable.",
        discussion: """
            Prints what can be read of a damaged file too; the exit code is then 65. Names, the \
            key of the event hash, and whether the numbers are right are not shown. Always text: \
            --format and --with-cut are not taken.
            """)

    @Argument(
        help: ArgumentHelp(
            "The file: a path, or the name of a file in the data directory.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String?

    func run() throws {
        let path = path
        let output = OutputBuffer(StandardOutput.write)
        let isSound = try Inspector.run(path: path) { line in
            output.put(TerminalText.escaped(line) + "\n")
        }
        try Ending.check(
            isSound ? EXIT_SUCCESS : 65,
            "corrupt: see the lines marked CORRUPT, \(path), restore the file from a copy"
        ) { try output.flush() }
    }

    /// A name without a folder is one of the data directory, if that is given and has it.
    private var path: String {
        guard let data, !file.contains("/") else { return file }
        return Self.isThere(file, in: data) || !Self.isThere(file, in: ".")
            ? "\(data)/\(file)" : file
    }

    private static func isThere(_ name: String, in directory: String) -> Bool {
        (try? LinuxFileSystem(path: directory, create: false).open(name, .read)) != nil
    }
}
