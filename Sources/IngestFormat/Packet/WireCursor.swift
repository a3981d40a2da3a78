// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query
// The grammar of the protobuf wire format: tags, varints, lengths, and how to pass what is not known.
// Source: protobuf.dev/programming-guides/encoding.

/// A place in a protobuf message and the message's end. Every read checks the end first; a `nil` or
/// `false` means that the message is broken and the cursor is of no further use.
///
/// It does not own the bytes: its maker keeps them in place while it lives.
@safe struct WireCursor {
    var at: UnsafePointer<UInt8>
    /// The end of the message. Submessages narrow it and put it back.
    var end: UnsafePointer<UInt8>
    /// The end of what may be loaded, ≥ `end`: a wide load past a message's end stays in the packet.
    let loadEnd: UnsafePointer<UInt8>

    @unsafe init(at: UnsafePointer<UInt8>, byteCount: Int) {
        unsafe self.at = at
        unsafe end = at + byteCount
        unsafe loadEnd = end
    }

    var isAtEnd: Bool { @inline(__always) get { unsafe at >= end } }

    /// Field number and wire type. A tag is a varint of at most 32 bits in value, of any length.
    @inline(__always)
    mutating func tag() -> UInt32? {
        guard let value = varint(), value <= UInt64(UInt32.max) else { return nil }
        return UInt32(truncatingIfNeeded: value)
    }

    /// 1 to 10 bytes; bits beyond the 64th are dropped, as the official decoders do.
    @inline(__always)
    mutating func varint() -> UInt64? {
        // SAFETY: at < end, checked here.
        guard unsafe at < end else { return nil }
        let first = unsafe at.pointee
        if first < 0x80 {
            unsafe at += 1
            return UInt64(first)
        }
        return longVarint()
    }

    /// Up to 8 bytes at once, where 8 may be loaded: a timestamp of today has 8.
    @inline(__always)
    private mutating func longVarint() -> UInt64? {
        // SAFETY: 8 bytes are there, checked here; loads need no alignment.
        guard unsafe loadEnd - at >= 8 else { return bytewiseVarint() }
        let word = unsafe UInt64(
            littleEndian: UnsafeRawPointer(at).loadUnaligned(as: UInt64.self))
        let stops = ~word & 0x8080_8080_8080_8080
        guard stops != 0 else { return bytewiseVarint() }
        unsafe at += (stops.trailingZeroBitCount &+ 1) &>> 3
        // SAFETY: it may have run over the end of the message, never over the end of the packet.
        guard unsafe at <= end else { return nil }
        // The bits up to the first stop, seven of each byte, pushed together in three steps.
        var value = word & (stops ^ (stops &- 1)) & 0x7F7F_7F7F_7F7F_7F7F
        value = (value & 0x007F_007F_007F_007F) | ((value & 0x7F00_7F00_7F00_7F00) &>> 1)
        value = (value & 0x0000_3FFF_0000_3FFF) | ((value & 0x3FFF_0000_3FFF_0000) &>> 2)
        return (value & 0x0FFF_FFFF) | ((value & 0x0FFF_FFFF_0000_0000) &>> 4)
    }

    @inline(never)
    private mutating func bytewiseVarint() -> UInt64? {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        // SAFETY: at < end is checked before each load.
        while unsafe at < end && shift < 70 {
            let byte = unsafe at.pointee
            unsafe at += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift &+= 7
        }
        return nil
    }

    /// The byte count of what follows, which is all there.
    @inline(__always)
    mutating func length() -> Int? {
        guard let count = varint() else { return nil }
        // SAFETY: at ≤ end always holds here, so the difference is not negative.
        return unsafe count <= UInt64(truncatingIfNeeded: end - at)
            ? Int(truncatingIfNeeded: count) : nil
    }

    @inline(__always)
    private mutating func advance(_ byteCount: Int) -> Bool {
        // SAFETY: moves only where the target is not past the end.
        guard unsafe end - at >= byteCount else { return false }
        unsafe at += byteCount
        return true
    }

    // MARK: What is not known

    /// Passes the value of a field that has no meaning here; its tag has been read.
    @inline(never)
    mutating func skipField(_ tag: UInt32) -> Bool {
        if tag & 7 == 3 { return skipGroup(tag >> 3) }
        return skipScalar(tag)
    }

    private mutating func skipScalar(_ tag: UInt32) -> Bool {
        guard tag >> 3 != 0 else { return false }
        switch tag & 7 {
        case 0: return varint() != nil
        case 1: return advance(8)
        case 2: return length().map { advance($0) } ?? false
        case 5: return advance(4)
        default: return false
        }
    }

    /// Passes everything up to the end tag that belongs to a start tag of `field`, with a stack of its
    /// own instead of recursion.
    private mutating func skipGroup(_ field: UInt32) -> Bool {
        guard field != 0 else { return false }
        var open = InlineArray<100, UInt32>(repeating: 0)
        open[0] = field
        var depth = 1
        while depth > 0 {
            guard let tag = tag() else { return false }
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
