// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat

/// The files that the newest generation no longer names, until they may go: runs, expired segments and their
/// footers. Owned by the compact queue.
///
/// A file stays a minute: a reader may be about to open it, and opens the newest manifest instead where it
/// comes too late. Of live runs there is a set a second, each nearly as large as the last: of those only the
/// last three stay, as many as there are older manifests, and go after a minute too.
package struct RetiredFiles {
    private struct Batch {
        let names: [FileName]
        let atNanoseconds: UInt64
    }

    private var lasting: [Batch] = []
    /// A batch a generation.
    private var live: [Batch] = []

    package static let keptNanoseconds: UInt64 = 60_000_000_000
    package static let liveBatchCountMax = 3

    package init() {}

    /// Takes on what a generation has dropped.
    package mutating func add(
        _ names: [FileName], live liveNames: [FileName] = [], at now: UInt64
    ) {
        if !names.isEmpty { lasting.append(Batch(names: names, atNanoseconds: now)) }
        if !liveNames.isEmpty { live.append(Batch(names: liveNames, atNanoseconds: now)) }
    }

    /// The next files that no reader needs any more; they are forgotten here.
    package mutating func takeDue(at now: UInt64) -> [FileName]? {
        if let first = lasting.first, isOld(first, at: now) { return lasting.removeFirst().names }
        guard let first = live.first, live.count > Self.liveBatchCountMax || isOld(first, at: now)
        else { return nil }
        return live.removeFirst().names
    }

    private func isOld(_ batch: Batch, at now: UInt64) -> Bool {
        now &- batch.atNanoseconds >= Self.keptNanoseconds
    }
}
