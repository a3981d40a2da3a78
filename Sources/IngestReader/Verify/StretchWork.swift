// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import Dispatch
import IngestFormat
import IngestStorage
import Synchronization

/// The blocks of one segment, counted in stretches by as many threads as have time. Stretches are the same however
/// many threads there are, and are joined in their order; so is what is found in them.
///
/// **Cost** Counters for each thread that takes part, which are added up at the end.
final class StretchWork: Sendable {
    struct Block: Sendable {
        let ordinal: UInt32
        let rowCount: Int
    }

    /// Counts the blocks at some places of the list, as a segment that begins there.
    typealias Count =
        @Sendable (Range<Int>, RecountMemory, inout SegmentRecount) throws(StorageError) -> Void

    private struct Stretch {
        let blocks: Range<Int>
        /// Of the first block.
        let ordinal: UInt32
        /// How many stops lie before it.
        let part: Int
    }

    private struct State {
        var next = 0
        var doneCount = 0
        var failure: StorageError?
        var recounts: [SegmentRecount?]
        /// What the rows of each part are counted into, where no thread is at it.
        var gathers: [[RowGather]]
    }

    private let stretches: [Stretch]
    private let empty: SegmentRecount
    private let count: Count
    private let state: Mutex<State>
    private let finished = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - blocks: by ordinal.
    ///   - recount: of their segment, with the stops to come; no stretch goes over one.
    ///   - rowCount: with so many rows, a stretch is long enough.
    init(
        _ blocks: [Block], of recount: SegmentRecount, rowCount: Int, _ count: @escaping Count
    ) {
        stretches = Self.stretches(blocks, stops: Array(recount.stopsToCome), rowCount)
        empty = SegmentRecount(recount.number, isBeforeCut: recount.isBeforeCut, stops: [])
        self.count = count
        state = Mutex(
            State(
                recounts: Array(repeating: nil, count: stretches.count),
                gathers: Array(repeating: [], count: recount.stopsToCome.count + 1)))
    }

    private static func stretches(
        _ blocks: [Block], stops: [UInt32], _ rowCountEnough: Int
    ) -> [Stretch] {
        var stretches: [Stretch] = []
        var (first, rowCount, part) = (0, 0, 0)
        func end(at index: Int) {
            guard index > first else { return }
            stretches.append(
                Stretch(blocks: first..<index, ordinal: blocks[first].ordinal, part: part))
            (first, rowCount) = (index, 0)
        }
        for (index, block) in blocks.enumerated() {
            let isBehindStop = part < stops.count && stops[part] <= block.ordinal
            if isBehindStop || rowCount >= rowCountEnough { end(at: index) }
            while part < stops.count, stops[part] <= block.ordinal { part += 1 }
            rowCount += block.rowCount
        }
        end(at: blocks.count)
        return stretches
    }

    /// Counts all stretches, and adds them to the segment.
    ///
    /// **Errors** those of a stretch; all have ended then.
    func run(_ thread: RecountThread, _ recount: inout SegmentRecount) throws(StorageError) {
        if stretches.count > 1 { thread.share { [self] in countNext($0) } }
        while countNext(thread.memory) {}
        if !stretches.isEmpty { finished.wait() }
        var (recounts, parts): ([SegmentRecount?], [[RowGather]]) = ([], [])
        let failure = state.withLock { state in
            swap(&recounts, &state.recounts)
            swap(&parts, &state.gathers)
            return state.failure
        }
        if let failure { throw failure }
        recount.expect(parts.map { gathers in Tally.sum(of: gathers.map { $0.finish() }) })
        for (stretch, counted) in zip(stretches, recounts) {
            if let counted { recount.append(counted, from: stretch.ordinal) }
        }
    }

    /// Counts the next stretch on this thread; `false` if there is none.
    private func countNext(_ memory: RecountMemory) -> Bool {
        let begun = state.withLock { state -> (Int, RowGather?)? in
            guard state.next < stretches.count else { return nil }
            state.next += 1
            let part = stretches[state.next - 1].part
            return (state.next - 1, state.gathers[part].popLast())
        }
        guard let (index, gather) = begun else { return false }
        var recount = empty
        recount.lend(gather ?? memory.gathers.take())
        var failure: StorageError?
        do throws(StorageError) { try count(stretches[index].blocks, memory, &recount) } catch {
            failure = error
        }
        finish(index, &recount, failure)
        return true
    }

    private func finish(_ index: Int, _ recount: inout SegmentRecount, _ failure: StorageError?) {
        let gather = recount.takeGather()
        let isLast = state.withLock { [recount] state in
            if let gather { state.gathers[stretches[index].part].append(gather) }
            state.recounts[index] = recount
            state.failure = state.failure ?? failure
            state.doneCount += 1
            return state.doneCount == stretches.count
        }
        if isLast { finished.signal() }
    }
}
