// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys of a range of ordinals in a file of their own, so that they outlive their segments.
///
/// **Layout** docs/format/names.md. A fixed header of 128 bytes, pages of up to 1024 names or keys, an index.
/// A name of no bytes and a key without names stand for ordinals that were lost with their block.
package enum NamesRun {
    package static let magic: UInt32 = 0x314E_4749  // "IGN1"

    package struct Header: Hashable, Sendable {
        package static let byteCount = 128
        package var fileNumber: FileNumber
        package var directory: DirectoryID
        package var names: Range<UInt32>
        package var keys: Range<UInt32>
        package var generation: Generation
        package var createdAt: Int64
        package var pageIndexOffset: UInt64
        package var pageIndexChecksum: UInt32
        /// CRC-32C that, by the index, covers the whole file; what the manifest holds.
        package internal(set) var checksum: UInt32 = 0
    }

    /// The decoded contents of a names run, or of one page of it.
    package struct Contents: Hashable, Sendable {
        package var names: Range<UInt32>
        package var keys: Range<UInt32>

        /// The bytes of a name; empty for one that was lost.
        /// - Parameter ordinal: in `names`.
        package func name(_ ordinal: NameOrdinal) -> ArraySlice<UInt8> { fatalError("being written") }
        /// The names of a key; `nil` for one that was lost.
        /// - Parameter ordinal: in `keys`.
        package func key(_ ordinal: KeyOrdinal) -> RewardKey? { fatalError("being written") }
    }

    /// Checks and decodes a whole names run.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil
    ) throws(FormatError) -> Contents {
        fatalError("being written")
    }

    /// What is shown for a name or key that was lost with its block.
    package static func lostText(_ ordinal: UInt32) -> String { "(lost:\(ordinal))" }
}

/// Names and keys in order → the bytes of a names run. Owned by one stage.
package struct NamesRunEncoder {
    package init(
        fileNumber: FileNumber, directory: DirectoryID, firstName: NameOrdinal,
        firstKey: KeyOrdinal, generation: Generation, createdAt: Int64
    ) {
        fatalError("being written")
    }

    /// The next name, or (empty) the gap of one that was lost.
    package mutating func append(name: ArraySlice<UInt8>) { fatalError("being written") }
    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) { fatalError("being written") }
    /// The whole file, and what the manifest keeps of it.
    package mutating func finish() -> (bytes: [UInt8], entry: NamesRunEntry) {
        fatalError("being written")
    }
}
