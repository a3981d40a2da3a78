// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// All names of a cut in bytewise order: the stored orders of its parts, merged, lost ones left out. Owned by
/// one query.
///
/// **Cost** A batch of names a part, and one more; that of `PageMerge`.
struct NameWalk {
    private var merge: PageMerge<NameBatch, ReaderError>
    private let batch = NameBatch()
    private var place = -1

    /// - Parameter cursors: each in bytewise order; of equal names that of the earlier cursor comes first.
    init(_ cursors: [NameCursor]) { merge = PageMerge(cursors) }

    /// The ordinal or number of the present name.
    /// - Precondition: the last `next` was `true`; of `appendName` too.
    var number: UInt32 { batch.ordinal(place).rawValue }

    /// Adds the bytes of the present name to `bytes`.
    func appendName(to bytes: inout [UInt8]) {
        // SAFETY: the name lies in the batch, which stays as it is until the next call of `next`.
        unsafe bytes.append(contentsOf: batch.pointer(place))
    }

    /// Goes to the next name, at first to the first; `false` at the end.
    mutating func next() throws(ReaderError) -> Bool {
        repeat {
            place += 1
            if place >= batch.count {
                guard try merge.next(into: batch) else { return false }
                place = 0
            }
        } while batch.isLost(place)
        return true
    }
}
