// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Items in order, a page at a time: what is merged.
package protocol MergeableBatch: AnyObject {
    init()
    var count: Int { get }
    func removeAll()
    /// `MergeState.run` with what compares and copies items. Each type has its own, so that the loop is compiled for it
    /// here, whoever merges.
    static func run(_ state: inout MergeState<Self>, into target: Self) -> MergeStep
}

package enum MergeStep: Equatable {
    /// The batch of this input has been used up: it is to be filled anew, or has ended.
    case usedUp(Int)
    /// The target has no room for the next item.
    case isFull
    /// No input has items left.
    case isAtEnd
}

/// The batches that are merged, and where each stands.
///
/// **Cost** One comparison an item as long as the next items of the same input come first, and one more for each input
/// that it falls behind: inputs are kept in the order of their next items.
package struct MergeState<Batch: MergeableBatch> {
    private struct Input {
        var number: Int
        var place: Int
    }

    fileprivate let batches: [Batch]
    /// Those with items left, the one with the next item first.
    private var inputs: [Input] = []
    /// Inputs whose batches have been filled since the last run.
    fileprivate var filled: [Int] = []

    fileprivate init(count: Int) { batches = (0..<count).map { _ in Batch() } }

    /// Appends items to `target` until something is needed. Of equal items that of the earlier input comes first.
    @inline(__always)
    mutating func run(
        into target: Batch, capacity: Int, compare: (Batch, Int, Batch, Int) -> Int,
        append: (Batch, Int) -> Void
    ) -> MergeStep {
        while let number = filled.popLast() {
            inputs.insert(Input(number: number, place: 0), at: 0)
            settleFirst(compare)
        }
        while let first = inputs.first {
            if target.count == capacity { return .isFull }
            let batch = batches[first.number]
            append(batch, first.place)
            guard first.place + 1 < batch.count else {
                inputs.removeFirst()
                return .usedUp(first.number)
            }
            inputs[0].place = first.place + 1
            settleFirst(compare)
        }
        return .isAtEnd
    }

    /// Moves the first input behind those whose next item comes before its own.
    @inline(__always)
    private mutating func settleFirst(_ compare: (Batch, Int, Batch, Int) -> Int) {
        var place = 0
        while place + 1 < inputs.count {
            let (a, b) = (inputs[place], inputs[place + 1])
            let order = compare(batches[a.number], a.place, batches[b.number], b.place)
            if order < 0 || order == 0 && a.number < b.number { return }
            inputs.swapAt(place, place + 1)
            place += 1
        }
    }
}

/// Merges sources that are each in order. Owned by one stage.
///
/// **Cost** A batch a source, and what `MergeState` says.
package struct PageMerge<Batch: MergeableBatch, Failure: Error> {
    /// Fills a batch with the next items, at least one; `false` at the end.
    package typealias Source = (Batch) throws(Failure) -> Bool

    private let sources: [Source]
    private var state: MergeState<Batch>
    private var isBegun = false

    package init(_ sources: [Source]) {
        self.sources = sources
        state = MergeState(count: sources.count)
    }

    /// Fills `target` with the next items, as many as it takes or there are; `false` at the end.
    package mutating func next(into target: Batch) throws(Failure) -> Bool {
        target.removeAll()
        if !isBegun {
            isBegun = true
            for number in sources.indices { try fill(number) }
        }
        while case .usedUp(let number) = Batch.run(&state, into: target) { try fill(number) }
        return target.count > 0
    }

    private mutating func fill(_ number: Int) throws(Failure) {
        if try sources[number](state.batches[number]) { state.filled.append(number) }
    }
}

extension NameBatch: MergeableBatch {
    package static func run(
        _ state: inout MergeState<NameBatch>, into target: NameBatch
    ) -> MergeStep {
        state.run(into: target, capacity: capacity) { a, i, b, j in
            // SAFETY: both names lie in their batches, which do not change during the call.
            unsafe NameOrder.compare(a.pointer(i), b.pointer(j))
        } append: { batch, place in
            // SAFETY: the name is copied before its batch can change.
            unsafe target.append(batch.pointer(place), ordinal: batch.ordinal(place).rawValue)
        }
    }
}

extension PairBatch: MergeableBatch {
    package static func run(
        _ state: inout MergeState<PairBatch>, into target: PairBatch
    ) -> MergeStep {
        state.run(into: target, capacity: target.capacity) { a, i, b, j in
            a[i] < b[j] ? -1 : 1
        } append: { batch, place in
            target.append(batch[place])
        }
    }
}
