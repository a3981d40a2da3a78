// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import CIngestLinux

/// Up to 1024 names, one page of them, in bytewise order, each with its ordinal: what the orders of names runs are
/// read, merged and written by. Owned by one stage.
///
/// **Cost** 137 KiB, taken once.
@safe package final class NameBatch {
    package static let capacity = NamesLayout.pageCapacity
    package private(set) var count = 0
    /// Names back to back; name `i` is at `ends[i] ..< ends[i + 1]`.
    private let bytes: UnsafeMutablePointer<UInt8>
    private let ends: UnsafeMutablePointer<UInt32>
    private let ordinals: UnsafeMutablePointer<UInt32>

    package init() {
        unsafe bytes = .allocate(capacity: Self.capacity * Limits.nameByteCountMax)
        unsafe ends = .allocate(capacity: Self.capacity + 1)
        unsafe ordinals = .allocate(capacity: Self.capacity)
        unsafe ends[0] = 0
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe ends.deallocate()
        unsafe ordinals.deallocate()
    }

    package func removeAll() { count = 0 }

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
        count &+= 1
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
        count &+= 1
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
