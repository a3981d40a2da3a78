// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → query

/// Which sequences of one sender epoch have arrived: the state of a window, without what it is used for. The commit
/// stage has one of what is admitted, the compact stage one of what its segment holds, and recovery makes both again from the
/// log.
///
/// **Layout** Below the *floor* all is final: it arrived, or it is missing. From the floor on a ring of bits, one a
/// sequence, of 1,024 to 65,536, larger only while a hole keeps the floor down. The floor itself has not arrived.
/// Missing ranges are kept, 1,024 at most, the lowest are forgotten first; the count of missing sequences goes on.
///
/// **Cost** 3 ns for the next sequence in order; memory of 128 bytes to 8 KiB, and 16 bytes a missing range.
package struct SequenceWindow: Sendable, Hashable {
    /// What is known of a sequence.
    package enum State: Equatable, Sendable {
        /// It arrived.
        case arrived
        /// The floor passed it before it came, and that is still known.
        case missing
        /// It may come.
        case open
        /// More than a window above the floor.
        case beyond
    }

    private static let leastBitCount = 1_024
    private static var sequenceCountMax: UInt64 { UInt64(Limits.windowSequenceCountMax) }

    /// The lowest sequence that is not final.
    package private(set) var floor: UInt64
    /// One more than the highest that arrived or that the floor passed.
    package private(set) var end: UInt64
    /// Sequences that arrived.
    package private(set) var arrivedCount: UInt64 = 0
    /// Sequences that the floor passed before they came.
    package private(set) var missingCount: UInt64 = 0
    /// Some of the missing, those of the highest sequences: ascending, disjoint, not adjacent.
    package private(set) var missing: [ClosedRange<UInt64>] = []
    /// Bit `sequence mod count`; 0 outside `floor ..< end`.
    private var words: [UInt64]

    /// A window in which nothing has come; what is below `floor` is not counted.
    package init(floor: UInt64 = 0) {
        self.floor = floor
        end = floor
        words = Array(repeating: 0, count: Self.leastBitCount / 64)
    }

    /// A window as it was stored.
    ///
    /// - Parameters:
    ///   - arrivedBelowCount: sequences below the floor that arrived.
    ///   - words: from the floor on, as `word(from:)` gives them; at most `Limits.windowSequenceCountMax / 64`. The first
    ///     bit is 0, the last word is not.
    init(
        floor: UInt64, arrivedBelowCount: UInt64, missing: [ClosedRange<UInt64>],
        missingCount: UInt64, words: [UInt64]
    ) {
        self.init(floor: floor)
        self.missing = missing
        self.missingCount = missingCount
        arrivedCount = arrivedBelowCount
        for (index, word) in words.enumerated() {
            var bits = word
            while bits != 0 {
                insert(floor + UInt64(index * 64 + bits.trailingZeroBitCount))
                bits &= bits - 1
            }
        }
    }

    /// Sequences from the floor on that it can tell apart without growing.
    package var bitCount: Int { words.count * 64 }
    /// Bytes of memory.
    package var byteCount: Int {
        words.count * MemoryLayout<UInt64>.stride
            + missing.count * MemoryLayout<ClosedRange<UInt64>>.stride
    }

    package func state(of sequence: UInt64) -> State {
        if sequence < floor { return isMissing(sequence) ? .missing : .arrived }
        if sequence - floor >= Self.sequenceCountMax || sequence > Limits.sequenceMax {
            return .beyond
        }
        return sequence < end && isSet(sequence) ? .arrived : .open
    }

    /// The bits of 64 sequences from `sequence` on, which is at least the floor: bit i says whether sequence + i arrived.
    package func word(from sequence: UInt64) -> UInt64 {
        guard sequence < end else { return 0 }
        let (first, shift) = (place(sequence), sequence & 63)
        let next = shift == 0 ? 0 : words[(first + 1) & (words.count - 1)] << (64 - shift)
        return (words[first] >> shift | next) & Self.mask(end - sequence)
    }

    /// Sequences above the floor that arrived.
    package var arrivedAboveFloorCount: UInt64 {
        var count = 0
        var sequence = floor
        while sequence < end {
            count += word(from: sequence).nonzeroBitCount
            sequence += 64
        }
        return UInt64(count)
    }

    /// Whether both have the same sequences, however much memory they took for it.
    package static func == (a: Self, b: Self) -> Bool {
        guard a.floor == b.floor, a.end == b.end, a.arrivedCount == b.arrivedCount,
            a.missingCount == b.missingCount, a.missing == b.missing
        else { return false }
        return stride(from: a.floor, to: a.end, by: 64).allSatisfy {
            a.word(from: $0) == b.word(from: $0)
        }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(floor)
        hasher.combine(end)
        hasher.combine(arrivedCount)
        hasher.combine(missing)
    }

    // MARK: Arriving

    /// Notes that an open sequence arrived.
    @inline(__always)
    package mutating func insert(_ sequence: UInt64) {
        precondition(state(of: sequence) == .open)
        arrivedCount += 1
        if sequence == floor && end == floor {
            floor += 1
            end = floor
        } else {
            insertAbove(sequence)
        }
    }

    private mutating func insertAbove(_ sequence: UInt64) {
        while sequence - floor >= UInt64(bitCount) { grow() }
        words[place(sequence)] |= 1 << (sequence & 63)
        end = max(end, sequence + 1)
        if sequence == floor { passArrived() }
    }

    /// Does again what a block of the log says: what arrived, and how far the floor was taken up.
    ///
    /// - Parameters:
    ///   - ranges: ascending and disjoint. Where they reach further than a window above the floor, the floor must have
    ///     been taken up in between.
    ///   - floor: as `raise`.
    package mutating func replay(_ ranges: [ClosedRange<UInt64>], floor: UInt64) {
        for range in ranges {
            let last = min(range.upperBound, Limits.sequenceMax)
            var sequence = max(range.lowerBound, self.floor)
            while sequence <= last {
                if sequence == self.floor && last >= end {
                    passAll(through: last)
                    sequence = self.floor
                } else {
                    sequence = replayWord(sequence, through: last)
                }
            }
        }
        raise(to: floor)
    }

    /// As much of `sequence ... last` as lies in one word.
    /// - Returns: where to go on.
    private mutating func replayWord(_ first: UInt64, through last: UInt64) -> UInt64 {
        let last = min(last, first | 63)
        if last - floor >= Self.sequenceCountMax { raise(to: last - Self.sequenceCountMax + 1) }
        let first = max(first, floor)
        guard first <= last else { return first }
        while last - floor >= UInt64(bitCount) { grow() }
        let arriving = Self.mask(last - first + 1) << (first & 63)
        arrivedCount += UInt64((arriving & ~words[place(first)]).nonzeroBitCount)
        words[place(first)] |= arriving
        end = max(end, last + 1)
        if first == floor { passArrived() }
        return max(last + 1, floor)
    }

    /// Everything from the floor on arrived, up to `last`, which is at least the highest so far.
    private mutating func passAll(through last: UInt64) {
        var sequence = floor
        while sequence < end {
            arrivedCount -= UInt64(word(from: sequence).nonzeroBitCount)
            sequence += 64
        }
        for place in words.indices { words[place] = 0 }
        arrivedCount += last - floor + 1
        floor = last + 1
        end = floor
    }

    /// Takes the floor past what has arrived without a hole.
    private mutating func passArrived() {
        while floor < end {
            let shift = floor & 63
            let word = words[place(floor)] >> shift
            let count = min((~word).trailingZeroBitCount, 64 - Int(shift))
            if count == 0 { return }
            clear(floor..<floor + UInt64(count))
            floor += UInt64(count)
        }
        // Nothing is left above the floor, which a hole had kept down.
        if bitCount > Self.leastBitCount {
            words = Array(repeating: 0, count: Self.leastBitCount / 64)
        }
    }

    // MARK: Giving up

    /// Takes the floor up to `floor`: what has not arrived below it is missing.
    /// - Returns: how many sequences that are.
    @discardableResult
    package mutating func raise(to floor: UInt64) -> UInt64 {
        let floor = min(floor, Limits.sequenceMax + 1)
        guard floor > self.floor else { return 0 }
        let before = missingCount
        while self.floor < min(floor, end) {
            let hole = openCount(from: self.floor, below: min(floor, end))
            lose(self.floor...self.floor + hole - 1)
            self.floor += hole
            passArrived()
        }
        if self.floor < floor {
            lose(self.floor...floor - 1)
            self.floor = floor
        }
        end = max(end, self.floor)
        return missingCount - before
    }

    /// How many sequences have not arrived from `sequence`, which has not, on.
    private func openCount(from sequence: UInt64, below end: UInt64) -> UInt64 {
        var next = sequence
        while next < end {
            let shift = next & 63
            let word = words[place(next)] >> shift
            if word != 0 { return min(next + UInt64(word.trailingZeroBitCount), end) - sequence }
            next += 64 - shift
        }
        return end - sequence
    }

    private mutating func lose(_ range: ClosedRange<UInt64>) {
        missingCount += range.upperBound - range.lowerBound + 1
        if let last = missing.last, last.upperBound + 1 == range.lowerBound {
            missing[missing.count - 1] = last.lowerBound...range.upperBound
            return
        }
        if missing.count >= Limits.windowMissingRangeCountMax {
            missing.removeFirst(missing.count / 2)
        }
        missing.append(range)
    }

    /// Whether a sequence that has `state` arrived may be a missing one that is forgotten.
    package func mayHaveForgotten(_ sequence: UInt64) -> Bool {
        guard missing.count >= Limits.windowMissingRangeCountMax / 2, let first = missing.first
        else { return false }
        return sequence < first.lowerBound
    }

    private func isMissing(_ sequence: UInt64) -> Bool {
        let place = missing.indices.firstPlace { missing[$0].upperBound >= sequence }
        return place < missing.count && missing[place].contains(sequence)
    }

    // MARK: Bits

    @inline(__always)
    private func place(_ sequence: UInt64) -> Int {
        Int(truncatingIfNeeded: sequence >> 6) & (words.count &- 1)
    }

    @inline(__always)
    private func isSet(_ sequence: UInt64) -> Bool {
        words[place(sequence)] >> (sequence & 63) & 1 != 0
    }

    /// Clears bits of one word.
    private mutating func clear(_ range: Range<UInt64>) {
        let mask = Self.mask(range.upperBound - range.lowerBound)
        words[place(range.lowerBound)] &= ~(mask << (range.lowerBound & 63))
    }

    /// The lowest `count` bits.
    private static func mask(_ count: UInt64) -> UInt64 { count >= 64 ? ~0 : (1 << count) - 1 }

    private mutating func grow() {
        var larger = [UInt64](repeating: 0, count: words.count * 2)
        var sequence = floor
        // The first word of the ring may hold the last sequences too: each is taken by itself.
        while sequence < end {
            let next = min(end, (sequence | 63) + 1)
            let bits = words[place(sequence)] >> (sequence & 63) & Self.mask(next - sequence)
            larger[Int(truncatingIfNeeded: sequence >> 6) & (larger.count - 1)] |=
                bits << (sequence & 63)
            sequence = next
        }
        words = larger
    }
}

/// Values of consecutive sequences, in chunks: none is moved when it grows, and memory is freed as the front is removed.
///
/// **Cost** The values, and at most two chunks of 4,096 values beside them. A sender looks at it several times a packet, from
/// another module: that specialises inlinable functions only of a type that is usable from inline itself. Without, a tenth of
/// what a sender costs.
@usableFromInline package struct SequenceArray<Value: Sendable>: Sendable {
    @usableFromInline static var shift: UInt64 { 12 }

    /// Of the first value.
    @usableFromInline package internal(set) var start: UInt64
    /// Behind the last value.
    @usableFromInline package internal(set) var end: UInt64
    /// Of the first value of the first chunk.
    @usableFromInline var origin: UInt64
    /// All but the last are full.
    @usableFromInline var chunks: [[Value]] = []

    @inlinable package init(start: UInt64) { (self.start, end, origin) = (start, start, start) }

    @inlinable package var isEmpty: Bool { start == end }

    @inlinable func chunk(_ sequence: UInt64) -> Int { Int((sequence - origin) >> Self.shift) }
    @inlinable func place(_ sequence: UInt64) -> Int {
        Int((sequence - origin) & (1 << Self.shift - 1))
    }

    @inlinable package subscript(sequence: UInt64) -> Value {
        get { chunks[chunk(sequence)][place(sequence)] }
        set { chunks[chunk(sequence)][place(sequence)] = newValue }
    }

    @inlinable package mutating func append(_ value: Value) {
        if place(end) == 0 { chunks.append([]) }
        chunks[chunks.count - 1].append(value)
        end += 1
    }

    /// Removes what lies below; where all does, it goes on at that sequence.
    @inlinable package mutating func remove(below sequence: UInt64) {
        guard sequence < end else { return self = SequenceArray(start: sequence) }
        start = max(start, sequence)
        let passed = chunk(start)
        chunks.removeFirst(passed)
        origin += UInt64(passed) << Self.shift
    }
}
