// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestReader
import IngestStorage

struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "The structure of one segment, run, manifest or mark, for persons.",
        discussion: """
            Prints what can be read of a damaged file too; the exit code is then 65. Names, the \
            key of the event hash, and whether the numbers are right are not shown.
            """)

    @Argument(help: ArgumentHelp("The file.", valueName: "file")) var file: String

    func run() throws {
        let output = OutputBuffer(StandardOutput.write)
        let isSound = try Inspector.run(path: file) { line in
            output.bytes.append(contentsOf: (TerminalText.escaped(line) + "\n").utf8)
        }
        try output.flush()
        if !isSound {
            throw Ending(
                code: 65,
                message: "corrupt: see the lines marked CORRUPT, \(file), "
                    + "restore the file from a copy")
        }
    }
}
