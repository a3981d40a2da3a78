// packet → [window] → socket → ack → [window]

/// Values of consecutive sequences, in chunks: none is moved when it grows, and memory is freed as the front is removed.
///
/// **Cost** The values, and at most two chunks of 4,096 values beside them.
struct SequenceArray<Value: Sendable>: Sendable {
    private static var shift: UInt64 { 12 }

    /// Of the first value.
    private(set) var start: UInt64
    /// Behind the last value.
    private(set) var end: UInt64
    /// Of the first value of the first chunk.
    private var origin: UInt64
    /// All but the last are full.
    private var chunks: [[Value]] = []

    init(start: UInt64) { (self.start, end, origin) = (start, start, start) }

    var isEmpty: Bool { start == end }

    private func chunk(_ sequence: UInt64) -> Int { Int((sequence - origin) >> Self.shift) }
    private func place(_ sequence: UInt64) -> Int {
        Int((sequence - origin) & (1 << Self.shift - 1))
    }

    subscript(sequence: UInt64) -> Value {
        get { chunks[chunk(sequence)][place(sequence)] }
        set { chunks[chunk(sequence)][place(sequence)] = newValue }
    }

    mutating func append(_ value: Value) {
        if place(end) == 0 { chunks.append([]) }
        chunks[chunks.count - 1].append(value)
        end += 1
    }

    /// Removes what lies below; where all does, it goes on at that sequence.
    mutating func remove(below sequence: UInt64) {
        guard sequence < end else { return self = SequenceArray(start: sequence) }
        start = max(start, sequence)
        let passed = chunk(start)
        chunks.removeFirst(passed)
        origin += UInt64(passed) << Self.shift
    }
}
