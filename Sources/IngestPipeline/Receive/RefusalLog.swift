// [packet] → [decode] → ring → admit → block → segment → compaction → snapshot → query
// What operators read about packets that were refused: a line a second and kind at most, and nothing in
// it that a sender could use to forge lines or that tells of a user.

import CIngestLinux
import IngestFormat

/// Refusals by kind since the last line, with the last of each. A plain value; noting allocates nothing.
struct RefusalSamples {
    struct Sample: BitwiseCopyable {
        var source = ingest_address()
        var byteCount = 0
        /// The first bytes, at most four: where the magic is, and never more, because ids may follow.
        var head: UInt32 = 0
    }

    private(set) var counts = InlineArray<15, UInt64>(repeating: 0)
    private(set) var last = InlineArray<15, Sample>(repeating: Sample())

    mutating func note(
        _ result: PacketResult, _ bytes: UnsafeRawBufferPointer, from source: ingest_address
    ) {
        let index = Int(result.rawValue)
        counts[index] &+= 1
        var sample = Sample(source: source, byteCount: bytes.count)
        for place in 0..<min(4, bytes.count) {
            // SAFETY: place < count.
            sample.head |= unsafe UInt32(bytes[place]) << (8 * UInt32(place))
        }
        last[index] = sample
    }

    /// Forgets the refusals of one kind: a line has told of them.
    mutating func clear(_ result: PacketResult) { counts[Int(result.rawValue)] = 0 }
}

/// Makes log lines of refusals and kernel drops. Owned by the receive queue.
///
/// Lines go to a closure that must not block: see `LogLines`.
struct RefusalLog {
    private let write: @Sendable (String) -> Void
    /// When the next line of a kind may come, monotonic nanoseconds; the last place is for kernel drops.
    private var dueNanoseconds = InlineArray<16, UInt64>(repeating: 0)
    private var toldDropCount: UInt64 = 0

    private static let intervalNanoseconds: UInt64 = 1_000_000_000
    private static let dropPlace = 15

    init(write: @escaping @Sendable (String) -> Void) { self.write = write }

    /// Writes a line for each kind of refusal that has something to tell and has been silent for a second.
    mutating func tell(_ samples: inout RefusalSamples, nowNanoseconds: UInt64) {
        for result in PacketResult.allCases {
            let index = Int(result.rawValue)
            guard samples.counts[index] > 0, nowNanoseconds >= dueNanoseconds[index] else {
                continue
            }
            dueNanoseconds[index] = nowNanoseconds &+ Self.intervalNanoseconds
            write(Self.line(result, samples.counts[index], samples.last[index]))
            samples.clear(result)
        }
    }

    /// Writes what is left to tell, however long ago the last line was.
    mutating func tellAll(_ samples: inout RefusalSamples) {
        dueNanoseconds = InlineArray(repeating: 0)
        tell(&samples, nowNanoseconds: 0)
    }

    /// Writes a line of datagrams that the kernel dropped, at most one a second; `dropCount` is of the socket's life.
    mutating func tell(
        dropCount: UInt64, receiveBufferByteCount: Int, nowNanoseconds: UInt64
    ) {
        guard dropCount > toldDropCount, nowNanoseconds >= dueNanoseconds[Self.dropPlace] else {
            return
        }
        dueNanoseconds[Self.dropPlace] = nowNanoseconds &+ Self.intervalNanoseconds
        write(
            "the kernel dropped \(dropCount - toldDropCount) datagrams because the receive buffer of "
                + "\(receiveBufferByteCount) bytes was full: raise --receive-buffer-bytes, and "
                + "net.core.rmem_max if the buffer is smaller than was asked for")
        toldDropCount = dropCount
    }

    static func line(_ result: PacketResult, _ count: UInt64, _ last: RefusalSamples.Sample)
        -> String
    {
        let noun = count == 1 ? "datagram" : "datagrams"
        let source = SocketAddress(last.source)
        var line =
            "refused \(count) \(noun) as \(result.name), the last of \(last.byteCount) bytes "
            + "from \(source)"
        if result == .badMagic {
            let head = (0..<UInt32(min(4, last.byteCount))).map {
                UInt8(truncatingIfNeeded: last.head >> (8 * $0))
            }
            line += ", beginning with \"\(escaped(head))\""
        }
        return line
    }

    /// Printable ASCII as it is, every other byte as `\xHH`: no line break, no terminal sequence.
    static func escaped(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let isPlain = byte >= 0x20 && byte < 0x7F && byte != 0x22 && byte != 0x5C
            if isPlain { return String(UnicodeScalar(byte)) }
            let digits = String(byte, radix: 16)
            return "\\x" + (digits.count == 1 ? "0" : "") + digits
        }.joined()
    }
}
