// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

/// The ledger of expired segments as it is stored: what each sender added, as in a segment's footer.
package struct ExpiredLedger: Sendable {
    /// Where it is, in the header's terms.
    struct Place: Hashable, Sendable {
        let entryCount: Int
        let encoding: StoredSection.Encoding
        let rawByteCount: Int
        let byteCount: Int
        let checksum: UInt32
    }

    let place: Place
    package let bytes: [UInt8]

    /// - Parameter entries: by sender key, within the limits of a footer of one segment.
    ///
    /// **Cost** LZ4 of the entries' bytes.
    package init(_ entries: [LedgerEntry]) {
        var writer = ByteWriter()
        LedgerCodec.encode(entries, into: &writer)
        let section = StoredSection(writer.bytes, compressor: LZ4Compressor())
        bytes = section.bytes
        place = Place(
            entryCount: entries.count, encoding: section.encoding,
            rawByteCount: section.rawByteCount, byteCount: section.bytes.count,
            checksum: Checksum.crc32c(section.bytes))
    }

    static func decode(
        _ bytes: [UInt8], _ place: Place, at offset: Int
    ) throws(FormatError) -> [LedgerEntry] {
        guard bytes.count == place.byteCount else {
            throw .torn("ledger", at: offset, available: bytes.count, needed: place.byteCount)
        }
        let computed = Checksum.crc32c(bytes)
        guard computed == place.checksum else {
            throw .corrupt(
                "ledger checksum", at: offset, got: computed, expected: .exactly(place.checksum))
        }
        let raw = try StoredSection.restore(
            bytes[...], encoding: place.encoding, rawByteCount: place.rawByteCount, at: offset)
        return try LedgerCodec.decode(
            whole: raw, entryCount: place.entryCount,
            rangeCountMax: Limits.segmentSequenceRangeCountMax)
    }
}

extension ExpiredLedger.Place {
    private typealias Field = ExpiredLayout.Header

    init(_ reader: FieldReader) throws(FormatError) {
        let raw = UInt8(truncatingIfNeeded: reader.load(Field.ledgerEncoding))
        guard let encoding = StoredSection.Encoding(rawValue: raw) else {
            throw reader.corrupt(
                Field.ledgerEncoding, .atMost(StoredSection.Encoding.lz4.rawValue))
        }
        self.encoding = encoding
        entryCount = try reader.count(Field.ledgerEntryCount, max: Limits.segmentSenderCountMax)
        byteCount = try reader.count(Field.ledgerByteCount, max: Limits.footerByteCountMax)
        rawByteCount = Int(
            try reader.load(
                Field.ledgerRawByteCount,
                in: encoding.rawByteCounts(ofStored: byteCount, max: Limits.footerByteCountMax)))
        checksum = reader.u32(Field.ledgerChecksum)
    }

    func put(to writer: inout FieldWriter) {
        writer.put(encoding.rawValue, Field.ledgerEncoding)
        writer.put(entryCount, Field.ledgerEntryCount)
        writer.put(rawByteCount, Field.ledgerRawByteCount)
        writer.put(byteCount, Field.ledgerByteCount)
        writer.put(checksum, Field.ledgerChecksum)
    }
}
