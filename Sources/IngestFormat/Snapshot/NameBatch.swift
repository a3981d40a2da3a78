// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import CIngestLinux

/// Up to 1024 names, one page of them, in bytewise order, each with its ordinal: what the orders of names runs are
/// read, merged and written by. Owned by one stage.
///
/// **Cost** 137 KiB, taken once.
@safe package final class NameBatch {
    package static let capacity = NamesLayout.pageCapacity
    /// Names are copied by so many bytes at a time; what is behind a name is overwritten by the next.
    private static let chunkByteCount = 16
    private static let byteCapacity = capacity * Limits.nameByteCountMax + chunkByteCount

    package var count: Int { nameCount }
    /// Private, so that the compiler sees every access, and checks none of them while it runs.
    private var nameCount = 0
    /// Names back to back; name `i` is at `ends[i] ..< ends[i + 1]`.
    private let bytes: UnsafeMutablePointer<UInt8>
    private let ends: UnsafeMutablePointer<UInt32>
    private let ordinals: UnsafeMutablePointer<UInt32>

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
        return NameOrdinal(rawValue: unsafe ordinals[place])
    }

    /// A name's bytes where they lie, for the length of the call; none for a name that was lost.
    /// - Parameter place: 0 ..< count.
    package func withName<Result, Failure: Error>(
        _ place: Int, _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: the bytes are this object's and do not change during the call.
        try body(unsafe pointer(place).bytes)
    }

    /// A name's bytes, copied.
    package func name(_ place: Int) -> [UInt8] { unsafe Array(pointer(place)) }

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

    /// Adds a name of at most 128 bytes.
    func append(_ name: UnsafeRawBufferPointer, ordinal: UInt32) {
        precondition(count < Self.capacity && name.count <= Limits.nameByteCountMax)
        let start = unsafe Int(ends[count])
        // SAFETY: fewer than capacity names of at most 128 bytes lie before it.
        if let source = name.baseAddress {
            unsafe UnsafeMutableRawPointer(bytes + start).copyMemory(
                from: source, byteCount: name.count)
        }
        unsafe ends[count &+ 1] = UInt32(truncatingIfNeeded: start &+ name.count)
        unsafe ordinals[count] = ordinal
        nameCount &+= 1
    }

    /// Adds a name of at most 128 bytes to a batch that is not full.
    package func append(_ name: ArraySlice<UInt8>, ordinal: UInt32) {
        // SAFETY: the bytes stay where they are inside the closure.
        unsafe name.withUnsafeBytes { unsafe append($0, ordinal: ordinal) }
    }

    /// A page of names where it lies, its columns unpacked, the lengths of its parts checked; the names
    /// are not.
    @unsafe struct Coded {
        let count: Int
        /// By name: bytes in common with the one before, and bytes that follow.
        let shared: UnsafePointer<UInt8>
        let rests: UnsafePointer<UInt8>
        let ordinals: UnsafePointer<UInt64>
        /// What follows of all names, back to back: nothing else lies there.
        let suffixes: UnsafeRawBufferPointer
    }

    /// Takes the names of a page in place of what is here.
    /// - Returns: `false`, with nothing here, unless every name is within its limits, all ascend, and
    ///   together they are all of the page.
    func fill(_ page: Coded, ordinals range: Range<UInt32>) -> Bool {
        precondition(unsafe page.count <= Self.capacity)
        nameCount = 0
        guard let first = unsafe page.suffixes.baseAddress else { return false }
        let (bytes, ends, ordinals) = unsafe (
            UnsafeMutableRawPointer(self.bytes), self.ends, self.ordinals
        )
        var (last, end, offset) = (0, 0, 0)
        for place in 0..<(unsafe page.count) {
            // SAFETY: place < count, for which the page has lengths and ordinals.
            let (shared, rest) = unsafe (Int(page.shared[place]), Int(page.rests[place]))
            let ordinal = unsafe page.ordinals[place]
            let lastCount = end &- last
            let most = place % NamesLayout.restartInterval == 0 ? 0 : lastCount
            guard shared <= most, shared &+ rest <= Limits.nameByteCountMax,
                unsafe rest <= page.suffixes.count &- offset,
                ordinal >= UInt64(range.lowerBound), ordinal < UInt64(range.upperBound)
            else { return false }
            // SAFETY: fewer than capacity names of at most 128 bytes lie before this one, and a chunk
            // has room behind the last; the rest lies inside the page, and is read beyond its end only
            // where the page goes on for a chunk.
            unsafe Self.copy(bytes + last, to: bytes + end, shared)
            if unsafe page.suffixes.count &- offset >= rest &+ Self.chunkByteCount {
                unsafe Self.copy(first + offset, to: bytes + end + shared, rest)
            } else {
                unsafe (bytes + end + shared).copyMemory(from: first + offset, byteCount: rest)
            }
            unsafe ordinals[place] = UInt32(truncatingIfNeeded: ordinal)
            if place > 0 {
                let isDecided = shared < lastCount && rest > 0
                let (a, b) =
                    unsafe isDecided
                    ? (self.bytes[last &+ shared], self.bytes[end &+ shared]) : (0, 0)
                if a == b {
                    guard
                        unsafe NameOrder.isAscending(
                            UnsafeRawBufferPointer(start: bytes + last, count: lastCount),
                            ordinals[place &- 1],
                            UnsafeRawBufferPointer(start: bytes + end, count: shared &+ rest),
                            ordinals[place])
                    else { return false }
                } else if a > b {
                    return false
                }
            }
            last = end
            end &+= shared &+ rest
            offset &+= rest
            unsafe ends[place &+ 1] = UInt32(truncatingIfNeeded: end)
        }
        guard unsafe offset == page.suffixes.count else { return false }
        nameCount = unsafe page.count
        return true
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

    /// Adds a name that begins with the first `shared` bytes of the one before.
    /// - Returns: whether it comes after that one, by bytes, then by ordinal.
    func append(
        shared: Int, rest: UnsafeRawBufferPointer, ordinal: UInt32
    ) -> Bool {
        let last = count == 0 ? 0 : unsafe Int(ends[count &- 1])
        let start = unsafe Int(ends[count])
        let name = unsafe bytes + start
        // SAFETY: the caller has checked that shared is within the name before, and that both parts
        // together have at most 128 bytes.
        unsafe name.update(from: bytes + last, count: shared)
        if let source = rest.baseAddress {
            unsafe UnsafeMutableRawPointer(name + shared).copyMemory(
                from: source, byteCount: rest.count)
        }
        unsafe ends[count &+ 1] = UInt32(truncatingIfNeeded: start &+ shared &+ rest.count)
        unsafe ordinals[count] = ordinal
        nameCount &+= 1
        guard count > 1 else { return true }
        return unsafe NameOrder.isAscending(
            pointer(count - 2), ordinals[count - 2], pointer(count - 1), ordinal)
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

    @inline(__always)
    static func isAscending(
        _ a: UnsafeRawBufferPointer, _ ordinalA: UInt32, _ b: UnsafeRawBufferPointer,
        _ ordinalB: UInt32
    ) -> Bool {
        let most = min(a.count, b.count)
        let shared = unsafe sharedByteCount(a, b)
        // SAFETY: shared < most, which is within both.
        if shared < most { return unsafe a[shared] < b[shared] }
        return a.count == b.count ? ordinalA < ordinalB : a.count < b.count
    }
}
