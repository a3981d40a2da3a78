// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The fixed places of a manifest: docs/format/manifest.md has the same tables, and a test compares them.
/// The head, then the entries of each list in this order, then the checksum.
package enum ManifestLayout {
    package enum Head {
        package static let byteCount = 128
        /// `IGM1` as its bytes lie in the file.
        package static let magicNumber: UInt32 = 0x314D_4749

        package static let magic = FileEnvelope.magicField
        package static let version = FileEnvelope.versionField
        package static let hashAlgorithm = FormatField("hash algorithm", 6, 1)
        package static let reserved = FormatField("reserved", 7, 1)
        package static let fileByteCount = FormatField("file byte count", 8, 8)
        package static let directory = FormatField("directory", 16, 8)
        package static let generation = FormatField("generation", 24, 8)
        package static let directoryCreatedAt = FormatField("directory created at", 32, 8)
        package static let createdAt = FormatField("created at", 40, 8)
        package static let hashKey = FormatField("hash key", 48, 32)
        package static let nextFileNumber = FormatField("next file number", 80, 8)
        package static let shardCount = FormatField("shard count", 88, 4)
        package static let sealedCount = FormatField("sealed count", 92, 4)
        package static let runCount = FormatField("run count", 96, 4)
        package static let namesRunCount = FormatField("names run count", 100, 4)
        package static let lostRangeCount = FormatField("lost range count", 104, 4)
        package static let uncleanStopCount = FormatField("unclean stop count", 108, 4)
        package static let expiredCount = FormatField("expired count", 112, 4)
        package static let reservedEnd = FormatField("reserved end", 116, 4)
        package static let idsCompleteSince = FormatField("ids complete since", 120, 8)

        package static let fields = [
            magic, version, hashAlgorithm, reserved, fileByteCount, directory, generation,
            directoryCreatedAt, createdAt, hashKey, nextFileNumber, shardCount, sealedCount,
            runCount, namesRunCount, lostRangeCount, uncleanStopCount,
            expiredCount, reservedEnd, idsCompleteSince,
        ]
    }

    package enum Totals {
        package static let byteCount = 264
        package static let rowCount = FormatField("row count", 0, 8)
        package static let packets = FormatField("packets", 8, 128)
        package static let events = FormatField("events", 136, 128)

        package static let fields = [rowCount, packets, events]

        /// Room for codes, of packets and of events; those that mean nothing yet are 0.
        static let codeCount = 16

        /// The place of one code of `packets` or `events`.
        static func place(_ code: Int, in field: FormatField) -> FormatField {
            FormatField(field.name, field.offset + 8 * code, 8)
        }
    }
}
