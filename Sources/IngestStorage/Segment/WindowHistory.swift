// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// The windows of all senders where a manifest's sealed segments end: what a start goes on from.
///
/// The footer of the last sealed segment has them. Where it cannot be believed, they are made again from the
/// nearest one before that can, or from what is left of expired segments, and the ledgers of the blocks since.
///
/// **Cost** One footer; without it, that of reading the segments behind the nearest.
enum WindowHistory {
    /// **Errors** `io`; `newerFormat`. What is missing or damaged is no error: the sequences of its blocks
    /// count as not arrived.
    static func read<Files: FileSystem>(
        of manifest: Manifest, in files: Files
    ) throws(StorageError) -> SenderWindows {
        var behind: [SealedSegment] = []
        for entry in manifest.sealed.reversed() {
            if let windows = try windows(behind: entry, manifest.directory, files) {
                return try windows.goingOn(through: behind.reversed(), manifest.directory, files)
            }
            behind.append(entry)
        }
        return try windowsOfExpired(manifest, files)
            .goingOn(through: behind.reversed(), manifest.directory, files)
    }

    private static func windows<Files: FileSystem>(
        behind entry: SealedSegment, _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> SenderWindows? {
        try readable { () throws(StorageError) in
            try SegmentReader(entry.number, directory: directory, in: files)
                .readFooter(of: entry).windows
        }
    }

    private static func windowsOfExpired<Files: FileSystem>(
        _ manifest: Manifest, _ files: Files
    ) throws(StorageError) -> SenderWindows {
        var windows = SenderWindows()
        for entry in manifest.expired {
            let ledger = try readable { () throws(StorageError) in
                try ExpiredFooterReader(entry, directory: manifest.directory, in: files)
                    .readLedger()
            }
            windows.apply(ledger ?? [])
        }
        return windows
    }

    /// The value, or `nil` where the file is missing or damaged.
    fileprivate static func readable<Value>(
        _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do { return try body() } catch {
            switch error {
            case .notFound, .corrupt: return nil
            default: throw error
            }
        }
    }
}

extension SenderWindows {
    fileprivate func goingOn<Files: FileSystem>(
        through segments: [SealedSegment], _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> SenderWindows {
        var windows = self
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        for entry in segments {
            let survey = try WindowHistory.readable { () throws(StorageError) in
                try SegmentSurvey(entry.number, directory: directory, in: files)
            }
            guard let survey, let file = survey.file else { continue }
            for case .block(let offset, let header) in survey.pieces {
                try buffer.read(file, at: offset, byteCount: header.byteCount)
                let block = buffer.withBytes { bytes in
                    try? decoder.decode(bytes, wanted: .ledger, into: rows)
                }
                windows.apply(block?.ledger ?? [], at: header.context.admissionTime)
            }
        }
        return windows
    }
}
