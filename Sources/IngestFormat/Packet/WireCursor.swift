// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query
// The grammar of the protobuf wire format: tags, varints, lengths, and how to pass what is not known.
// Source: protobuf.dev/programming-guides/encoding.

/// A place in a protobuf message and the message's end. A `nil` or `false` means that the message is
/// broken and the cursor is of no further use, but for `step`, whose `false` may also be the end.
///
/// It does not own the bytes: its maker keeps them in place while it lives. What is inlined changes the
/// cursor, what is not takes copies and gives back where to go on: so its address is never taken, and it
/// stays in registers, which is worth half of the decoder's time.
@safe struct WireCursor {
    private(set) var at: UnsafePointer<UInt8>
    /// The end of the message.
    private(set) var end: UnsafePointer<UInt8>
    /// The end of what may be loaded, ≥ `end`: a wide load past a message's end stays in the packet.
    let loadEnd: UnsafePointer<UInt8>
    /// The first byte of the tag that `step` has passed: the whole tag, if it is below 0x80, as are all
    /// that the schema knows in the form in which encoders write them.
    private(set) var tag: UInt8 = 0

    @unsafe init(at: UnsafePointer<UInt8>, byteCount: Int) {
        unsafe self.at = at
        unsafe end = at + byteCount
        unsafe loadEnd = end
    }

    /// Goes on where a copy of this cursor has got to.
    @inline(__always)
    mutating func move(to place: UnsafePointer<UInt8>) { unsafe at = place }

    /// Whether the message ended where it should. A length that ran over the end shows here.
    var isAtEnd: Bool { @inline(__always) get { unsafe at == end } }

    // MARK: Tags

    /// Passes the first byte of the next tag; `false` at the end, or beyond it.
    @inline(__always)
    mutating func step() -> Bool {
        // SAFETY: at < end, checked here.
        guard unsafe at < end else { return false }
        unsafe tag = at.pointee
        unsafe at += 1
        return true
    }

    /// The whole tag of which `step` has passed the first byte, at most 32 bits in value and of any
    /// length up to 10 bytes.
    @inline(__always)
    mutating func wholeTag() -> UInt32? {
        if tag < 0x80 { return UInt32(tag) }
        unsafe at -= 1
        guard let value = bytewiseVarint(), value <= UInt64(UInt32.max) else { return nil }
        return UInt32(truncatingIfNeeded: value)
    }

    /// Makes a tag that was longer than it need be the one that it is.
    @inline(__always)
    mutating func shortenTag(_ tag: UInt32) { self.tag = UInt8(truncatingIfNeeded: tag) }

    // MARK: Values

    /// 1 to 10 bytes; bits beyond the 64th are dropped, as the official decoders do. For values that
    /// have one byte almost always.
    @inline(__always)
    mutating func smallVarint() -> UInt64? {
        // SAFETY: at < end, checked here.
        guard unsafe at < end else { return nil }
        let first = unsafe at.pointee
        guard first < 0x80 else { return bytewiseVarint() }
        unsafe at += 1
        return UInt64(first)
    }

    /// The same for values of any size: up to 8 bytes at once, where 8 may be loaded, without a branch on
    /// their count. It may run over the message's end (not the packet's), as `isAtEnd` then tells.
    @inline(__always)
    mutating func varint() -> UInt64? {
        guard var value = varintGroups(UInt64.self) else { return bytewiseVarint() }
        // Pushed together in three steps.
        value = (value & 0x007F_007F_007F_007F) | ((value & 0x7F00_7F00_7F00_7F00) &>> 1)
        value = (value & 0x0000_3FFF_0000_3FFF) | ((value & 0x3FFF_0000_3FFF_0000) &>> 2)
        return (value & 0x0FFF_FFFF) | ((value & 0x0FFF_FFFF_0000_0000) &>> 4)
    }

    /// The same for values that rarely have more than 4 bytes.
    @inline(__always)
    mutating func mediumVarint() -> UInt64? {
        guard var value = varintGroups(UInt32.self) else { return bytewiseVarint() }
        value = (value & 0x007F_007F) | ((value & 0x7F00_7F00) &>> 1)
        return UInt64((value & 0x3FFF) | ((value & 0x3FFF_0000) &>> 2))
    }

    /// The bits of a varint that fits a word, seven of each byte, which is passed; `nil` if there is none, or no such word.
    @inline(__always)
    private mutating func varintGroups<Word: FixedWidthInteger & UnsignedInteger & BitwiseCopyable>(
        _: Word.Type
    ) -> Word? {
        // SAFETY: a word is there, checked here; loads need no alignment.
        guard unsafe loadEnd - at >= MemoryLayout<Word>.size else { return nil }
        let word = unsafe Word(littleEndian: UnsafeRawPointer(at).loadUnaligned(as: Word.self))
        let low = Word.max / 255 &* 0x7F
        let stops = ~word & ~low
        guard stops != 0 else { return nil }
        unsafe at += (stops.trailingZeroBitCount &+ 1) &>> 3
        return word & (stops ^ (stops &- 1)) & low
    }

    @inline(__always)
    private mutating func bytewiseVarint() -> UInt64? {
        guard let read = unsafe Self.bytewiseVarint(at, end) else { return nil }
        unsafe at = read.next
        return unsafe read.value
    }

    @inline(never)
    private static func bytewiseVarint(
        _ start: UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>
    ) -> (value: UInt64, next: UnsafePointer<UInt8>)? {
        var at = unsafe start
        var value: UInt64 = 0
        var shift: UInt64 = 0
        // SAFETY: at < end is checked before each load.
        while unsafe at < end && shift < 70 {
            let byte = unsafe at.pointee
            unsafe at += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return unsafe (value, at) }
            shift &+= 7
        }
        return nil
    }

    /// The byte count of what follows, which is all there.
    @inline(__always)
    private mutating func length() -> Int? {
        // SAFETY: at ≤ end, or the varint is `nil`; so the difference is not negative.
        guard let count = smallVarint(), unsafe count <= UInt64(truncatingIfNeeded: end - at) else {
            return nil
        }
        return Int(truncatingIfNeeded: count)
    }

    /// A cursor over the submessage that follows, which is passed.
    @inline(__always)
    mutating func message() -> WireCursor? {
        guard let byteCount = length() else { return nil }
        var inner = self
        // SAFETY: the submessage lies inside this message, by `length`.
        unsafe at += byteCount
        unsafe inner.end = at
        return inner
    }

    /// Where the bytes that follow lie in the packet at `base`; they are passed. A count over 255 is
    /// given as 255: it is over every limit, and `EventCompletion` refuses or drops it.
    ///
    /// They may run over the message's end by up to 127 bytes, as `isAtEnd` then tells: nothing looks at
    /// a place before that is asked.
    @inline(__always)
    mutating func place(_ base: UnsafePointer<UInt8>) -> (offset: UInt16, byteCount: UInt8)? {
        // SAFETY: at < end, checked here. Offsets fit by the packet's limit.
        guard unsafe at < end else { return nil }
        let first = unsafe at.pointee
        if first < 0x80 {
            let offset = unsafe UInt16(truncatingIfNeeded: at - base &+ 1)
            unsafe at += Int(first) &+ 1
            return (offset, first)
        }
        guard let byteCount = length() else { return nil }
        let offset = unsafe UInt16(truncatingIfNeeded: at - base)
        unsafe at += byteCount
        return (offset, UInt8(truncatingIfNeeded: min(byteCount, 255)))
    }

    // MARK: What is not known

    /// Passes the value of a field that has no meaning here; its tag has been read.
    @inline(__always)
    mutating func skipField(_ tag: UInt32) -> Bool {
        guard let next = unsafe afterField(tag) else { return false }
        unsafe at = next
        return true
    }

    /// Where the field with `tag` ends; `nil` if it is broken.
    @inline(never)
    private func afterField(_ tag: UInt32) -> UnsafePointer<UInt8>? {
        var copy = self
        let isWhole = tag & 7 == 3 ? copy.skipGroup(tag >> 3) : copy.skipScalar(tag)
        return unsafe isWhole ? copy.at : nil
    }

    private mutating func skipScalar(_ tag: UInt32) -> Bool {
        guard tag >> 3 != 0 else { return false }
        switch tag & 7 {
        case 0: return smallVarint() != nil
        case 1: return advance(8)
        case 2: return length().map { advance($0) } ?? false
        case 5: return advance(4)
        default: return false
        }
    }

    private mutating func advance(_ byteCount: Int) -> Bool {
        // SAFETY: moves only where the target is not past the end.
        guard unsafe end - at >= byteCount else { return false }
        unsafe at += byteCount
        return true
    }

    /// Passes everything up to the end tag that belongs to a start tag of `field`, with a stack of its
    /// own instead of recursion.
    private mutating func skipGroup(_ field: UInt32) -> Bool {
        guard field != 0 else { return false }
        var open = InlineArray<100, UInt32>(repeating: 0)
        open[0] = field
        var depth = 1
        while depth > 0 {
            guard step(), let tag = wholeTag() else { return false }
            switch tag & 7 {
            case 3:
                guard depth < Limits.protobufDepthMax, tag >> 3 != 0 else { return false }
                open[depth] = tag >> 3
                depth += 1
            case 4:
                guard open[depth - 1] == tag >> 3 else { return false }
                depth -= 1
            default:
                guard skipScalar(tag) else { return false }
            }
        }
        return true
    }
}
