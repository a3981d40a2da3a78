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
@safe package struct MergeState<Batch: MergeableBatch> {
    private struct Input {
        var number: Int
        var place: Int
    }

    fileprivate let batches: [Batch]
    /// The same, to be looked at without a count of who refers to them: with many new names that was a third of the time of the
    /// merge queue.
    private let references: [Unmanaged<Batch>]
    /// Those with items left, the one with the next item first.
    private var inputs: [Input] = []
    /// Inputs whose batches have been filled since the last run.
    fileprivate var filled: [Int] = []

    fileprivate init(count: Int) {
        batches = (0..<count).map { _ in Batch() }
        unsafe references = batches.map { unsafe Unmanaged.passUnretained($0) }
    }

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
            // SAFETY, here and below: `batches` keeps it.
            let isUsedUp = unsafe references[first.number]._withUnsafeGuaranteedRef { batch in
                append(batch, first.place)
                return first.place + 1 >= batch.count
            }
            guard !isUsedUp else {
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
            let order = unsafe references[a.number]._withUnsafeGuaranteedRef { first in
                unsafe references[b.number]._withUnsafeGuaranteedRef { second in
                    compare(first, a.place, second, b.place)
                }
            }
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

/// Sorts plain items by a number, a byte of it at a time from the lowest on.
///
/// **Cost** 1 ns an item to look at them, 3 to 5 ns for each byte in which the numbers differ; items that are in order
/// already are only looked at. Memory for as many items again.
enum RadixSort {
    private static var bucketCount: Int { 256 }
    private static var digitCount: Int { 8 }
    /// Fewer are compared with each other: to count them costs more.
    private static var countMin: Int { 64 }

    /// Sorts items so that their numbers ascend; those of equal numbers stay in their order.
    ///
    /// - Parameter scratch: as many places or more, of which nothing is kept.
    @inline(__always)
    static func sort<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, _ scratch: UnsafeMutableBufferPointer<Item>,
        by number: (Item) -> UInt64
    ) {
        precondition(scratch.count >= items.count && items.count <= Int(UInt32.max))
        guard items.count >= countMin else {
            return unsafe insert(items, by: number)
        }
        unsafe withUnsafeTemporaryAllocation(of: UInt32.self, capacity: digitCount * bucketCount) {
            starts in
            unsafe starts.initialize(repeating: 0)
            let differing = unsafe count(items, starts, number)
            // SAFETY: both have as many places as there are items.
            var source = unsafe items
            var target = unsafe UnsafeMutableBufferPointer(rebasing: scratch[..<items.count])
            for digit in 0..<digitCount where differing >> UInt64(digit * 8) & 0xFF != 0 {
                unsafe move(
                    source, target, digit,
                    UnsafeMutableBufferPointer(
                        rebasing: starts[digit * bucketCount..<(digit + 1) * bucketCount]), number)
                unsafe (source, target) = (target, source)
            }
            if unsafe source.baseAddress != items.baseAddress {
                unsafe items.baseAddress!.update(from: source.baseAddress!, count: items.count)
            }
        }
    }

    /// Counts the items by each byte of their numbers.
    /// - Returns: the bits in which the numbers differ; none if they ascend already.
    @inline(__always)
    private static func count<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, _ counts: UnsafeMutableBufferPointer<UInt32>,
        _ number: (Item) -> UInt64
    ) -> UInt64 {
        var (all, any, last) = (UInt64.max, UInt64(0), UInt64(0))
        var ascends = true
        for place in 0..<items.count {
            // SAFETY: the place is inside.
            let value = unsafe number(items[place])
            ascends = ascends && value >= last
            last = value
            any |= value
            all &= value
            for digit in 0..<digitCount {
                let byte = Int(truncatingIfNeeded: value >> UInt64(digit &* 8) & 0xFF)
                // SAFETY: digit < 8 and byte < 256.
                unsafe counts[digit &* bucketCount &+ byte] &+= 1
            }
        }
        return ascends ? 0 : any ^ all
    }

    /// Moves the items to where their byte says, in their order.
    /// - Parameter starts: how many there are of each byte.
    @inline(__always)
    private static func move<Item: BitwiseCopyable>(
        _ source: UnsafeMutableBufferPointer<Item>, _ target: UnsafeMutableBufferPointer<Item>,
        _ digit: Int, _ starts: UnsafeMutableBufferPointer<UInt32>, _ number: (Item) -> UInt64
    ) {
        var start: UInt32 = 0
        for byte in 0..<bucketCount {
            // SAFETY: byte < 256.
            let count = unsafe starts[byte]
            unsafe starts[byte] = start
            start &+= count
        }
        for place in 0..<source.count {
            let item = unsafe source[place]
            let byte = Int(truncatingIfNeeded: number(item) >> UInt64(digit &* 8) & 0xFF)
            // SAFETY: the counts add up to the number of items, so every place is inside, and each comes once.
            unsafe target[Int(starts[byte])] = item
            unsafe starts[byte] &+= 1
        }
    }

    /// Puts each item behind those before it that are not larger.
    @inline(__always)
    private static func insert<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, by number: (Item) -> UInt64
    ) {
        for place in 1..<max(1, items.count) {
            // SAFETY: all places are inside.
            let item = unsafe items[place]
            let value = number(item)
            var free = place
            while free > 0, unsafe number(items[free &- 1]) > value {
                unsafe items[free] = items[free &- 1]
                free &-= 1
            }
            unsafe items[free] = item
        }
    }
}
