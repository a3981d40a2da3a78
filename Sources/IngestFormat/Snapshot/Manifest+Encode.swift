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
        writer.put(sealed.count, Head.sealedCount)
        writer.put(runs.count, Head.runCount)
        writer.put(namesRuns.count, Head.namesRunCount)
        writer.put(lost.count, Head.lostRangeCount)
        writer.put(uncleanStops.count, Head.uncleanStopCount)
        writer.put(expired.count, Head.expiredCount)
        writer.put(idsCompleteSince, Head.idsCompleteSince)
        put(shard, to: &writer)
        put(shard.totals, to: &writer)
        for entry in expired { put(entry, to: &writer) }
        for segment in sealed { put(segment, to: &writer) }
        for run in runs { put(run, to: &writer) }
        for run in namesRuns { put(run, to: &writer) }
        writer.append(LostRange.encode(lost))
        for stop in uncleanStops { put(stop, to: &writer) }
        writer.begin(FileEnvelope.checksumByteCount)
        return FileEnvelope.finish(&writer)
    }

    /// Byte count of the whole file.
    package var fileByteCount: Int {
        Head.byteCount + ManifestLayout.Shard.byteCount + ManifestLayout.Totals.byteCount
            + expired.count * ManifestLayout.Expired.byteCount
            + sealed.count * ManifestLayout.Sealed.byteCount
            + runs.count * ManifestLayout.Run.byteCount
            + namesRuns.count * ManifestLayout.NamesRun.byteCount
            + lost.count * SegmentLayout.Lost.byteCount
            + uncleanStops.count * ManifestLayout.Stop.byteCount + FileEnvelope.checksumByteCount
    }

    private func put(_ shard: ShardState, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Shard
        writer.begin(Field.byteCount)
        writer.put(shard.shard, Field.shard)
        writer.put(shard.cut.segment.rawValue, Field.cutSegment)
        writer.put(shard.cut.blockCount, Field.cutBlockCount)
        writer.put(shard.commitEpoch, Field.commitEpoch)
        writer.put(shard.lastBlockChecksum, Field.lastBlockChecksum)
        writer.put(shard.nextName, Field.nextName)
        writer.put(shard.nextKey, Field.nextKey)
        writer.put(shard.sealedMoneyMicros, Field.sealedMoney)
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

    private func put(_ entry: ExpiredEntry, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Expired
        writer.begin(Field.byteCount)
        writer.put(entry.span.firstSegment.rawValue, Field.firstSegment)
        writer.put(entry.span.end.segment.rawValue, Field.lastSegment)
        writer.put(entry.span.end.blockCount, Field.lastBlockCount)
        writer.put(entry.missingCount, Field.missingCount)
        writer.put(entry.fileNumber.rawValue, Field.fileNumber)
        writer.put(entry.byteCount, Field.fileByteCount)
        writer.put(entry.rowCount, Field.rowCount)
        writer.put(entry.minTimestamp, Field.minTimestamp)
        writer.put(entry.maxTimestamp, Field.maxTimestamp)
        writer.put(entry.checksum, Field.checksum)
    }

    private func put(_ segment: SealedSegment, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Sealed
        writer.begin(Field.byteCount)
        writer.put(segment.number.rawValue, Field.segment)
        writer.put(segment.byteCount, Field.fileByteCount)
        writer.put(segment.rowCount, Field.rowCount)
        writer.put(segment.minTimestamp, Field.minTimestamp)
        writer.put(segment.maxTimestamp, Field.maxTimestamp)
        writer.put(segment.footerChecksum, Field.footerChecksum)
        writer.put(segment.blockCount, Field.blockCount)
    }

    private func put(_ run: RunEntry, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Run
        writer.begin(Field.byteCount)
        writer.put(run.table.rawValue, Field.table)
        writer.put(run.span.firstSegment.rawValue, Field.firstSegment)
        writer.put(run.span.end.segment.rawValue, Field.lastSegment)
        writer.put(run.span.end.blockCount, Field.lastBlockCount)
        writer.put(run.fileNumber.rawValue, Field.fileNumber)
        writer.put(run.byteCount, Field.fileByteCount)
        writer.put(run.rowCount, Field.rowCount)
        writer.put(run.checksum, Field.checksum)
    }

    private func put(_ run: NamesRunEntry, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.NamesRun
        writer.begin(Field.byteCount)
        writer.put(run.fileNumber.rawValue, Field.fileNumber)
        writer.put(run.byteCount, Field.fileByteCount)
        writer.put(run.names.lowerBound, Field.firstName)
        writer.put(run.names.upperBound, Field.nextName)
        writer.put(run.keys.lowerBound, Field.firstKey)
        writer.put(run.keys.upperBound, Field.nextKey)
        writer.put(run.checksum, Field.checksum)
    }

    private func put(_ stop: UncleanStop, to writer: inout FieldWriter) {
        typealias Field = ManifestLayout.Stop
        writer.begin(Field.byteCount)
        writer.put(stop.foundAt, Field.foundAt)
        writer.put(stop.position.segment.rawValue, Field.segment)
        writer.put(stop.position.blockCount, Field.blockCount)
    }
}
