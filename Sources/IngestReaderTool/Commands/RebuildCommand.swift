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
            names that the blocks introduced into one names run. Nothing changes where a footer cannot be \
            read. The files that were there before are removed by the next start of the daemon.
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
        let bad = try store.badRuns(of: newest) ?? BadRuns()
        let damaged = try store.damagedNames(of: newest.namesRuns, newest.directory)
        var isBad = bad.areNamesBad || !damaged.isEmpty
        // What is lost may be in blocks that have come back from a copy.
        if !isBad { isBad = try store.lostText(of: newest) != nil }
        let made = try LogRebuild.run(
            store, after: try LogRebuild.complete(newest, bad, store),
            names: isBad ? .made : .kept)
        return made.runs
    }
}
