// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The fixed places of counter tables: docs/format/run.md has the same table, and a test compares them.
package enum CounterLayout {
    /// One entry of a page index.
    package enum PageEntry {
        package static let byteCount = 20
        package static let firstKey = FormatField("first key", 0, 4)
        package static let firstDay = FormatField("first day", 4, 4)
        package static let rowCount = FormatField("row count", 8, 4)
        package static let pageByteCount = FormatField("page byte count", 12, 4)
        package static let checksum = FormatField("checksum", 16, 4)

        package static let fields = [firstKey, firstDay, rowCount, pageByteCount, checksum]
    }
}
