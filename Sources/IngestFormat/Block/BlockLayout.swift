// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// The fixed places of a block: docs/format/block.md has the same tables, and a test compares them.
package enum BlockLayout {
    /// `IGB1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3142_4749
    package static let version: UInt16 = 1
    package static let headerByteCountMin = 136
    /// Of any version, so that a length can be believed enough to check the checksum behind it.
    package static let headerByteCountMax = 4096
    package static let sectionEntryByteCount = 16
    /// Of a block that is committed: a write of the next one touches no sector of a disk that it is in.
    package static let commitAlignment = 4096
    /// Of a rewritten one, and of all sections together.
    package static let alignment = 8

    /// Of which a block's length is a multiple.
    static func alignment(of context: BlockContext) -> Int {
        context.rewritten == nil ? commitAlignment : alignment
    }

    package enum Header {
        package static let magic = FormatField("magic", 0, 4)
        package static let version = FormatField("version", 4, 2)
        package static let headerByteCount = FormatField("header byte count", 6, 2)
        package static let byteCount = FormatField("byte count", 8, 4)
        package static let headerChecksum = FormatField("header checksum", 12, 4)
        package static let previousChecksum = FormatField("previous checksum", 16, 4)
        package static let segment = FormatField("segment", 20, 4)
        package static let directory = FormatField("directory", 24, 8)
        package static let blockOrdinal = FormatField("block ordinal", 32, 4)
        package static let rowCount = FormatField("row count", 36, 4)
        package static let commitEpoch = FormatField("commit epoch", 40, 8)
        package static let minTimestamp = FormatField("min timestamp", 48, 8)
        package static let maxTimestamp = FormatField("max timestamp", 56, 8)
        package static let admissionTime = FormatField("admission time", 64, 8)
        package static let firstName = FormatField("first name", 72, 4)
        package static let nameCount = FormatField("name count", 76, 4)
        package static let firstKey = FormatField("first key", 80, 4)
        package static let keyCount = FormatField("key count", 84, 4)
        package static let shard = FormatField("shard", 88, 2)
        package static let policyVersion = FormatField("policy version", 90, 2)
        package static let sectionCount = FormatField("section count", 92, 2)
        package static let commitCount = FormatField("commit count", 94, 2)
        package static let eventHashCount = FormatField("event hash count", 96, 4)
        package static let sessionCount = FormatField("session count", 100, 4)
        package static let measuredCount = FormatField("measured count", 104, 4)
        package static let moneyCount = FormatField("money count", 108, 4)
        package static let ledgerEntryCount = FormatField("ledger entry count", 112, 4)
        package static let lastChecksum = FormatField("last checksum", 116, 4)
        package static let lastAdmissionTime = FormatField("last admission time", 120, 8)
        package static let zoneVersion = FormatField("zone version", 128, 4)
        package static let rewardHashCount = FormatField("reward hash count", 132, 4)

        package static let fields = [
            magic, version, headerByteCount, byteCount, headerChecksum, previousChecksum, segment,
            directory, blockOrdinal, rowCount, commitEpoch, minTimestamp, maxTimestamp,
            admissionTime, firstName, nameCount, firstKey, keyCount, shard, policyVersion,
            sectionCount, commitCount, eventHashCount, sessionCount, measuredCount, moneyCount,
            ledgerEntryCount, lastChecksum, lastAdmissionTime, zoneVersion, rewardHashCount,
        ]
    }

    /// One entry of the section table, from its own first byte.
    package enum Section {
        package static let kind = FormatField("kind", 0, 2)
        package static let encoding = FormatField("encoding", 2, 1)
        package static let parameter = FormatField("parameter", 3, 1)
        package static let rawByteCount = FormatField("raw byte count", 4, 4)
        package static let byteCount = FormatField("byte count", 8, 4)
        package static let checksum = FormatField("checksum", 12, 4)

        package static let fields = [kind, encoding, parameter, rawByteCount, byteCount, checksum]
    }

    /// The checksum of the header and section table: all but the checksum's own four bytes.
    /// - Parameter header: `headerByteCount` bytes.
    static func headerChecksum(_ header: UnsafeRawBufferPointer) -> UInt32 {
        let field = Header.headerChecksum
        // SAFETY: a header has at least headerByteCountMin bytes, beyond this field.
        let before = unsafe UnsafeRawBufferPointer(rebasing: header[..<field.offset])
        let after = unsafe UnsafeRawBufferPointer(rebasing: header[field.end...])
        return unsafe Checksum.crc32c(after, seed: Checksum.crc32c(before))
    }
}

/// Reads and writes fields of a header in place.
@unsafe struct FieldBytes {
    let base: UnsafeMutableRawPointer

    /// Writes the low bytes of `value`.
    func put(_ value: some FixedWidthInteger, _ field: FormatField) {
        let bits = UInt64(truncatingIfNeeded: value)
        for i in 0..<field.byteCount {
            // SAFETY: the caller's memory has room for the header that the field is one of.
            unsafe base.storeBytes(
                of: UInt8(truncatingIfNeeded: bits >> UInt64(8 * i)),
                toByteOffset: field.offset + i, as: UInt8.self)
        }
    }
}

extension FormatField {
    /// The field's value, zero-extended; at most 8 bytes.
    /// - Parameter base: of the header; all of the field is there.
    @inline(__always)
    func load(_ base: UnsafeRawPointer) -> UInt64 {
        var bits: UInt64 = 0
        for i in 0..<byteCount {
            // SAFETY: the caller checked that the header is all there.
            let byte = unsafe base.load(fromByteOffset: offset + i, as: UInt8.self)
            bits |= UInt64(byte) << UInt64(8 * i)
        }
        return bits
    }
}
