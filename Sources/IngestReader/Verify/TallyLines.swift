// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// The lines of a tally, ascending, shared by all copies of it.
///
/// `@unchecked`: nothing is written while several have it.
@safe final class TallyLines: @unchecked Sendable {
    static let none = TallyLines(LineMemoryBox(capacity: 1), count: 0)

    let box: LineMemoryBox
    let count: Int
    let base: UnsafePointer<Tally.Line>

    init(_ box: LineMemoryBox, count: Int) {
        precondition(count <= box.capacity)
        self.box = box
        self.count = count
        unsafe base = UnsafePointer(box.base)
    }

    subscript(_ index: Int) -> Tally.Line {
        precondition(index >= 0 && index < count)
        // SAFETY: below count, so many were written.
        return unsafe base[index]
    }
}

/// Memory for lines. Owned by one builder, then by one `TallyLines`.
///
/// `@unchecked`: handed on, and only read while several have it.
@safe final class LineMemoryBox: @unchecked Sendable {
    private var memory: SequentialMemory<Tally.Line>
    var capacity: Int { memory.capacity }
    var base: UnsafeMutablePointer<Tally.Line> { unsafe memory.base }

    init(capacity: Int) { memory = SequentialMemory(capacity: capacity) }

    func reserve(_ count: Int, keeping kept: Int) { memory.reserve(count, keeping: kept) }
}
