// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Pages of names, coded and decoded, and one name of a coded page.
///
/// **Layout** The ordinals as a packed column; for each name, u8, how many bytes it shares with the one before (0 at
/// every 32nd); for each name, u8, how many follow; then those bytes.
package enum NamePage {
    /// The page of a batch.
    static func encode(_ batch: NameBatch) -> [UInt8] {
        var page: [UInt8] = []
        page.reserveCapacity(PackedColumn.byteCountMax(batch.count) + 16 * batch.count)
        PackedColumn.append(count: batch.count, to: &page) { batch.ordinal($0).rawValue }
        var rests: [UInt8] = []
        rests.reserveCapacity(batch.count)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(16 * batch.count)
        for place in 0..<batch.count {
            let name = unsafe batch.pointer(place)
            let shared =
                place % NamesLayout.restartInterval == 0
                ? 0 : unsafe NameOrder.sharedByteCount(batch.pointer(place - 1), name)
            page.append(UInt8(truncatingIfNeeded: shared))
            rests.append(UInt8(truncatingIfNeeded: name.count - shared))
            unsafe bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: name[shared...]))
        }
        return page + rests + bytes
    }

    /// Decodes a whole page.
    /// - Parameters:
    ///   - count: names of the page.
    ///   - ordinals: those of the run.
    /// **Errors** `torn`, `corrupt`; also for names that do not ascend and ordinals of another run.
    /// **Cost** About 15 ns a name.
    package static func decode(
        _ bytes: [UInt8], count: Int, ordinals: Range<UInt32>, into batch: NameBatch
    ) throws(FormatError) {
        try unsafe reading(bytes) { (bytes) throws(FormatError) in
            let parts = try unsafe Parts(bytes, count: count)
            let isFilled = unsafe withUnsafeTemporaryAllocation(
                of: UInt64.self, capacity: max(1, count)
            ) { room in
                // SAFETY: the room has count places; the tables lie inside the page, with the bytes behind.
                let page = bytes.baseAddress!
                unsafe parts.ordinals.unpack(bytes, into: room.baseAddress!)
                return unsafe batch.fill(
                    NameBatch.Coded(
                        count: count,
                        shared: (page + parts.shared).assumingMemoryBound(to: UInt8.self),
                        rests: (page + parts.rests).assumingMemoryBound(to: UInt8.self),
                        ordinals: room.baseAddress!,
                        suffixes: UnsafeRawBufferPointer(rebasing: bytes[parts.bytes...])),
                    ordinals: ordinals)
            }
            // Rare: what is wrong is looked for again, name by name.
            if !isFilled { try unsafe decode(bytes, parts, count, ordinals, into: batch) }
        }
    }

    /// The names one by one, up to what is wrong.
    private static func decode(
        _ bytes: UnsafeRawBufferPointer, _ parts: Parts, _ count: Int, _ ordinals: Range<UInt32>,
        into batch: NameBatch
    ) throws(FormatError) {
        batch.removeAll()
        var start = parts.bytes
        for place in 0..<count {
            let (shared, rest) = try unsafe parts.lengths(
                place, lastByteCount: place == 0 ? 0 : batch.pointer(place - 1).count, bytes)
            let ordinal = unsafe parts.ordinals.value(place, in: bytes)
            guard ordinal >= UInt64(ordinals.lowerBound), ordinal < UInt64(ordinals.upperBound)
            else {
                throw .corrupt(
                    "name ordinal", at: 0, got: ordinal, expected: .atMost(ordinals.upperBound))
            }
            guard start + rest <= bytes.count else {
                throw .torn(
                    "name bytes", at: start, available: bytes.count, needed: start + rest)
            }
            // SAFETY: the name's own bytes lie inside, by the check above.
            let isAscending = unsafe batch.append(
                shared: shared, rest: UnsafeRawBufferPointer(rebasing: bytes[start..<start + rest]),
                ordinal: UInt32(truncatingIfNeeded: ordinal))
            guard isAscending else {
                throw .corrupt("name order", at: start, got: place, expected: .atLeast(place + 1))
            }
            start += rest
        }
        guard start == bytes.count else {
            throw .corrupt(
                "name bytes", at: start, got: bytes.count - start, expected: .exactly(0))
        }
    }

    /// One name of a page and its ordinal, without decoding the others but for those back to the last whole one.
    /// - Parameter place: 0 ..< count.
    /// **Cost** About 1 µs.
    package static func name(
        _ place: Int, of bytes: [UInt8], count: Int
    ) throws(FormatError) -> (ordinal: UInt64, name: [UInt8]) {
        try unsafe reading(bytes) { (bytes) throws(FormatError) in
            let parts = try unsafe Parts(bytes, count: count)
            let whole = place - place % NamesLayout.restartInterval
            var start = unsafe parts.bytes + parts.restCount(before: whole, bytes)
            var name: [UInt8] = []
            for current in whole...place {
                let (shared, rest) = try unsafe parts.lengths(
                    current, lastByteCount: name.count, bytes)
                guard start + rest <= bytes.count else {
                    throw .torn(
                        "name bytes", at: start, available: bytes.count, needed: start + rest)
                }
                name.removeLast(name.count - shared)
                unsafe name.append(contentsOf: bytes[start..<start + rest])
                start += rest
            }
            return (unsafe parts.ordinals.value(place, in: bytes), name)
        }
    }

    private static func reading<Result>(
        _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(FormatError) -> Result
    ) throws(FormatError) -> Result {
        // SAFETY: the buffer is used inside the closure only.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            try unsafe body(UnsafeRawBufferPointer(buffer))
        }
    }

    /// Where the parts of a page begin.
    private struct Parts {
        let ordinals: PackedColumn
        let shared: Int
        let rests: Int
        let bytes: Int

        init(_ page: UnsafeRawBufferPointer, count: Int) throws(FormatError) {
            ordinals = try unsafe PackedColumn(page, at: 0, count: count)
            shared = ordinals.end
            rests = shared + count
            bytes = rests + count
            guard bytes <= page.count else {
                throw .torn("name lengths", at: shared, available: page.count, needed: bytes)
            }
        }

        /// How many bytes of the name before a name begins with, and how many follow.
        @inline(__always)
        func lengths(
            _ place: Int, lastByteCount: Int, _ page: UnsafeRawBufferPointer
        ) throws(FormatError) -> (shared: Int, rest: Int) {
            // SAFETY: place < count, and both tables lie inside the page.
            let shared = unsafe Int(page[self.shared &+ place])
            let rest = unsafe Int(page[rests &+ place])
            let most = place % NamesLayout.restartInterval == 0 ? 0 : lastByteCount
            guard shared <= most else {
                throw .corrupt(
                    "shared byte count", at: self.shared + place, got: shared,
                    expected: .atMost(most))
            }
            guard shared &+ rest <= Limits.nameByteCountMax else {
                throw .corrupt(
                    "name byte count", at: rests + place, got: shared &+ rest,
                    expected: .atMost(Limits.nameByteCountMax))
            }
            return (shared, rest)
        }

        func restCount(before place: Int, _ page: UnsafeRawBufferPointer) -> Int {
            var sum = 0
            // SAFETY: as in `lengths`.
            for i in 0..<place { unsafe sum &+= Int(page[rests &+ i]) }
            return sum
        }
    }
}
