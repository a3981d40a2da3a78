import IngestFormat
import IngestStorage

/// What the files of a snapshot hold and take on disk, by the newest manifest.
struct SnapshotFigures {
    private let manifest: Manifest

    init(_ directory: String) throws {
        let files = try LinuxFileSystem(path: directory, create: false)
        manifest = try ManifestStore(files: files).readNewest()
    }

    /// Rows of the largest run that holds rewards, of no more keys than there are: of a directory that was stopped,
    /// about all of them.
    var rewardCountMax: UInt64 {
        min(
            manifest.runs(of: .rewards).map { UInt64($0.rowCount) }.max() ?? 0,
            UInt64(manifest.shard.nextKey))
    }

    func report() throws {
        Report.heading("the snapshot")
        Report.line(
            "segments",
            "\(manifest.sealed.count), \(grouped(manifest.sealed.reduce(0) { $0 + $1.rowCount })) events, "
                + mebibytes(manifest.sealed.reduce(0) { $0 + $1.byteCount }))
        for table in TableKind.counterTables {
            let runs = manifest.runs.filter { $0.table == table }
            let rowCount = runs.reduce(0) { $0 + $1.rowCount }
            let byteCount = runs.reduce(0) { $0 + $1.byteCount }
            Report.line(
                "\(table)",
                "\(runs.count) runs, \(grouped(rowCount)) rows, \(mebibytes(byteCount)), "
                    + "\(fixed(Double(byteCount) / Double(max(1, rowCount)), 1)) bytes/row")
        }
        let names = manifest.namesRuns
        let nameCount = names.reduce(0) { $0 + $1.names.count }
        let byteCount = names.reduce(0) { $0 + $1.byteCount }
        Report.line(
            "names",
            "\(names.count) runs, \(grouped(nameCount)) names, "
                + "\(grouped(names.reduce(0) { $0 + $1.keys.count })) keys, \(mebibytes(byteCount)), "
                + "\(fixed(Double(byteCount) / Double(max(1, nameCount)), 1)) bytes/name",
            goal: "≤ 48")
    }
}
