// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Enters the sessions of the newest rows of the log, as far back as a session can reach: 48 hours, which is the life of the
/// key of its pseudonym, or `Limits.sessionRowCountMax` rows.
///
/// A session that went on, or that begins less than a time-out behind, where rows were not read or are lost may have rows
/// among them: what it had counted is not known, and its impressions are shown as unchecked.
///
/// **Cost** Blocks with sessions: 10 ns a row and 100 ns a row with a session. Others: their headers, 1 µs each.
struct LoggedSessions<Files: FileSystem>: ~Copyable {
    private let now: Int64
    private let policy: SessionPolicy
    private let blocks: LoggedBlocks<Files>
    /// Whether there are rows before the next block that are lost.
    private var isPartUnknown = false

    private init(_ policy: SessionPolicy, _ directory: DirectoryID, now: Int64) {
        (self.policy, self.now) = (policy, now)
        blocks = LoggedBlocks(directory: directory)
    }

    /// **Errors** `io`, `newerFormat`. What is damaged is left out, as rows that were not read.
    static func load(
        into rule: inout SessionRule, _ policy: SessionPolicy, of manifest: Manifest, now: Int64,
        rowCountMax: Int = Limits.sessionRowCountMax, in files: Files
    ) throws(StorageError) {
        guard rule.isOn else { return }
        var loaded = LoggedSessions(policy, manifest.directory, now: now)
        rule.beginLoading(now: now)
        let reach = try loaded.reach(manifest, rowCountMax: rowCountMax, in: files)
        if let unread = reach.unread { rule.missRows(upTo: unread) }
        for (segment, firstBlock) in reach.segments {
            for index in segment.entries.indices.dropFirst(firstBlock) {
                try loaded.enter(index, of: segment, into: &rule)
            }
            if segment.entries.last?.endOrdinal ?? 0 < segment.ordinalCount {
                loaded.isPartUnknown = true
            }
        }
        if loaded.isPartUnknown { rule.missRows(upTo: now) }
    }

    private var timeoutMicroseconds: Int64 { Int64(policy.timeoutSeconds) * 1_000_000 }

    /// The segments that are read, in their order, each from a block on; and the admission time of the row before them, if it
    /// matters.
    private mutating func reach(
        _ manifest: Manifest, rowCountMax: Int, in files: Files
    ) throws(StorageError) -> (
        segments: [(segment: SealedBlocks<Files>, firstBlock: Int)], unread: Int64?
    ) {
        var unread: Int64?
        var found: [(segment: SealedBlocks<Files>, firstBlock: Int)] = []
        var rowCount = 0
        for sealed in manifest.sealed.reversed() {
            // Nothing that is going on can be behind the newest row that ended all of it.
            let isOver =
                found.isEmpty && now &- sealed.lastCommitTime > timeoutMicroseconds
                && sealed.rowCount > 0
            if isOver { return ([], nil) }
            let segment = try SealedBlocks(sealed, directory: manifest.directory, in: files)
            var first = segment.entries.count
            while first > 0 {
                let block = segment.entries[first - 1].summary
                rowCount += block.rowCount
                // No key that is left is so old, and so no session that can be told.
                if now &- block.lastAdmissionTime > SessionKeys.lifeMicroseconds { break }
                if rowCount > rowCountMax {
                    unread = min(block.lastAdmissionTime, now)
                    break
                }
                first -= 1
            }
            found.append((segment, first))
            if first > 0 { return (found.reversed(), unread) }
        }
        isPartUnknown = manifest.lastExpired.rawValue > 0
        return (found.reversed(), nil)
    }

    private mutating func enter(
        _ index: Int, of segment: SealedBlocks<Files>, into rule: inout SessionRule
    ) throws(StorageError) {
        let block = segment.entries[index]
        let expected = index > 0 ? segment.entries[index - 1].endOrdinal : 0
        if isPartUnknown || block.ordinal != expected {
            rule.missRows(upTo: min(block.summary.admissionTime, now))
        }
        isPartUnknown = false
        guard block.summary.rowCount > 0 else { return }
        let last = min(block.summary.lastAdmissionTime, now)
        // Sessions of these cannot be told, or were not kept: there is no key of their time.
        if last < rule.keysSince { return rule.missRows(upTo: last) }
        let header = try blocks.header(block, of: segment)
        if let header, header.sessionCount == 0 { return }
        let wanted: BlockSections = [.attributes, .key, .timestamp, .session, .commits]
        guard let decoded = try blocks.decode(block, of: segment, wanted: wanted) else {
            return rule.missRows(upTo: last)
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
                    timestamp: rows.timestamp[row], admissionTime: time)
                place += 1
            }
        }
    }
}
