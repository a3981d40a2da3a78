// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The sealed segments that a reward-days run covers, and what of them is lost: the metadata of that run, so that no
/// manifest has to list them.
///
/// **Layout** docs/format/run.md: two counts, the segments, the lost ranges.
package struct SealedSegments: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .derived("sealed count", 4) { UInt64($0.entries.count) },
        .derived("lost range count", 4) { UInt64($0.lost.count) })

    /// By number, without a gap; the last is where the run ends.
    package var entries: [SealedSegment] = []
    /// By (segment, block).
    package var lost: [LostRange] = []

    /// Those of a generation that are in a span.
    package init(of manifest: Manifest, in span: LogSpan) {
        entries = manifest.sealed.filter { span.contains($0.number) }
        lost = manifest.lost.filter { span.contains($0.segment) }
    }

    package init() {}

    package func encode() -> [UInt8] {
        var writer = FieldWriter(
            capacity: Self.layout.byteCount + entries.count * SealedSegment.layout.byteCount)
        Self.layout.append(self, to: &writer)
        for entry in entries { SealedSegment.layout.append(entry, to: &writer) }
        writer.append(LostRange.encode(lost))
        return writer.bytes
    }

    /// - Parameter span: of the run. Segments at its beginning may have expired when it was written.
    /// **Errors** `torn`, `corrupt` for entries out of order, with a gap, or that end elsewhere; places are in `bytes`.
    package static func decode(
        _ bytes: [UInt8], of span: LogSpan
    ) throws(FormatError) -> SealedSegments {
        var reader = FieldReader(bytes)
        try reader.begin(layout.byteCount)
        let count = try reader.count(layout.sealedCount, max: Int(span.segmentCount))
        // The bytes that are there bound it.
        let lostCount = try reader.count(layout.lostRangeCount, max: Limits.footerByteCountMax)
        var found = SealedSegments()
        let first = UInt64(span.lastSegment.rawValue) + 1 - UInt64(count)
        found.entries = try SealedSegment.decode(&reader, count: count, from: first)
        if count > 0 { try reader.expect(SealedSegment.layout.blockCount, span.end.blockCount) }
        found.lost = try LostRange.decode(&reader, count: lostCount)
        guard reader.end == bytes.count else {
            throw .corrupt(
                "metadata", at: reader.end, got: bytes.count, expected: .exactly(reader.end))
        }
        return found
    }
}
