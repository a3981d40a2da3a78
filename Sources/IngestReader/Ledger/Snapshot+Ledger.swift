// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestCounting
import IngestFormat
import IngestStorage

extension Snapshot {
    package func ledger() throws(ReaderError) -> [LedgerRow] {
        let (sum, windows) = try sumOfLedger()
        let stops = manifest.uncleanStops.map(\.foundAt).sorted()
        return sum.entries.map { entry in
            LedgerRow(entry, window: windows.open[entry.key], uncleanStops: stops)
        }
    }

    /// Expired footers, footers, and the blocks behind them.
    private func sumOfLedger() throws(ReaderError) -> (LedgerSum, SenderWindows) {
        var sum = LedgerSum()
        var windows = SenderWindows()
        for entry in manifest.expired {
            let ledger = try ReaderError.reading { () throws(StorageError) in
                try ExpiredFooterReader(entry, directory: manifest.directory, in: files)
                    .readLedger()
            }
            sum.add(ledger)
            windows.apply(ledger)
        }
        let blocks = CutBlocks(files: files, manifest: manifest, end: tail.position) {
            $0.ledgerEntryCount > 0
        }
        try blocks.forEachFooter { footer in
            sum.add(footer.ledger)
            windows = footer.windows
        }
        let decoder = BlockDecoder()
        let rows = BlockRows()
        try blocks.forEachBehindSealed { (header, buffer) throws(ReaderError) in
            let time = header.context.admissionTime
            let ledger: [LedgerEntry]
            do throws(FormatError) {
                ledger = try buffer.withBytes { (bytes) throws(FormatError) in
                    try decoder.decode(bytes, wanted: .ledger, into: rows).ledger
                }
            } catch {
                throw ReaderError(error, path: files.path)
            }
            sum.add(ledger, at: time)
            windows.apply(ledger, at: time)
            return true
        }
        return (sum, windows)
    }
}

extension IngestReader {
    /// What became of all packets and events, a row for each sender epoch: framed ones by id and epoch, then
    /// plain datagrams, HTTP, and what could not be identified.
    ///
    /// **Errors** As all queries; `io` also where rows expired before it was their turn.
    /// **Cost** One read of every footer, and of the blocks of the segment that is being written; memory for a row a sender.
    public func ledger() throws(ReaderError) -> [LedgerRow] { try snapshot.ledger() }
}
