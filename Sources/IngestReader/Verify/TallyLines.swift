// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat
import Synchronization

/// The lines of a tally, ascending, shared by all copies of it; nothing is written once it is made.
@safe final class TallyLines: Sendable {
    static let none = TallyLines(LineMemoryBox(capacity: 1), count: 0)

    private let box: LineMemoryBox
    let count: Int
    var base: UnsafePointer<Tally.Line> { unsafe UnsafePointer(box.base) }

    init(_ box: LineMemoryBox, count: Int) {
        precondition(count <= box.capacity)
        self.box = box
        self.count = count
    }

    deinit { LineMemoryPool.shared.give(box) }

    subscript(_ index: Int) -> Tally.Line {
        precondition(index >= 0 && index < count)
        // SAFETY: below count, so many were written.
        return unsafe box.base[index]
    }
}

/// Memory for lines, that may be huge pages. Owned by one builder, then by one `TallyLines`.
///
/// `@unchecked`: handed on under the lock of the pool, and only read once it is a tally's.
@safe final class LineMemoryBox: @unchecked Sendable {
    private var memory: LineMemory<Tally.Line>
    var capacity: Int { memory.capacity }
    var base: UnsafeMutablePointer<Tally.Line> { unsafe memory.base }

    init(capacity: Int) { memory = LineMemory(capacity: capacity) }

    func reserve(_ count: Int, keeping kept: Int) { memory.reserve(count, keeping: kept) }
}

/// Memory of tallies that are no more, for the next ones: to take it anew from the kernel, which clears it, costs more
/// than to count. Empty while no `verify` runs.
///
/// **Cost** No more memory than tallies have taken at one time.
final class LineMemoryPool: Sendable {
    static let shared = LineMemoryPool()
    /// What is smaller is taken anew.
    private static let capacityMin = 1 << 14

    private struct State {
        var userCount = 0
        var free: [LineMemoryBox] = []
    }

    private let state = Mutex(State())

    /// Keeps memory while `body` runs.
    func use<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        state.withLock { $0.userCount += 1 }
        defer {
            state.withLock { state in
                state.userCount -= 1
                if state.userCount == 0 { state.free.removeAll() }
            }
        }
        return try body()
    }

    /// The smallest that is large enough, and not much larger.
    func take(capacity: Int) -> LineMemoryBox {
        guard capacity >= Self.capacityMin else { return LineMemoryBox(capacity: capacity) }
        let found = state.withLock { state -> LineMemoryBox? in
            let fitting = state.free.indices.filter {
                state.free[$0].capacity >= capacity && state.free[$0].capacity / 8 < capacity
            }
            return fitting.min { state.free[$0].capacity < state.free[$1].capacity }
                .map { state.free.remove(at: $0) }
        }
        return found ?? LineMemoryBox(capacity: capacity)
    }

    func give(_ box: LineMemoryBox) {
        guard box.capacity >= Self.capacityMin else { return }
        state.withLock { if $0.userCount > 0 { $0.free.append(box) } }
    }
}
