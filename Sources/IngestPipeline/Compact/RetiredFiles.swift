// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat

/// The files that the newest generation no longer names, until they may go: runs, expired segments and their
/// footers. Owned by the compact queue.
///
/// A file stays a minute: a reader may be about to open it, and opens the newest manifest instead where it
/// comes too late.
package struct RetiredFiles {
    private struct Batch {
        let names: [FileName]
        let atNanoseconds: UInt64
    }

    private var batches: [Batch] = []

    package static let keptNanoseconds: UInt64 = 60_000_000_000

    package init() {}

    /// Takes on what a generation has dropped.
    package mutating func add(_ names: [FileName], at now: UInt64) {
        if !names.isEmpty { batches.append(Batch(names: names, atNanoseconds: now)) }
    }

    /// The next files that no reader needs any more; they are forgotten here.
    package mutating func takeDue(at now: UInt64) -> [FileName]? {
        guard let first = batches.first, now &- first.atNanoseconds >= Self.keptNanoseconds else {
            return nil
        }
        return batches.removeFirst().names
    }
}
