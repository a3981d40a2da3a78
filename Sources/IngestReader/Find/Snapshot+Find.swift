// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

extension Snapshot {
    package func forEachFound(
        eventID: [UInt8], business: [UInt8], _ body: (FoundEvent) -> Bool
    ) throws(ReaderError) {
        guard (1...Limits.eventIDByteCountMax).contains(eventID.count),
            (1...Limits.nameByteCountMax).contains(business.count)
        else { return }
        let names = makeNames()
        let ordinal = try names.storedOrdinal(of: business)
        // Rows of a business whose name was lost are found by the hash all the same.
        let hasLostNames = try !names.lostNames().isEmpty
        if ordinal == nil && !hasLostNames { return }
        let first = hasLostNames ? 0 : ordinal?.rawValue ?? 0
        let blocks = CutBlocks(files: files, manifest: manifest, end: tail.position) { block in
            // A block that is before the name was given has none of its rows.
            block.eventHashCount > 0
                && UInt64(block.firstName.rawValue) + UInt64(block.nameCount) > UInt64(first)
        }
        var search = EventSearch(hash.event(business: business, id: eventID), names)
        try blocks.forEach(whereSealed: { $0.rowCount > 0 }) {
            (header, buffer) throws(ReaderError) in
            try search.give(header, buffer, path: files.path, body)
        }
    }
}
