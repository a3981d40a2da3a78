// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestReader

/// Bytes on their way out: numbers and texts are put behind one another with no String or array of their own, and
/// written in large pieces. Owned by the command that answers.
///
/// **Cost** About a nanosecond for two digits or 32 copied bytes.
@safe package final class OutputBuffer {
    package static let pieceByteCount = 256 << 10

    // Private, so that the compiler sees every access, and checks none of them while it runs.
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private var count = 0
    /// Whether the memory is that of who made the buffer.
    private var isLent = false
    private let write: ([UInt8]) throws -> Void

    /// - Parameter write: takes the next piece; it is not kept.
    package convenience init(_ write: @escaping ([UInt8]) throws -> Void) {
        self.init(capacity: Self.pieceByteCount + (16 << 10), write)
    }

    /// - Parameter capacity: at first.
    private init(capacity: Int, _ write: @escaping ([UInt8]) throws -> Void) {
        self.write = write
        self.capacity = capacity
        unsafe base = .allocate(capacity: capacity)
    }

    private init(lent memory: UnsafeMutableBufferPointer<UInt8>) {
        write = { _ in }
        capacity = memory.count
        // SAFETY: the memory outlives its only user, `bytes`; a capacity above 0 has a base.
        unsafe base = memory.baseAddress!
        isLent = true
    }

    deinit { if !isLent { unsafe base.deallocate() } }

    /// To be called after each row: writes once a piece is full.
    package func drain() throws {
        if count >= Self.pieceByteCount { try flush() }
    }

    /// Writes what is left.
    package func flush() throws {
        if count == 0 { return }
        // SAFETY: count bytes were put.
        let piece = unsafe Array(UnsafeBufferPointer(start: base, count: count))
        try write(piece)
        count = 0
    }

    /// Writes what is there, then a piece that was made elsewhere.
    package func write(piece: [UInt8]) throws {
        try flush()
        try write(piece)
    }

    /// What `body` puts.
    /// - Parameter capacity: more bytes than these are copied.
    package static func bytes(
        capacity: Int = 256, of body: (OutputBuffer) throws -> Void
    ) rethrows -> [UInt8] {
        var moved: [UInt8]?
        let bytes = try unsafe [UInt8](unsafeUninitializedCapacity: max(1, capacity)) {
            memory, count in
            let output = unsafe OutputBuffer(lent: memory)
            try body(output)
            // SAFETY: count bytes were put, in the array's memory or where the buffer has moved.
            if output.isLent {
                count = output.count
            } else {
                moved = unsafe Array(UnsafeBufferPointer(start: output.base, count: output.count))
            }
        }
        return moved ?? bytes
    }

    // MARK: Bytes and texts

    @inline(__always)
    package func put(_ byte: UInt8) {
        reserve(1)
        // SAFETY: there is room for one.
        unsafe base[count] = byte
        count &+= 1
    }

    package func put(_ bytes: [UInt8]) { put(bytes, bytes.indices) }

    /// Puts a part of `bytes`.
    package func put(_ bytes: [UInt8], _ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count)
        reserve(max(range.count, Self.wideByteCount))
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let from = source.baseAddress else { return }
            let isWide = bytes.count &- range.lowerBound >= Self.wideByteCount
            // SAFETY: the range is inside, with 32 bytes from its start on where that is said; there is room for both.
            unsafe copy(from + range.lowerBound, range.count, isWide: isWide)
        }
        count &+= range.count
    }

    /// Most of what is copied is shorter than this: then as many bytes are copied in one step, and those beyond it are
    /// written over by what comes next.
    private static var wideByteCount: Int { 32 }

    /// - Parameter isWide: whether `source` has `wideByteCount` bytes.
    @inline(__always)
    private func copy(_ source: UnsafePointer<UInt8>, _ byteCount: Int, isWide: Bool) {
        if isWide && byteCount <= Self.wideByteCount {
            // SAFETY: the caller says that both have as many bytes.
            let bytes = unsafe UnsafeRawPointer(source).loadUnaligned(as: SIMD32<UInt8>.self)
            let target = unsafe UnsafeMutableRawPointer(base + count)
            unsafe target.storeBytes(of: bytes, as: SIMD32<UInt8>.self)
        } else {
            unsafe (base + count).update(from: source, count: byteCount)
        }
    }

    /// Where what is put next will lie, until the next `flush`.
    var position: Int { count }

    /// Puts once more what lies at some places.
    func putAgain(_ places: Range<Int>) {
        precondition(places.lowerBound >= 0 && places.upperBound <= count)
        reserve(max(places.count, Self.wideByteCount))
        // SAFETY: the places are below count, behind which there is room for as many, and for 32.
        unsafe copy(base + places.lowerBound, places.count, isWide: true)
        count &+= places.count
    }

    package func put(_ text: String) {
        var text = text
        text.withUTF8 { source in
            reserve(source.count)
            guard let from = source.baseAddress else { return }
            // SAFETY: there is room for it.
            unsafe (base + count).update(from: from, count: source.count)
            count &+= source.count
        }
    }

    // MARK: Numbers

    /// Puts a decimal number.
    package func put(_ value: UInt64) {
        if value < 10 { return put(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
        put(value, width: Self.digitCount(value))
    }

    /// Puts the last `width` digits of a number, with zeros in front.
    package func put(_ value: UInt64, width: Int) {
        precondition(width >= 0)
        reserve(width)
        var rest = value
        var place = width
        while place > 1 {
            place &-= 2
            let pair = rest % 100
            rest /= 100
            // SAFETY: there is room for width bytes.
            unsafe base[count &+ place] = Self.digit(pair / 10)
            unsafe base[count &+ place &+ 1] = Self.digit(pair % 10)
        }
        if place == 1 { unsafe base[count] = Self.digit(rest % 10) }
        count &+= width
    }

    /// As `Money.description`.
    package func put(_ amount: Money) {
        guard let micros = UInt64(exactly: amount.micros) else { return put(amount.description) }
        put(micros / 1_000_000)
        put(UInt8(ascii: "."))
        var rest = micros % 1_000_000
        var width = 6
        while width > 2, rest % 10 == 0 {
            rest /= 10
            width -= 1
        }
        put(rest, width: width)
    }

    /// As `Rate.description`.
    package func put(_ rate: Rate) {
        guard let value = UInt64(exactly: rate.tenThousandths) else { return put(rate.description) }
        put(value / 10_000)
        put(UInt8(ascii: "."))
        put(value % 10_000, width: 4)
    }

    private static func digit(_ value: UInt64) -> UInt8 {
        UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)
    }

    private static func digitCount(_ value: UInt64) -> Int {
        var count = 1
        var rest = value
        while rest >= 100 {
            rest /= 100
            count &+= 2
        }
        return rest >= 10 ? count &+ 1 : count
    }

    @inline(__always)
    private func reserve(_ byteCount: Int) {
        if capacity &- count < byteCount { grow(byteCount) }
    }

    @inline(never)
    private func grow(_ byteCount: Int) {
        let larger = max(2 * capacity, count + byteCount)
        let moved = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        // SAFETY: count bytes were put, and there is room for more than them.
        unsafe moved.update(from: base, count: count)
        if !isLent { unsafe base.deallocate() }
        isLent = false
        unsafe base = moved
        capacity = larger
    }
}
