// JSON line → [parse] → encode → packet

import IngestFormat

/// Reads one JSON event from one line, with the parser that the daemon uses, so that what passes here
/// passes there.
struct EventLineParser {
    /// The event of the last line that `parse` accepted; its offsets point into `bytes`.
    private(set) var event = EventDescriptor()
    /// A copy of the line, in which the decoder has unescaped its texts in place.
    private(set) var bytes: [UInt8] = []

    init() { bytes.reserveCapacity(4096) }

    /// `nil` if the line is one valid event, which is then in `event` and `bytes`; else why not.
    mutating func parse(_ line: Span<UInt8>) -> EventRefusal? {
        guard line.count <= Limits.packetByteCountMax else {
            return .lineTooLong(byteCountMax: Limits.packetByteCountMax)
        }
        return .malformed
    }
}
