// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// A batch of expired segments on its way into a file, together with the newest files of expired footers where
/// those span no more segments: they are folded like runs (`CompactionPlan`). Some pages a turn.
struct RetentionFold<Files: FileSystem>: ~Copyable {
    private var writer: ExpiredFooterWriter<Files, CounterMerge<CounterSource<Files>>>
    /// Of the batch alone.
    let sums: ExpiredSums
    private let damaged: [SegmentNumber]
    private let files: Files

    /// About 5 ms.
    private static var turnPageCount: Int { 64 }

    /// - Parameter sums: the batch's.
    /// **Errors** `corrupt` with the path of a file of expired footers that cannot be read.
    init(
        _ batch: RetentionBatch<Files>, _ sums: ExpiredSums, into manifest: Manifest,
        in files: Files
    ) throws(PipelineError) {
        let plan = CompactionPlan(
            runs: manifest.expired.map { Int($0.span.segmentCount) },
            newSegmentCount: Int(sums.span.segmentCount))
        var (rows, ledger) = (batch.counters, batch.ledger)
        var whole: ExpiredSums? = sums
        do {
            for entry in manifest.expired.suffix(plan.mergedRunCount).reversed() {
                let older = try ExpiredFooterReader(
                    entry, directory: manifest.directory, in: files)
                whole = whole.flatMap { older.header.sums.joined(with: $0) }
                rows.append(.run(older.counters.makeCursor()))
                ledger.add(
                    try older.readLedger(), countMax: Limits.segmentSenderCountMax,
                    rangeCountMax: Limits.segmentSequenceRangeCountMax)
            }
            guard let whole else { throw PipelineError.inconsistent("expired segments with a gap") }
            writer = try ExpiredFooterWriter(
                manifest.nextFileNumber, of: whole, ledger: ExpiredLedger(ledger.entries()),
                rows: CounterMerge(rows), in: files)
        } catch let error as PipelineError {
            throw error
        } catch let error as StorageError {
            throw .storage(error)
        } catch {
            throw .inconsistent("\(error)")
        }
        self.sums = sums
        self.files = files
        damaged = batch.damaged
    }

    /// Folds some more pages.
    /// - Returns: whether all of them are written.
    mutating func step() throws(RetentionFailure) -> Bool {
        do { return try writer.write(pageCountMax: Self.turnPageCount) } catch {
            switch error {
            case .storage(let error): throw .file(error)
            case .source(let error): throw .source(PipelineError(merging: error))
            }
        }
    }

    /// Ends the file, and puts damaged segments aside: nobody deletes them for that.
    /// - Parameter next: the generation that will name it.
    mutating func finish(for next: Manifest) throws(RetentionFailure) -> ExpiredEntry {
        let entry: ExpiredEntry
        do { entry = try writer.finish(next.nextFileNumber, for: next) } catch {
            throw .file(error)
        }
        do {
            for number in damaged {
                _ = try AsideDirectory(of: files).take(FileName.segment(number).text)
            }
        } catch {
            // Nobody names the file.
            if error.shortage != nil { try? files.unlink(entry.fileName.text) }
            throw .publish(.storage(error))
        }
        return entry
    }

    consuming func abandon() { writer.abandon() }
}

/// Why a fold cannot go on.
enum RetentionFailure: Error {
    /// What is folded could not be read.
    case source(PipelineError)
    /// Its own file could not be written, made durable or read back.
    case file(StorageError)
    /// The generation could not be published.
    case publish(PipelineError)

    /// Whether another file may do: the pages of this one cannot be trusted any more.
    var isWorthANewFile: Bool {
        switch self {
        case .file(.durabilityLost), .file(.corrupt), .file(.io): true
        default: false
        }
    }
}
