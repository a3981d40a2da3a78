// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Enters the sessions of the newest rows of the log, as far back as a session can reach: 48 hours, which is the life of the
/// key of its pseudonym, or `Limits.sessionRowCountMax` rows.
///
/// A session whose first row is less than a time-out behind what was not read may have begun there: what it had counted is
/// not known, and its impressions are shown as unchecked.
///
/// **Cost** Blocks with sessions: 10 ns a row and 100 ns a row with a session. Others: their headers, 1 µs each.
struct LoggedSessions<Files: FileSystem>: ~Copyable {
    private let now: Int64
    private let policy: SessionPolicy
    private let blocks: LoggedBlocks<Files>
    /// Sessions that begin before it, µs since 1970, may have begun in rows that are not read.
    private var knownFrom = Int64.min

    private init(_ policy: SessionPolicy, _ directory: DirectoryID, now: Int64) {
        (self.policy, self.now) = (policy, now)
        blocks = LoggedBlocks(directory: directory)
    }

    /// **Errors** `io`, `newerFormat`. What is damaged is left out, as rows that were not read.
    static func load(
        into rule: inout SessionRule, _ policy: SessionPolicy, of manifest: Manifest, now: Int64,
        in files: Files
    ) throws(StorageError) {
        guard rule.isOn else { return }
        var loaded = LoggedSessions(policy, manifest.directory, now: now)
        rule.beginLoading(now: now)
        for (segment, firstBlock) in try loaded.reach(manifest, in: files) {
            for block in segment.entries[firstBlock...] {
                try loaded.enter(block, of: segment, into: &rule)
            }
        }
    }

    private var timeoutMicroseconds: Int64 { Int64(policy.timeoutSeconds) * 1_000_000 }

    /// The segments that are read, in their order, each from a block on.
    private mutating func reach(
        _ manifest: Manifest, in files: Files
    ) throws(StorageError) -> [(segment: SealedBlocks<Files>, firstBlock: Int)] {
        var found: [(segment: SealedBlocks<Files>, firstBlock: Int)] = []
        var rowCount = 0
        for sealed in manifest.sealed.reversed() {
            // Nothing that is going on can be behind the newest row that ended all of it.
            let isOver =
                found.isEmpty && now &- sealed.lastCommitTime > timeoutMicroseconds
                && sealed.rowCount > 0
            if isOver { return [] }
            let segment = try SealedBlocks(sealed, directory: manifest.directory, in: files)
            var first = segment.entries.count
            while first > 0 {
                let block = segment.entries[first - 1].summary
                rowCount += block.rowCount
                // No key that is left is so old, and so no session that can be told.
                if now &- block.lastAdmissionTime > SessionKeys.lifeMicroseconds { break }
                if rowCount > Limits.sessionRowCountMax {
                    knownFrom = min(block.lastAdmissionTime, now) &+ timeoutMicroseconds
                    break
                }
                first -= 1
            }
            found.append((segment, first))
            if first > 0 { return found.reversed() }
        }
        if manifest.lastExpired.rawValue > 0, let oldest = found.last?.segment.entries.first {
            knownFrom = min(oldest.summary.admissionTime, now) &+ timeoutMicroseconds
        }
        return found.reversed()
    }

    private mutating func enter(
        _ block: BlockIndexEntry, of segment: SealedBlocks<Files>, into rule: inout SessionRule
    ) throws(StorageError) {
        guard block.summary.rowCount > 0 else { return }
        let header = try blocks.header(block, of: segment)
        if let header, header.sessionCount == 0 { return }
        let wanted: BlockSections = [.attributes, .key, .timestamp, .session, .commits]
        guard let decoded = try blocks.decode(block, of: segment, wanted: wanted) else {
            knownFrom = min(block.summary.lastAdmissionTime, now) &+ timeoutMicroseconds
            return
        }
        let rows = blocks.rows
        var place = 0
        decoded.commits.forEach { (commit, ownRows) in
            let time = min(decoded.commits.admissionTimes[commit], now)
            for row in ownRows {
                // SAFETY: the decoder has filled `rowCount` rows, and a pseudonym for each whose attributes say so.
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                guard attributes.hasSession else { continue }
                unsafe rule.load(
                    rows.session[place], attributes, key: rows.key[row],
                    timestamp: rows.timestamp[row], admissionTime: time,
                    mayBePartial: time < knownFrom)
                place += 1
            }
        }
    }
}
