// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestFormat
import IngestReader

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "The cut, segments, files, and what became of packets.")

    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            let status = try reader.status()
            // The cut is a field of its own here: `--with-cut` has nothing to add.
            try RowFormatter(format: formatter.format, cut: nil, output: formatter.output)
                .one(status.fields(isForPerson: formatter.format == .table))
        }
    }
}

extension DirectoryStatus {
    /// - Parameter isForPerson: leave out packets and events of which there are none.
    package func fields(isForPerson: Bool) -> [Field] {
        func named<Key: NamedCode>(_ counts: [Key: UInt64]) -> Cell {
            isForPerson ? .counts(counts) : .counts(counts, of: Key.allCases)
        }
        return [
            Field("cut", cut.cell),
            Field("durable", durable.cell),
            Field("compacted", compacted.cell),
            Field("generation", .count(generation)),
            Field(
                "windows",
                .fields([Field("idsCompleteSince", .time(idsCompleteSinceMicroseconds))])),
            Field(
                "segments",
                .fields([
                    Field("sealed", .count(UInt64(sealedSegmentCount))),
                    Field("unsealed", .count(UInt64(unsealedSegmentCount))),
                ])),
            Field("expired", expired?.cell ?? .none),
            Field("files", .count(UInt64(fileCount))),
            Field("bytes", .count(byteCount)),
            Field("names", .count(UInt64(nameCount))),
            Field("keys", .count(UInt64(keyCount))),
            Field("rows", .count(rowCount)),
            Field("packets", named(packets)),
            Field("events", named(events)),
            Field("lostRanges", .count(UInt64(lostRangeCount))),
            Field("uncleanStops", .list(uncleanStops.map(\.cell))),
        ]
    }
}

extension DirectoryStatus.UncleanStopRecord {
    fileprivate var cell: Cell {
        .fields([
            Field("foundAt", .time(foundAtMicroseconds)),
            Field("position", position.cell),
        ])
    }
}

extension ExpiredPart {
    fileprivate var cell: Cell {
        .fields([
            Field("lastSegment", .count(UInt64(lastSegment))),
            Field("rows", .count(rowCount)),
            Field("newestEvent", .time(newestEventMicroseconds)),
            Field("missingSegments", .count(UInt64(missingSegmentCount))),
        ])
    }
}
