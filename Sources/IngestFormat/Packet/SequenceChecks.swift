// [packet] → decode → ring → [admit] → block → [segment] → compaction → snapshot → query

/// 16 bits of the bytes of the newest packets of a window: they tell a resend from another packet under the same sequence.
///
/// **Layout** A ring by sequence of 64 to 4,096 places, which grows with the sequences, so that a place is
/// used again only when the ring is as large as it gets. A place has the check of the highest sequence of it that arrived,
/// whatever the order; 0 = not known.
///
/// **Cost** 2 ns for the next sequence in order; memory of 0 to 8 KiB.
package struct SequenceChecks: Sendable, Equatable {
    /// The window's: no sequence is below it.
    private let start: UInt64
    private var ring: [UInt16] = []

    private static let leastCount = 64
    private static let countMax = Limits.windowCheckCountMax

    init(start: UInt64) { self.start = start }

    /// Places.
    var count: Int { ring.count }

    /// Notes the check of a sequence that arrived.
    /// - Parameter room: places by which it may grow.
    /// - Returns: `false` where it needs more, and nothing is known of the sequence.
    @discardableResult @inline(__always)
    mutating func set(
        _ check: UInt16, of sequence: UInt64, in window: borrowing SequenceWindow, room: Int
    ) -> Bool {
        guard sequence >= start, sequence <= Limits.sequenceMax else { return true }
        if ring.count < Self.countMax && sequence - start >= UInt64(ring.count) {
            grow(toHold: sequence - start, room: room)
        }
        guard hasPlace(for: sequence) else { return false }
        if isNewest(sequence, in: window) { ring[place(of: sequence)] = check }
        return true
    }

    /// That of a sequence that arrived; `nil` where it is not known, or not any more.
    func check(of sequence: UInt64, in window: borrowing SequenceWindow) -> UInt16? {
        guard sequence >= start, sequence <= Limits.sequenceMax, hasPlace(for: sequence),
            isNewest(sequence, in: window), !window.mayHaveForgotten(sequence)
        else { return nil }
        let check = ring[place(of: sequence)]
        return check == 0 ? nil : check
    }

    private mutating func grow(toHold distance: UInt64, room: Int) {
        var count = max(Self.leastCount, ring.count)
        while count < Self.countMax && distance >= UInt64(count) { count *= 2 }
        guard count - ring.count <= room else { return }
        ring += [UInt16](repeating: 0, count: count - ring.count)
    }

    private func hasPlace(for sequence: UInt64) -> Bool {
        ring.count == Self.countMax || sequence - start < UInt64(ring.count)
    }

    private func place(of sequence: UInt64) -> Int {
        Int(truncatingIfNeeded: sequence &- start) & (ring.count - 1)
    }

    /// Whether no higher sequence that would share its place has arrived.
    private func isNewest(_ sequence: UInt64, in window: borrowing SequenceWindow) -> Bool {
        var later = sequence + UInt64(Self.countMax)
        while later < window.end {
            if later < window.floor { return false }
            if case .arrived = window.state(of: later) { return false }
            later += UInt64(Self.countMax)
        }
        return true
    }
}

// MARK: Bytes

extension SequenceChecks {
    /// **Layout** A varint of how many places, a power of two from 64 to 4,096, then each as a u16.
    func encode(into writer: inout ByteWriter) {
        writer.append(varint: UInt64(ring.count))
        for check in ring { writer.append(u16: check) }
    }

    init(_ source: inout SectionReader, start: UInt64) throws(FormatError) {
        self.start = start
        let count = try source.count("check count", max: Self.countMax, leastByteCount: 2)
        guard count >= Self.leastCount, count.nonzeroBitCount == 1 else {
            throw source.fault("check count", got: UInt64(count))
        }
        ring.reserveCapacity(count)
        for _ in 0..<count { ring.append(try source.u16("check")) }
    }
}

/// What became of the events of a sender epoch that are durable, as an answer to a heartbeat tells it.
///
/// **Layout** counted u64, repeated u64, refused u64: its low 56 bits are the events, its high 8 the raw value of the
/// `Verdict` by which most of them were refused; 0 where none was.
package struct EventSums: Equatable, Sendable, BitwiseCopyable {
    package static let byteCount = 24
    private static let refusedMax: UInt64 = 1 << 56 - 1

    package private(set) var counted: UInt64 = 0
    package private(set) var repeated: UInt64 = 0
    package private(set) var refused: UInt64 = 0
    private var reasonCode: UInt8 = 0

    package init() {}

    /// Sums up events by verdict, indexed by its raw value.
    package init(_ events: [UInt64]) {
        var most: UInt64 = 0
        for (code, count) in events.enumerated() where count > 0 {
            guard let verdict = Verdict(rawValue: UInt8(code)) else { continue }
            switch verdict {
            case .counted: counted = count
            case .duplicate, .conflict, .sessionRepeat: repeated = repeated.saturatingSum(count)
            default:
                refused = min(refused.saturatingSum(count), Self.refusedMax)
                if count > most { (most, reasonCode) = (count, UInt8(code)) }
            }
        }
    }

    /// From its three words.
    package init(counted: UInt64, repeated: UInt64, refusedAndReason: UInt64) {
        self.counted = counted
        self.repeated = repeated
        refused = refusedAndReason & Self.refusedMax
        reasonCode = UInt8(refusedAndReason >> 56)
    }

    /// By which most were refused; `nil` where none was, and for a code that this version does not know.
    package var reason: Verdict? {
        guard refused > 0, let verdict = Verdict(rawValue: reasonCode), verdict.isRefusal else {
            return nil
        }
        return verdict
    }

    var refusedAndReason: UInt64 { UInt64(reasonCode) << 56 | refused }
}
