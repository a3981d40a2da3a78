// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Merges the names of batches in bytewise order; a batch that has been used up is asked for again. The part of a
/// merge that knows nothing of where batches come from, so that its loop is compiled once, without generics.
///
/// **Cost** 137 KiB an input. One comparison a name as long as the next names of the same input come first, and
/// one more for each input that it falls behind: inputs are kept in the order of their next names.
@safe package final class NameMerge {
    package enum Step: Equatable {
        /// The names of this input's batch have all been taken: it is to be entered anew, or has ended.
        case usedUp(Int)
        /// The target has no room for the next name.
        case isFull
        /// No input has names left.
        case isAtEnd
    }

    private let batches: [NameBatch]
    /// Those with names left, the one with the next name first.
    private var inputs: [Input] = []

    private struct Input {
        var number: Int
        var place: Int
    }

    /// - Parameter inputCount: any number; where names are alike, their ordinals decide.
    package init(inputCount: Int) { batches = (0..<inputCount).map { _ in NameBatch() } }

    /// The batch of an input, to be filled while the input is not entered.
    package func batch(_ number: Int) -> NameBatch { batches[number] }

    /// Takes part with the names of its batch, which has been filled and goes on after the last one.
    package func enter(_ number: Int) {
        guard batches[number].count > 0 else { return }
        inputs.insert(Input(number: number, place: 0), at: 0)
        settleFirst()
    }

    /// Appends names to `target` until something is needed.
    package func run(into target: NameBatch) -> Step {
        while !inputs.isEmpty {
            if target.count == NameBatch.capacity { return .isFull }
            let (number, place) = (inputs[0].number, inputs[0].place)
            let batch = batches[number]
            // SAFETY: the name is copied before its batch can change.
            unsafe target.append(batch.pointer(place), ordinal: batch.ordinal(place).rawValue)
            guard place + 1 < batch.count else {
                inputs.removeFirst()
                return .usedUp(number)
            }
            inputs[0].place = place + 1
            settleFirst()
        }
        return .isAtEnd
    }

    /// Moves the first input behind those whose next name comes before its own.
    private func settleFirst() {
        var place = 0
        while place + 1 < inputs.count, !isAscending(inputs[place], inputs[place + 1]) {
            inputs.swapAt(place, place + 1)
            place += 1
        }
    }

    private func isAscending(_ a: Input, _ b: Input) -> Bool {
        let (left, right) = (batches[a.number], batches[b.number])
        // SAFETY: both names lie in their batches, which do not change during the call.
        return unsafe NameOrder.isAscending(
            left.pointer(a.place), left.ordinal(a.place).rawValue, right.pointer(b.place),
            right.ordinal(b.place).rawValue)
    }
}

/// Merges the words of batches of pairs, in the manner of `NameMerge`.
///
/// **Cost** 8 KiB an input.
package final class PairMerge {
    private let batches: [PairBatch]
    private var inputs: [Input] = []

    private struct Input {
        var word: UInt64
        var number: Int
        var place: Int
    }

    package init(inputCount: Int) { batches = (0..<inputCount).map { _ in PairBatch() } }

    /// The batch of an input, to be filled while the input is not entered.
    package func batch(_ number: Int) -> PairBatch { batches[number] }

    /// Takes part with the words of its batch, which has been filled and goes on after the last one.
    package func enter(_ number: Int) {
        guard batches[number].count > 0 else { return }
        inputs.insert(Input(word: batches[number][0], number: number, place: 0), at: 0)
        settleFirst()
    }

    /// Appends words to `target` until something is needed.
    package func run(into target: PairBatch) -> NameMerge.Step {
        while !inputs.isEmpty {
            if target.count == target.capacity { return .isFull }
            let first = inputs[0]
            target.append(first.word)
            let batch = batches[first.number]
            guard first.place + 1 < batch.count else {
                inputs.removeFirst()
                return .usedUp(first.number)
            }
            inputs[0] = Input(
                word: batch[first.place + 1], number: first.number, place: first.place + 1)
            settleFirst()
        }
        return .isAtEnd
    }

    private func settleFirst() {
        var place = 0
        while place + 1 < inputs.count, inputs[place].word > inputs[place + 1].word {
            inputs.swapAt(place, place + 1)
            place += 1
        }
    }
}
