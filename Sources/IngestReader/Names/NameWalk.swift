// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// All names of a cut in bytewise order: the stored orders of its parts, merged. Owned by one query.
///
/// **Cost** A batch of names a part; for each name log2(parts) comparisons, none where there is one part.
final class NameWalk {
    private var cursors: [any NameCursor]
    private var batches: [SortedNames]
    /// The place of each part's next name in its batch.
    private var places: [Int]
    /// The parts that have a next name, as a heap: the smallest name first; of equal ones that of the
    /// part with the lower number.
    private var heap: [Int] = []
    private var isBegun = false

    /// - Parameter cursors: each in bytewise order; of equal names that of the earlier cursor comes first.
    init(_ cursors: [any NameCursor]) {
        self.cursors = cursors
        batches = cursors.map { _ in SortedNames() }
        places = cursors.map { _ in 0 }
    }

    /// The ordinal or number of the present name.
    /// - Precondition: the last `next` was `true`; of `appendName` too.
    var number: UInt32 { batches[heap[0]].ordinals[places[heap[0]]] }

    /// Adds the bytes of the present name to `bytes`.
    func appendName(to bytes: inout [UInt8]) {
        let part = heap[0]
        bytes.append(contentsOf: batches[part].bytes[batches[part].range(places[part])])
    }

    /// Goes to the next name, at first to the first; `false` at the end.
    func next() throws(ReaderError) -> Bool {
        if isBegun {
            if heap.isEmpty { return false }
            let part = heap[0]
            places[part] += 1
            if places[part] == batches[part].count, try !refill(part) {
                heap[0] = heap[heap.count - 1]
                heap.removeLast()
            }
            sink(0)
        } else {
            isBegun = true
            for part in cursors.indices where try refill(part) { heap.append(part) }
            for place in stride(from: heap.count / 2, through: 0, by: -1) { sink(place) }
        }
        return !heap.isEmpty
    }

    private func refill(_ part: Int) throws(ReaderError) -> Bool {
        places[part] = 0
        return try cursors[part].nextBatch(into: &batches[part])
    }

    /// Moves the part at `place` down to where it belongs.
    private func sink(_ start: Int) {
        var place = start
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count {
                if precedes(heap[child], heap[least]) { least = child }
            }
            if least == place { return }
            heap.swapAt(place, least)
            place = least
        }
    }

    private func precedes(_ a: Int, _ b: Int) -> Bool {
        NameOrder.precedes(
            batches[a].bytes, batches[a].range(places[a]), batches[b].bytes,
            batches[b].range(places[b])) ?? (a < b)
    }
}
