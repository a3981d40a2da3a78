// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query

extension Manifest {
    private typealias Head = ManifestLayout.Head

    /// The bytes of the whole file.
    ///
    /// What is listed must be as `decode` asks: the writer reads the file back before it is published.
    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Head.magicNumber, Head.byteCount)
        writer.put(hashAlgorithm, Head.hashAlgorithm)
        writer.put(fileByteCount, Head.fileByteCount)
        writer.put(directory.rawValue, Head.directory)
        writer.put(generation.rawValue, Head.generation)
        writer.put(directoryCreatedAt, Head.directoryCreatedAt)
        writer.put(createdAt, Head.createdAt)
        writer.put(bytes: hashKey, Head.hashKey)
        writer.put(nextFileNumber.rawValue, Head.nextFileNumber)
        writer.put(1, Head.shardCount)
        let (level0, lost) = (level0, lostOfLevel0)
        writer.put(level0.count, Head.sealedCount)
        writer.put(runs.count, Head.runCount)
        writer.put(namesRuns.count, Head.namesRunCount)
        writer.put(lost.count, Head.lostRangeCount)
        writer.put(uncleanStops.count, Head.uncleanStopCount)
        writer.put(expired.count, Head.expiredCount)
        writer.put(idsCompleteSince, Head.idsCompleteSince)
        ShardState.layout.append(shard, to: &writer)
        put(shard.totals, to: &writer)
        for entry in expired { RunEntry.layout.append(entry.run, to: &writer) }
        for entry in expired { NamesRunEntry.layout.append(entry.names, to: &writer) }
        for run in runs { RunEntry.layout.append(run, to: &writer) }
        for segment in level0 { SealedSegment.layout.append(segment, to: &writer) }
        for run in namesRuns { NamesRunEntry.layout.append(run, to: &writer) }
        writer.append(LostRange.encode(lost))
        for stop in uncleanStops { UncleanStop.layout.append(stop, to: &writer) }
        writer.begin(FileEnvelope.checksumByteCount)
        return FileEnvelope.finish(&writer)
    }

    /// Byte count of the whole file.
    package var fileByteCount: Int {
        Head.byteCount + ShardState.layout.byteCount + ManifestLayout.Totals.byteCount
            + expired.count * (RunEntry.layout.byteCount + NamesRunEntry.layout.byteCount)
            + level0.count * SealedSegment.layout.byteCount
            + runs.count * RunEntry.layout.byteCount
            + namesRuns.count * NamesRunEntry.layout.byteCount
            + lostOfLevel0.count * LostRange.layout.byteCount
            + uncleanStops.count * UncleanStop.layout.byteCount + FileEnvelope.checksumByteCount
    }

    /// The manifest lists no others: the runs have those of the segments that they cover.
    private var lostOfLevel0: ArraySlice<LostRange> {
        let end = mergedEnd.segment
        return lost.suffix(from: lost.firstIndex { $0.segment > end } ?? lost.count)
    }

    private func put(_ totals: LogTotals, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Totals
        writer.begin(Field.byteCount)
        writer.put(totals.rowCount, Field.rowCount)
        for (code, count) in totals.packets.enumerated() {
            writer.put(count, Field.place(code, in: Field.packets))
        }
        for (code, count) in totals.events.enumerated() {
            writer.put(count, Field.place(code, in: Field.events))
        }
    }
}
