// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Bytes on their way out, written in large pieces. Owned by the command that answers.
package final class OutputBuffer {
    package static let pieceByteCount = 256 << 10

    package var bytes: [UInt8] = []
    private let write: ([UInt8]) throws -> Void

    /// - Parameter write: takes the next piece; it is not kept.
    package init(_ write: @escaping ([UInt8]) throws -> Void) {
        self.write = write
        bytes.reserveCapacity(Self.pieceByteCount + (16 << 10))
    }

    /// To be called after each row: writes once a piece is full.
    package func drain() throws {
        if bytes.count >= Self.pieceByteCount { try flush() }
    }

    /// Writes what is left.
    package func flush() throws {
        if bytes.isEmpty { return }
        try write(bytes)
        bytes.removeAll(keepingCapacity: true)
    }
}
