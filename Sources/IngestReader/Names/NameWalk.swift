// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc
import IngestFormat

/// All names of a cut in bytewise order: the stored orders of its parts, merged, lost ones left out. Owned by
/// one query.
///
/// **Cost** A batch of names a part; for each name log2(parts) comparisons, none where there is one part.
@safe struct NameWalk {
    /// The next name of a part: where it lies in the part's batch.
    @safe private struct Head {
        var place = -1
        var ordinal: UInt32 = 0
        var name = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    }

    private var cursors: [any NameCursor]
    private let batches: [NameBatch]
    private var heads: [Head]
    /// The parts that have a next name, as a heap: the smallest name first; of equal ones that of the
    /// part with the lower number.
    private var heap: [Int] = []
    private var isBegun = false

    /// - Parameter cursors: each in bytewise order; of equal names that of the earlier cursor comes first.
    init(_ cursors: [any NameCursor]) {
        self.cursors = cursors
        batches = cursors.map { _ in NameBatch() }
        heads = cursors.map { _ in Head() }
    }

    /// The ordinal or number of the present name.
    /// - Precondition: the last `next` was `true`; of `appendName` too.
    var number: UInt32 { heads[heap[0]].ordinal }

    /// Adds the bytes of the present name to `bytes`.
    func appendName(to bytes: inout [UInt8]) {
        // SAFETY: the name lies in its part's batch, which stays as it is until the next call of `next`.
        unsafe bytes.append(contentsOf: heads[heap[0]].name)
    }

    /// Goes to the next name, at first to the first; `false` at the end.
    mutating func next() throws(ReaderError) -> Bool {
        if isBegun {
            if heap.isEmpty { return false }
            if try !advance(heap[0]) {
                heap[0] = heap[heap.count - 1]
                heap.removeLast()
            }
            sink(0)
        } else {
            isBegun = true
            for part in cursors.indices where try advance(part) { heap.append(part) }
            for place in stride(from: heap.count / 2, through: 0, by: -1) { sink(place) }
        }
        return !heap.isEmpty
    }

    /// Goes to the next name of a part that has bytes; `false` at the part's end.
    private mutating func advance(_ part: Int) throws(ReaderError) -> Bool {
        let batch = batches[part]
        var place = heads[part].place + 1
        while true {
            if place >= batch.count {
                guard try cursors[part].nextBatch(into: batch) else { return false }
                place = 0
            }
            // SAFETY: the name is used until the batch is filled again, which is here.
            let name = unsafe batch.pointer(place)
            if name.count > 0 {
                unsafe heads[part] = Head(
                    place: place, ordinal: batch.ordinal(place).rawValue, name: name)
                return true
            }
            place += 1
        }
    }

    /// Moves the part at `place` down to where it belongs.
    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var least = place
            let children = 2 * place + 1..<min(2 * place + 3, max(2 * place + 1, heap.count))
            for child in children where precedes(heap[child], heap[least]) { least = child }
            if least == place { return }
            heap.swapAt(place, least)
            place = least
        }
    }

    private func precedes(_ a: Int, _ b: Int) -> Bool {
        // SAFETY: both names lie in their batches; neither is empty.
        let (x, y) = unsafe (heads[a].name, heads[b].name)
        let order = unsafe memcmp(x.baseAddress!, y.baseAddress!, min(x.count, y.count))
        if order != 0 { return order < 0 }
        return x.count == y.count ? a < b : x.count < y.count
    }
}
