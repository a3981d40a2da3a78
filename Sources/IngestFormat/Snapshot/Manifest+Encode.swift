// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query

extension Manifest {
    /// The head. The lists that it counts follow, then the CRC-32C of all before it.
    package static let layout = Layout<Self>(
        .magic, .version, .int("hash algorithm", \.hashAlgorithm), .reserved(1),
        .derived("file byte count", 8) { UInt64($0.fileByteCount) },
        .id("directory", \.directory), .id("generation", \.generation),
        .int("directory created at", \.directoryCreatedAt), .int("created at", \.createdAt),
        .bytes("hash key", \.hashKey, 32),
        .id("next file number", \.nextFileNumber, in: 1...UInt64.max),
        .derived("shard count", 4) { _ in 1 },
        .derived("sealed count", 4) { UInt64($0.level0.count) },
        .derived("run count", 4) { UInt64($0.runs.count) },
        .derived("names run count", 4) { UInt64($0.namesRuns.count) },
        .derived("lost range count", 4) { UInt64($0.lostOfLevel0.count) },
        .derived("unclean stop count", 4) { UInt64($0.uncleanStops.count) },
        .derived("expired count", 4) { UInt64($0.expired.count) },
        .reserved(4, "reserved end"), .int("ids complete since", \.idsCompleteSince))
    /// `IGM1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x314D_4749

    /// The bytes of the whole file.
    ///
    /// What is listed must be as `decode` asks: the writer reads the file back before it is published.
    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Self.magic, Self.layout.byteCount)
        Self.layout.put(self, to: &writer)
        ShardState.layout.append(shard, to: &writer)
        LogTotals.layout.append(shard.totals, to: &writer)
        for entry in expired { RunEntry.layout.append(entry.run, to: &writer) }
        for entry in expired { NamesRunEntry.layout.append(entry.names, to: &writer) }
        for run in runs { RunEntry.layout.append(run, to: &writer) }
        for segment in level0 { SealedSegment.layout.append(segment, to: &writer) }
        for run in namesRuns { NamesRunEntry.layout.append(run, to: &writer) }
        writer.append(LostRange.encode(lostOfLevel0))
        for stop in uncleanStops { UncleanStop.layout.append(stop, to: &writer) }
        writer.begin(FileEnvelope.checksumByteCount)
        return FileEnvelope.finish(&writer)
    }

    /// Byte count of the whole file.
    package var fileByteCount: Int {
        Self.layout.byteCount + ShardState.layout.byteCount + LogTotals.layout.byteCount
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
}
