// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// What is merged into one run: sorted parts whose attributed rows mean places of one list.
///
/// **Cost** The lists of all parts while they are read; then the merged one, and 4 bytes for each of theirs.
struct MergedRows<Files: FileSystem> {
    /// Of all parts.
    let attributions: AttributionList
    /// A part each.
    let cursors: [Cursor]

    /// - Parameter table: that is made of the parts; attributed rows are left out of others than those that have them.
    /// **Errors** `corrupt` with the path of a part whose attributions cannot be read.
    init(_ parts: [RunReader<Files>], for table: TableKind) throws(StorageError) {
        guard table == .rewardDays || table == .expired else {
            attributions = AttributionList()
            cursors = parts.map { Cursor($0, CounterKeys.rewards, places: []) }
            return
        }
        var lists: [AttributionList] = []
        for part in parts { lists.append(try part.readAttributions()) }
        let (all, places) = AttributionList.merged(lists)
        attributions = all
        cursors = zip(parts, places).map { Cursor($0, CounterKeys.all, places: $1) }
    }

    /// The rows of a part, attributed ones under the keys of the merged list.
    struct Cursor: CounterPageSource {
        private var rows: RunReader<Files>.Cursor
        private let places: [UInt32]
        private let path: String

        init(_ part: RunReader<Files>, _ keys: ClosedRange<UInt32>, places: [UInt32]) {
            rows = part.makeCursor(keys: keys)
            self.places = places
            path = part.path
        }

        mutating func nextPage(into page: CounterPage) throws(StorageError) -> Bool {
            guard try rows.nextPage(into: page) else { return false }
            if page.renumberAttributed(places) { return true }
            throw .corrupt(
                path: path, offset: 0, detail: "a row of an attribution that is not listed")
        }
    }
}
