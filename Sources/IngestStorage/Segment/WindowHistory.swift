// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// The windows of all senders where a manifest's sealed segments end, and the time of the last block there: what
/// a start goes on from.
///
/// The footer of the last sealed segment has them. Where it cannot be believed, they are made again from the
/// nearest one before that can, or from what is left of expired segments, and the ledgers of the blocks since.
///
/// **Cost** One footer; without it, that of reading the segments behind the nearest. One more footer for each segment
/// that has lost all its blocks.
struct WindowHistory {
    var windows = SenderWindows()
    /// Admission time of the last block; 0 if there is none.
    var lastAdmissionTime: Int64 = 0

    /// **Errors** `io`; `newerFormat`. What is missing or damaged is no error: the sequences of its blocks
    /// count as not arrived.
    static func read<Files: FileSystem>(
        of manifest: Manifest, in files: Files
    ) throws(StorageError) -> WindowHistory {
        var behind: [SealedSegment] = []
        for (index, entry) in manifest.sealed.enumerated().reversed() {
            guard let found = try history(behind: entry, manifest.directory, files) else {
                behind.append(entry)
                continue
            }
            var history = try found.goingOn(
                through: behind.reversed(), manifest.directory, files)
            if history.lastAdmissionTime == 0 {
                history.lastAdmissionTime = try lastAdmissionTime(
                    of: manifest.sealed[..<index].reversed(), manifest.directory, files)
            }
            return history
        }
        return try WindowHistory(windows: windowsOfExpired(manifest, files))
            .goingOn(through: behind.reversed(), manifest.directory, files)
    }

    private static func history<Files: FileSystem>(
        behind entry: SealedSegment, _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> WindowHistory? {
        try StorageError.readable { () throws(StorageError) in
            let footer = try SegmentReader(entry.number, directory: directory, in: files)
                .readFooter(of: entry)
            return WindowHistory(
                windows: footer.windows,
                lastAdmissionTime: footer.blocks.last?.summary.lastAdmissionTime ?? 0)
        }
    }

    /// The time of the last block that is left behind an earlier footer, where the segment itself has lost all of them.
    private static func lastAdmissionTime<Files: FileSystem>(
        of segments: some Sequence<SealedSegment>, _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> Int64 {
        for entry in segments {
            let found = try history(behind: entry, directory, files)
            if let found, found.lastAdmissionTime > 0 { return found.lastAdmissionTime }
        }
        return 0
    }

    private static func windowsOfExpired<Files: FileSystem>(
        _ manifest: Manifest, _ files: Files
    ) throws(StorageError) -> SenderWindows {
        var windows = SenderWindows()
        for entry in manifest.expired {
            let ledger = try StorageError.readable { () throws(StorageError) in
                try RunReader(entry.run, directory: manifest.directory, in: files)
                    .readExpired().ledger
            }
            windows.apply(ledger ?? [])
        }
        return windows
    }

    private func goingOn<Files: FileSystem>(
        through segments: [SealedSegment], _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> WindowHistory {
        var history = self
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        for entry in segments {
            let found = try StorageError.readable { () throws(StorageError) in
                let survey = try SegmentSurvey(entry.number, directory: directory, in: files)
                return (survey.pieces, try survey.open(in: files))
            }
            guard let (pieces, file) = found else { continue }
            for case .block(let offset, let header) in pieces {
                try buffer.read(file, at: offset, byteCount: header.byteCount)
                let block = buffer.withBytes { bytes in
                    try? decoder.decode(bytes, wanted: .ledger, into: rows)
                }
                history.windows.apply(block?.ledger ?? [], at: header.summary.ledgerTime)
                history.lastAdmissionTime = header.lastAdmissionTime
            }
        }
        return history
    }
}
