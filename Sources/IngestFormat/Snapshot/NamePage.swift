// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import CIngestLinux

/// Pages of names, coded and decoded, and one name of a coded page.
///
/// **Layout** Three plain columns (`PageColumnCodec`): ordinals; how many bytes a name shares with the one before
/// (0 for the first); how many follow. Then those bytes.
package enum NamePage {
    /// The page of a batch.
    static func encode(_ batch: NameBatch) -> [UInt8] {
        var page: [UInt8] = []
        page.reserveCapacity(3 * PageColumnCodec.plainByteCountMax(batch.count) + 16 * batch.count)
        var shared: [UInt32] = []
        shared.reserveCapacity(batch.count)
        for place in 0..<batch.count {
            let count =
                place == 0
                ? 0
                : unsafe NameOrder.sharedByteCount(batch.pointer(place - 1), batch.pointer(place))
            shared.append(UInt32(truncatingIfNeeded: count))
        }
        PageColumnCodec.append(count: batch.count, to: &page) { batch.ordinal($0).rawValue }
        PageColumnCodec.append(count: batch.count, to: &page) { shared[$0] }
        PageColumnCodec.append(count: batch.count, to: &page) {
            unsafe UInt32(truncatingIfNeeded: batch.pointer($0).count) - shared[$0]
        }
        for place in 0..<batch.count {
            let name = unsafe batch.pointer(place)
            unsafe page.append(
                contentsOf: UnsafeRawBufferPointer(rebasing: name[Int(shared[place])...]))
        }
        return page
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
        try unsafe reading(bytes, count) { (page) throws(FormatError) in
            try unsafe batch.fill(page, ordinals: ordinals)
        }
    }

    /// One name of a page and its ordinal.
    /// - Parameter place: 0 ..< count.
    /// **Cost** 2 µs at most: names are put together from the first on.
    package static func name(
        _ place: Int, of bytes: [UInt8], count: Int
    ) throws(FormatError) -> (ordinal: UInt64, name: [UInt8]) {
        try unsafe reading(bytes, count) { (page) throws(FormatError) in
            var name: [UInt8] = []
            var start = 0
            for current in 0...place {
                let (shared, rest) = try unsafe page.lengths(current, name.count, start)
                name.removeLast(name.count - shared)
                unsafe name.append(contentsOf: page.suffixes[start..<start + rest])
                start += rest
            }
            return (unsafe page.ordinals.value(place), name)
        }
    }

    /// The ordinal of a name, if the page has it.
    /// **Cost** 1 µs at most: bytes that a name shares with the one before are not compared again.
    package static func ordinal(
        of wanted: [UInt8], in bytes: [UInt8], count: Int
    ) throws(FormatError) -> UInt64? {
        try unsafe reading(bytes, count) { (page) throws(FormatError) in
            // Bytes of the name before, and how many of them are as wanted.
            var (lastCount, alike, start) = (0, 0, 0)
            for place in 0..<count {
                let (shared, rest) = try unsafe page.lengths(place, lastCount, start)
                lastCount = shared + rest
                // More in common with the last name than that has with the wanted one: still before it; less: behind.
                if shared < alike { return nil }
                if shared == alike {
                    while alike < min(lastCount, wanted.count),
                        // SAFETY: the byte is one of this name's, which lie inside.
                        unsafe page.suffixes[start + alike - shared] == wanted[alike]
                    { alike += 1 }
                    if alike == wanted.count {
                        return lastCount > alike
                            ? nil : unsafe page.ordinals.value(place)
                    }
                    // SAFETY: as above.
                    if alike < lastCount,
                        unsafe page.suffixes[start + alike - shared] > wanted[alike]
                    {
                        return nil
                    }
                }
                start += rest
            }
            return nil
        }
    }

    private static func reading<Result>(
        _ bytes: [UInt8], _ count: Int, _ body: (CodedNames) throws(FormatError) -> Result
    ) throws(FormatError) -> Result {
        // SAFETY: the buffer is used inside the closure only.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            try unsafe body(CodedNames(UnsafeRawBufferPointer(buffer), count: count))
        }
    }
}

/// A page of names where it lies: the lengths of its parts are checked, the names are not.
@unsafe struct CodedNames {
    let count: Int
    let ordinals: CodedColumn
    /// By name: bytes in common with the one before, and bytes that follow.
    private let shared: CodedColumn
    private let rests: CodedColumn
    /// What follows of all names, back to back: nothing else lies there.
    let suffixes: UnsafeRawBufferPointer

    init(_ page: UnsafeRawBufferPointer, count: Int) throws(FormatError) {
        unsafe self.count = count
        var reader = unsafe ColumnReader(page)
        unsafe ordinals = try CodedColumn(plain: &reader, count: count)
        unsafe shared = try CodedColumn(plain: &reader, count: count)
        unsafe rests = try CodedColumn(plain: &reader, count: count)
        // SAFETY: the columns lie inside.
        unsafe suffixes = UnsafeRawBufferPointer(rebasing: page[reader.offset...])
    }

    /// How many bytes of the name before a name begins with, and how many follow.
    /// - Parameters:
    ///   - place: 0 ..< count.
    ///   - lastByteCount: of the name before; 0 for the first.
    ///   - start: where its own bytes are in `suffixes`.
    @inline(__always)
    func lengths(
        _ place: Int, _ lastByteCount: Int, _ start: Int
    ) throws(FormatError) -> (shared: Int, rest: Int) {
        let shared = unsafe Int(self.shared.value(place))
        let rest = unsafe Int(rests.value(place))
        guard shared <= lastByteCount else {
            throw .corrupt(
                "shared byte count", at: 0, got: shared, expected: .atMost(lastByteCount))
        }
        guard shared &+ rest <= Limits.nameByteCountMax else {
            throw .corrupt(
                "name byte count", at: 0, got: shared &+ rest,
                expected: .atMost(Limits.nameByteCountMax))
        }
        guard unsafe rest <= suffixes.count &- start else {
            throw .torn(
                "name bytes", at: 0, available: unsafe suffixes.count, needed: start &+ rest)
        }
        return (shared, rest)
    }
}

/// Up to 256 names, one page of them, in bytewise order, each with its ordinal: what the orders of names runs are
/// read, merged and written by. Owned by one stage.
///
/// **Cost** 35 KiB, taken once.
@safe package final class NameBatch {
    package static let capacity = NamesLayout.namePageCapacity
    /// Names are copied by so many bytes at a time; what is behind a name is overwritten by the next.
    private static let chunkByteCount = 16
    private static let byteCapacity = capacity * Limits.nameByteCountMax + chunkByteCount

    package var count: Int { nameCount }
    /// Private, so that the compiler sees every access, and checks none of them while it runs.
    private var nameCount = 0
    /// Names back to back; name `i` is at `ends[i] ..< ends[i + 1]`.
    private let bytes: UnsafeMutablePointer<UInt8>
    private let ends: UnsafeMutablePointer<UInt32>
    private let ordinals: UnsafeMutablePointer<UInt64>

    package init() {
        unsafe bytes = .allocate(capacity: Self.byteCapacity)
        unsafe bytes.initialize(repeating: 0, count: Self.byteCapacity)
        unsafe ends = .allocate(capacity: Self.capacity + 1)
        unsafe ordinals = .allocate(capacity: Self.capacity)
        unsafe ends[0] = 0
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe ends.deallocate()
        unsafe ordinals.deallocate()
    }

    package func removeAll() { nameCount = 0 }

    /// The ordinal of a name. - Parameter place: 0 ..< count.
    package func ordinal(_ place: Int) -> NameOrdinal {
        precondition(place >= 0 && place < count)
        // SAFETY: place < count ≤ capacity.
        return NameOrdinal(rawValue: UInt32(truncatingIfNeeded: unsafe ordinals[place]))
    }

    /// A name's bytes, copied; none for a name that was lost.
    package func name(_ place: Int) -> [UInt8] { unsafe Array(pointer(place)) }

    /// Adds a name's bytes to `bytes`.
    package func appendName(_ place: Int, to bytes: inout [UInt8]) {
        unsafe bytes.append(contentsOf: pointer(place))
    }

    /// Whether a name was lost with its block.
    package func isLost(_ place: Int) -> Bool { unsafe pointer(place).isEmpty }

    /// A name's bytes; valid until the batch is changed or goes.
    @unsafe package func pointer(_ place: Int) -> UnsafeRawBufferPointer {
        precondition(place >= 0 && place < count)
        // SAFETY: place < count, and ends ascend and are within what was written.
        let start = unsafe Int(ends[place])
        return unsafe UnsafeRawBufferPointer(
            start: bytes + start, count: Int(ends[place + 1]) - start)
    }

    /// **Errors** `corrupt` unless the first name comes after the last one of the page before.
    package func expectFirst(after name: [UInt8], _ ordinal: NameOrdinal) throws(FormatError) {
        let isAscending = unsafe name.withUnsafeBytes { name in
            // SAFETY: both names are valid inside the closure.
            unsafe NameOrder.isAscending(
                name, ordinal.rawValue, pointer(0), self.ordinal(0).rawValue)
        }
        guard isAscending else {
            throw .corrupt("name order", at: 0, got: 0, expected: .atLeast(1))
        }
    }

    /// Adds a name of at most 128 bytes to a batch that is not full.
    package func append(_ name: UnsafeRawBufferPointer, ordinal: UInt32) {
        precondition(count < Self.capacity && name.count <= Limits.nameByteCountMax)
        let start = unsafe Int(ends[count])
        // SAFETY: fewer than capacity names of at most 128 bytes lie before it.
        if let source = name.baseAddress {
            unsafe UnsafeMutableRawPointer(bytes + start).copyMemory(
                from: source, byteCount: name.count)
        }
        unsafe ends[count &+ 1] = UInt32(truncatingIfNeeded: start &+ name.count)
        unsafe ordinals[count] = UInt64(ordinal)
        nameCount &+= 1
    }

    /// Adds a name of at most 128 bytes to a batch that is not full.
    package func append(_ name: ArraySlice<UInt8>, ordinal: UInt32) {
        // SAFETY: the bytes stay where they are inside the closure.
        unsafe name.withUnsafeBytes { unsafe append($0, ordinal: ordinal) }
    }

    /// Takes the names of a page in place of what is here.
    /// **Errors** `torn`, `corrupt`, with nothing here, unless every name is within its limits, all ascend, and together
    /// they are all of the page.
    func fill(_ page: CodedNames, ordinals range: Range<UInt32>) throws(FormatError) {
        precondition(unsafe page.count <= Self.capacity)
        nameCount = 0
        // SAFETY: there is room for as many ordinals as names.
        unsafe page.ordinals.unpack(into: ordinals)
        let bytes = unsafe UnsafeMutableRawPointer(self.bytes)
        var (last, end, offset) = (0, 0, 0)
        for place in 0..<(unsafe page.count) {
            let (shared, rest) = try unsafe page.lengths(place, end &- last, offset)
            let ordinal = unsafe ordinals[place]
            guard ordinal >= UInt64(range.lowerBound), ordinal < UInt64(range.upperBound) else {
                throw .corrupt(
                    "name ordinal", at: 0, got: ordinal, expected: .atMost(range.upperBound))
            }
            // SAFETY: fewer than capacity names of at most 128 bytes lie before this one, and a chunk
            // has room behind the last; the rest lies inside the page, and is read beyond its end only
            // where the page goes on for a chunk.
            unsafe Self.copy(bytes + last, to: bytes + end, shared)
            if let source = unsafe page.suffixes.baseAddress {
                if unsafe page.suffixes.count &- offset >= rest &+ Self.chunkByteCount {
                    unsafe Self.copy(source + offset, to: bytes + end + shared, rest)
                } else {
                    unsafe (bytes + end + shared).copyMemory(from: source + offset, byteCount: rest)
                }
            }
            if place > 0, !(unsafe isAscending(place, last, end, shared, rest)) {
                throw .corrupt("name order", at: offset, got: place, expected: .atLeast(place + 1))
            }
            last = end
            end &+= shared &+ rest
            offset &+= rest
            unsafe ends[place &+ 1] = UInt32(truncatingIfNeeded: end)
        }
        guard unsafe offset == page.suffixes.count else {
            throw .corrupt(
                "name bytes", at: offset, got: unsafe page.suffixes.count - offset,
                expected: .exactly(0))
        }
        nameCount = unsafe page.count
    }

    /// Whether a name at `end` comes after the one at `last`, of which it shares a part: one byte tells, nearly always.
    @unsafe @inline(__always)
    private func isAscending(
        _ place: Int, _ last: Int, _ end: Int, _ shared: Int, _ rest: Int
    ) -> Bool {
        if shared < end &- last, rest > 0 {
            // SAFETY: both bytes are of these names.
            let (a, b) = unsafe (bytes[last &+ shared], bytes[end &+ shared])
            if a != b { return a < b }
        }
        return unsafe NameOrder.isAscending(
            UnsafeRawBufferPointer(start: bytes + last, count: end &- last),
            UInt32(truncatingIfNeeded: ordinals[place &- 1]),
            UnsafeRawBufferPointer(start: bytes + end, count: shared &+ rest),
            UInt32(truncatingIfNeeded: ordinals[place]))
    }

    /// Copies `count` bytes, and up to a chunk more.
    @inline(__always)
    private static func copy(
        _ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, _ count: Int
    ) {
        var place = 0
        while place < count {
            // SAFETY: both sides have a chunk from any place below count on.
            let chunk = unsafe source.loadUnaligned(
                fromByteOffset: place, as: SIMD16<UInt8>.self)
            unsafe target.storeBytes(of: chunk, toByteOffset: place, as: SIMD16<UInt8>.self)
            place &+= chunkByteCount
        }
    }
}

/// The order of the names of a run: by bytes, then by ordinal; so lost names, which have no bytes, come first.
enum NameOrder {
    /// How many bytes both begin with.
    @inline(__always)
    static func sharedByteCount(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        guard let left = a.baseAddress, let right = b.baseAddress else { return 0 }
        // SAFETY: both have as many bytes as are compared.
        return unsafe ingest_shared_byte_count(left, right, min(a.count, b.count))
    }

    /// Below 0 if the first comes before the second, 0 if both are alike.
    @inline(__always)
    static func compare(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        let shared = unsafe sharedByteCount(a, b)
        if shared == min(a.count, b.count) { return a.count - b.count }
        // SAFETY: shared is below both counts.
        return unsafe Int(a[shared]) - Int(b[shared])
    }

    @inline(__always)
    static func isAscending(
        _ a: UnsafeRawBufferPointer, _ ordinalA: UInt32, _ b: UnsafeRawBufferPointer,
        _ ordinalB: UInt32
    ) -> Bool {
        let order = unsafe compare(a, b)
        return order == 0 ? ordinalA < ordinalB : order < 0
    }
}
