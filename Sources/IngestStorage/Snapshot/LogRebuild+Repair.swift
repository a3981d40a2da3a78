// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

extension LogRebuild {
    /// As `run` with tables and names, of a log of which footers are damaged too: their segments are sealed again from their
    /// blocks before, and what of those cannot be read is recorded as lost. For a start: nobody else may use the directory.
    ///
    /// A crash leaves the manifest that was there; a segment that was sealed again is taken as it is by the next attempt.
    /// - Parameter bad: as in `run`: where the names were all that hindered it, no footer is looked at.
    /// - Returns: what was published, and lines for the log about what was lost.
    /// **Errors** As `run`.
    static func repairing(
        _ store: ManifestStore<Files>, after manifest: Manifest, bad: Set<FileName>
    ) throws(StorageError) -> (made: Manifest, losses: [String]) {
        let files = try files(of: store, for: manifest, names: .made, hasTables: false) { false }
        guard var named = files else { return (manifest, []) }
        named.generation = manifest.generation
        do throws(StorageError) {
            return try repairing(store, named, bad)
        } catch {
            if case .durabilityLost = error { throw error }
            let kept = Set(manifest.namesRuns)
            for run in named.namesRuns where !kept.contains(run) {
                try? store.unlink(run.fileName)
            }
            throw error
        }
    }

    private static func repairing(
        _ store: ManifestStore<Files>, _ named: Manifest, _ bad: Set<FileName>
    ) throws(StorageError) -> (made: Manifest, losses: [String]) {
        if !bad.isEmpty {
            let made = try StorageError.readable { () throws(StorageError) in
                try run(store, after: named, bad: bad, mayMiss: true)
            }
            if let made { return (made, []) }
        }
        let repaired = try FooterRepair(
            of: named.sealed.indices, files: store.files, manifest: named,
            keys: try store.readKeys(of: named), now: named.createdAt
        ).run()
        var losses = RecoveryReport.messages(of: repaired.segments)
        var missingCount: UInt64 = 0
        for entry in named.expired {
            missingCount += try UInt64(
                RunReader(entry.run, directory: named.directory, in: store.files).readExpired()
                    .missingCount)
        }
        if missingCount > 0 {
            losses.append(
                "\(missingCount) segments had expired without a footer: their counters were in the damaged runs "
                    + "alone, and are lost; those that were replaced are in aside/")
        }
        return (try run(store, after: repaired.manifest, mayMiss: missingCount > 0), losses)
    }
}
