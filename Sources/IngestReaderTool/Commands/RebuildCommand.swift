// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
import ArgumentParser
import IngestFormat
import IngestStorage

struct RebuildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract:
            "Make manifest, names and counter tables again from the log; stop the daemon first.",
        discussion: """
            Merges the footers of all segments, and of expired ones, into one run of each table, and the \
            names that the blocks introduced into one names run. Where a footer cannot be read, only names \
            and tables that are damaged are made, as far as sound ones and the log have them; nothing \
            changes where they have not. The files that were there before are removed by the next start \
            of the daemon; where the log has lost blocks, copies of the runs stay in aside/.
            """)

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String

    func run() throws {
        let output = OutputBuffer(StandardOutput.write)
        do throws(StorageError) {
            for run in try rebuild() {
                output.put("\(run.table.name): \(run.rowCount) rows\n")
            }
        } catch {
            throw Ending(code: error.exitCode, message: "\(error)")
        }
        try output.flush()
    }

    private func rebuild() throws(StorageError) -> [RunEntry] {
        let files = try LinuxFileSystem(path: data, create: false)
        let lock = try files.lock(FileName.lock.text)
        defer { withExtendedLifetime(lock) {} }
        let store = ManifestStore(files: files)
        let newest: Manifest
        do { newest = try store.readNewest(isWhole: false) } catch {
            switch error {
            case .missingManifest, .corrupt: newest = try LogRebuild.manifest(of: files)
            default: throw error
            }
        }
        try store.checkExpired(of: newest)
        return try LogRebuild.all(of: newest, store).manifest.runs
    }
}
