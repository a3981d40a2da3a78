// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

extension Snapshot {
    package func status() throws(ReaderError) -> DirectoryStatus {
        let names = makeNames()
        let nameCount = try Int(names.nextName) - 1 - names.lostNames().count
        let keyCount = try Int(names.nextKey) - names.lostKeyCount()
        let totals = try totals()
        do throws(StorageError) {
            return try readStatus(nameCount: nameCount, keyCount: keyCount, totals)
        } catch {
            throw ReaderError(error)
        }
    }

    private func readStatus(
        nameCount: Int, keyCount: Int, _ totals: LogTotals
    ) throws(StorageError) -> DirectoryStatus {
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        let present = try presentFiles()
        let expired = try readExpired()
        return DirectoryStatus(
            cut: cut, generation: manifest.generation.rawValue, compacted: manifest.cut.cut,
            durable: max(mark?.cut ?? cut, cut), sealedSegmentCount: manifest.sealedCount,
            unsealedSegmentCount: present.count { file in
                guard case .segment(let number) = file.name else { return false }
                // Of segments that came since the opening this cut knows nothing.
                let came = number.rawValue > cut.segment && number.rawValue - 1 != cut.segment
                return manifest.mayHoldTail(number) && !came
            },
            expired: ExpiredPart(expired),
            fileCount: present.count,
            byteCount: present.reduce(0) { $0.saturatingSum($1.byteCount) },
            nameCount: nameCount, keyCount: keyCount, rowCount: totals.rowCount,
            packets: PacketResult.counts(totals.packets),
            events: Verdict.counts(totals.events),
            uncleanStops: manifest.uncleanStops.map {
                .init(foundAtMicroseconds: $0.foundAt, position: $0.position.cut)
            },
            lostRangeCount: try whole().lost.count
                + expired.reduce(0) { $0 + $1.lost.count },
            idsCompleteSinceMicroseconds: manifest.idsCompleteSince == 0
                ? nil : manifest.idsCompleteSince)
    }

    /// The files of ours and their sizes; one that is dropped meanwhile is left out.
    private func presentFiles() throws(StorageError) -> [(name: FileName, byteCount: UInt64)] {
        var present: [(name: FileName, byteCount: UInt64)] = []
        for text in try files.names() {
            guard let name = FileName(text), name != .aside else { continue }
            do {
                present.append((name, try files.open(text, .read).byteCount()))
            } catch {
                guard case .notFound = error else { throw error }
            }
        }
        return present
    }
}

extension ExpiredPart {
    fileprivate init?(_ parts: [ExpiredSegments]) {
        guard let last = parts.last else { return nil }
        self.init(
            lastSegment: last.span.lastSegment.rawValue,
            rowCount: parts.reduce(0) { $0.saturatingSum($1.rowCount) },
            newestEventMicroseconds: parts.filter { $0.rowCount > 0 }.map(\.maxTimestamp).max(),
            missingSegmentCount: parts.reduce(0) { $0 + Int($1.missingCount) })
    }
}
