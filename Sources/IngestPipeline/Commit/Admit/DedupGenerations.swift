// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// Which claims of the dedup index still hold: they age by generations, whole ones at a time, so that forgetting a
/// million keys is one store. Owned by the `DedupIndex`.
///
/// **Layout** A generation ends when it has lasted a 128th of the window or holds a 64th of the keys, and always with
/// a block. An index that a start has made again has other ends than the one before, and so knows the same ids inside the window,
/// and of the 128th or 64th behind it perhaps more or fewer. At most 192 live at once; a slot names its generation
/// by a byte of 1 to 255, of which a dead one is given again only once no slot has it any more.
struct DedupGenerations: ~Copyable {
    /// The bytes that hold: `oldest` and the `span` behind it, from 255 on to 1.
    struct Live {
        fileprivate(set) var oldest: UInt8 = 1
        fileprivate(set) var span: UInt8 = 0

        /// As `ingest_slots_scan`, which looks at eight slots at once.
        @inline(__always)
        func holds(_ byte: UInt8) -> Bool { byte != 0 && byte &- oldest <= span }
    }

    static let liveCountMax = 192
    private static let byteCount: UInt64 = 255
    private static let slicesOfWindow: Int64 = 128
    private static let slicesOfKeys = 64

    /// Claims that hold.
    private(set) var keyCount = 0
    /// The newest commit time of a claim that was dropped, µs since 1970; `Int64.min` while none was.
    private(set) var completeSinceMicroseconds = Int64.min
    /// The byte that slots of new claims get.
    private(set) var newestByte: UInt8 = 1

    private let keyCountMax: Int
    private let windowMicroseconds: Int64
    private(set) var live = Live()
    /// By byte, as are the times.
    private var keyCounts = InlineArray<256, Int>(repeating: 0)
    private var newestTimes = InlineArray<256, Int64>(repeating: .min)
    /// When their newest claims were committed by the log, which may be later: its clock may have been ahead.
    private var newestCommits = InlineArray<256, Int64>(repeating: .min)
    /// Numbers of generations, from 0 on; the byte of number n is 1 + n mod 255.
    private var oldest: UInt64 = 0
    private var newest: UInt64 = 0
    private var newestBegan: Int64?

    init(keyCountMax: Int, windowMicroseconds: Int64) {
        self.keyCountMax = keyCountMax
        self.windowMicroseconds = windowMicroseconds
    }

    /// How many generations ago a live one began.
    func age(_ byte: UInt8) -> Int {
        let newest = Int(newestByte)
        return Int(byte) <= newest ? newest - Int(byte) : newest + 255 - Int(byte)
    }

    @inline(__always)
    mutating func addKey() {
        keyCounts[Int(newestByte)] += 1
        keyCount += 1
    }

    /// A claim of this live generation is one of the newest now.
    mutating func renewKey(_ byte: UInt8) {
        keyCounts[Int(byte)] -= 1
        keyCounts[Int(newestByte)] += 1
    }

    /// A claim of this live generation had to make room.
    mutating func evictKey(_ byte: UInt8) {
        keyCounts[Int(byte)] -= 1
        keyCount -= 1
        completeSinceMicroseconds = max(completeSinceMicroseconds, newestCommits[Int(byte)])
    }

    /// Whether the block that begins now opens a generation.
    func isNewestFull(_ admissionTime: Int64) -> Bool {
        guard let newestBegan else { return false }
        return admissionTime &- newestBegan >= windowMicroseconds / Self.slicesOfWindow
            || keyCounts[Int(newestByte)] >= max(1, keyCountMax / Self.slicesOfKeys)
    }

    /// The byte that the next generation will have.
    var nextByte: UInt8 { Self.byte(newest + 1) }

    /// Claims from here on are as old as the first time, and were committed at the second. Call `begin` before, if
    /// `isNewestFull`.
    mutating func admit(at admissionTime: Int64, committedAt: Int64) {
        if newestBegan == nil { newestBegan = admissionTime }
        let place = Int(newestByte)
        newestTimes[place] = max(newestTimes[place], admissionTime)
        newestCommits[place] = max(newestCommits[place], committedAt)
    }

    /// Ends the oldest generation, if it is too old or there is no room for it; to be called until it gives `nil`.
    /// - Returns: its byte.
    mutating func dropOldest(at admissionTime: Int64) -> UInt8? {
        oldest < newest && mustDropOldest(admissionTime) ? dropOldest() : nil
    }

    /// Opens the next generation, whose byte no slot has.
    mutating func begin(at admissionTime: Int64) {
        newest += 1
        newestByte = Self.byte(newest)
        let place = Int(newestByte)
        (keyCounts[place], newestTimes[place], newestCommits[place]) = (0, .min, .min)
        live.span = newestByte &- live.oldest
        newestBegan = admissionTime
    }

    private func mustDropOldest(_ admissionTime: Int64) -> Bool {
        let time = newestTimes[Int(Self.byte(oldest))]
        return keyCount > keyCountMax || newest - oldest >= UInt64(Self.liveCountMax)
            || time < admissionTime &- windowMicroseconds
    }

    private mutating func dropOldest() -> UInt8 {
        let byte = Self.byte(oldest)
        let place = Int(byte)
        keyCount -= keyCounts[place]
        if keyCounts[place] > 0 {
            completeSinceMicroseconds = max(completeSinceMicroseconds, newestCommits[place])
        }
        keyCounts[place] = 0
        oldest += 1
        live.oldest = Self.byte(oldest)
        live.span = newestByte &- live.oldest
        return byte
    }

    private static func byte(_ number: UInt64) -> UInt8 {
        UInt8(truncatingIfNeeded: 1 + number % byteCount)
    }
}
