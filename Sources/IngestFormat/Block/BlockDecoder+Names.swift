// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

extension BlockDecoder {
    /// A column of names: left out if and only if no row has one. Campaigns and sources may be `Attribution.other`.
    /// - Returns: whether it is there.
    @discardableResult
    func names(
        _ kind: BlockSectionKind, _ block: BlockView, into target: UnsafeMutablePointer<UInt32>
    ) throws(FormatError) -> Bool {
        let header = unsafe block.header
        guard let entry = unsafe block.table.entry(kind) else {
            // SAFETY: rows have room for rowCount values.
            unsafe target.update(repeating: 0, count: header.rowCount)
            return false
        }
        let last = Int64(header.nextName.rawValue) - 1
        let max = kind == .platform ? last : Int64(Attribution.other)
        let range = try unsafe column(kind, block, header.rowCount, max: max, into: target)
        if range.upperBound == 0 {
            throw .corrupt("\(kind.name): value", at: entry.offset, got: 0, expected: .atLeast(1))
        }
        for row in 0..<header.rowCount where range.upperBound > last {
            // SAFETY: rowCount values were decoded.
            let value = unsafe target[row]
            if Int64(value) <= last || value == Attribution.other { continue }
            throw .corrupt(
                "\(kind.name): value", at: entry.offset, got: value, expected: .atMost(last))
        }
        return true
    }
}
