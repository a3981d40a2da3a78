// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The fixed places of a names run: docs/format/names.md has the same tables, and a test compares them.
package enum NamesLayout {
    /// Names, or keys, of one page; all but the last page of each are full.
    package static let pageCapacity = 1024

    package enum Header {
        package static let byteCount = 128
        /// `IGN1` as its bytes lie in the file.
        package static let magicNumber: UInt32 = 0x314E_4749

        package static let magic = FileEnvelope.magicField
        package static let version = FileEnvelope.versionField
        package static let reserved = FormatField("reserved", 6, 2)
        package static let firstName = FormatField("first name", 8, 4)
        package static let nextName = FormatField("next name", 12, 4)
        package static let directory = FormatField("directory", 16, 8)
        package static let fileNumber = FormatField("file number", 24, 8)
        package static let generation = FormatField("generation", 32, 8)
        package static let createdAt = FormatField("created at", 40, 8)
        package static let firstKey = FormatField("first key", 48, 4)
        package static let nextKey = FormatField("next key", 52, 4)
        package static let fileByteCount = FormatField("file byte count", 56, 8)
        package static let pageIndexOffset = FormatField("page index offset", 64, 8)
        package static let pageIndexChecksum = FormatField("page index checksum", 72, 4)
        package static let reservedEnd = FormatField("reserved end", 76, 48)
        package static let checksum = FileEnvelope.checksumField(byteCount)

        package static let fields = [
            magic, version, reserved, firstName, nextName, directory, fileNumber, generation,
            createdAt, firstKey, nextKey, fileByteCount, pageIndexOffset, pageIndexChecksum,
            reservedEnd, checksum,
        ]
    }

    /// One entry of the page index: first the pages of names, then those of keys.
    package enum PageEntry {
        package static let byteCount = 16
        package static let encoding = FormatField("encoding", 0, 1)
        package static let reserved = FormatField("reserved", 1, 3)
        package static let rawByteCount = FormatField("raw byte count", 4, 4)
        package static let storedByteCount = FormatField("stored byte count", 8, 4)
        package static let checksum = FormatField("checksum", 12, 4)

        package static let fields = [
            encoding, reserved, rawByteCount, storedByteCount, checksum,
        ]
    }
}
