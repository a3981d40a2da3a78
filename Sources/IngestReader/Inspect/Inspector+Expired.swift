// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

extension Inspector {
    mutating func describeExpired(_ file: Files.File) throws(StorageError) {
        let head = try file.readArray(at: 0, byteCount: ExpiredHeader.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .expired(let number)? = meant else { return try ExpiredHeader.decode(head) }
            return try ExpiredHeader.decode(head, fileNumber: number)
        }
        guard let header else { return }
        describe(header)
        let reader = try ExpiredFooterReader(header.entry, in: files)
        try describePages(reader.counters, from: UInt64(ExpiredHeader.byteCount))
        do throws(StorageError) {
            let ledger = try reader.readLedger()
            let rangeCount = ledger.reduce(0) { $0 + $1.sequences.count }
            line("ledger", "\(ledger.count) senders, \(rangeCount) ranges of sequences")
        } catch {
            guard error.exitCode == 65 else { throw error }
            bad("ledger: \(error)")
        }
        cannotSee("the rows: they have expired, and this file is what attests them")
    }

    private func describe(_ header: ExpiredHeader) {
        let sums = header.sums
        line("header", "expired footers \(header.fileNumber.rawValue)")
        indented("directory \(Self.hex(header.directory.rawValue))")
        indented(
            "of the log from segment \(sums.span.firstSegment.rawValue) to \(sums.span.end.text): "
                + "\(sums.footerCount) footers, \(sums.missingCount) could not be read")
        indented(
            "made \(TimeText.utc(header.createdAt)) for generation \(header.generation.rawValue), "
                + "checksum \(Self.hex(header.checksum))")
        line("rows", "\(sums.rowCount) in \(sums.logByteCount) bytes of segments")
        if sums.rowCount > 0 {
            indented(
                "event times from \(TimeText.utc(sums.minTimestamp)) to "
                    + TimeText.utc(sums.maxTimestamp))
        }
        line(
            "behind it",
            "next name \(sums.nextName), next key \(sums.nextKey), commit epoch "
                + "\(sums.nextCommitEpoch), last block's checksum \(Self.hex(sums.lastBlockChecksum))"
        )
        line("counters", "\(header.keyDayCount) rows in \(header.pageCount) pages")
    }
}
