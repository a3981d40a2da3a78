// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

extension BlockDecoder {
    /// The commits of a block: those that it was made of, or itself.
    func commits(_ block: BlockView) throws(FormatError) -> BlockCommits {
        let header = unsafe block.header
        var commits = BlockCommits()
        guard let rewritten = header.context.rewritten else {
            commits.append(
                rowCount: header.rowCount, admissionTime: header.context.admissionTime,
                policyVersion: header.context.policyVersion,
                zoneVersion: header.context.zoneVersion)
            return commits
        }
        let count = Int(rewritten.count)
        commits = BlockCommits(
            rowCounts: try unsafe array(.commitRows, block, count, in: 0...Int64(header.rowCount)),
            admissionTimes: try unsafe array(.commitTimes, block, count, in: .min ... .max),
            policyVersions: try unsafe array(.commitPolicies, block, count, in: 0...0xffff),
            zoneVersions: try unsafe array(.commitZones, block, count, in: 0...0xffff_ffff))
        typealias Field = BlockLayout.Header
        let rowCount = commits.rowCounts.reduce(0) { $0 + Int($1) }
        try require(Field.rowCount, header.rowCount, is: rowCount)
        let (context, times) = (header.context, commits.admissionTimes)
        try require(
            Field.policyVersion, Int(context.policyVersion), is: Int(commits.policyVersions[0]))
        try require(
            Field.zoneVersion, Int(context.zoneVersion), is: Int(commits.zoneVersions[0]))
        try require(Field.admissionTime, Int(context.admissionTime), is: Int(times[0]))
        try require(
            Field.lastAdmissionTime, Int(header.lastAdmissionTime), is: Int(times[count - 1]))
        return commits
    }

    private func array<Value: FixedWidthInteger & BitwiseCopyable>(
        _ kind: BlockSectionKind, _ block: BlockView, _ count: Int, in domain: ClosedRange<Int64>
    ) throws(FormatError) -> [Value] {
        let target = UnsafeMutablePointer<Value>.allocate(capacity: count)
        defer { unsafe target.deallocate() }
        try unsafe column(
            kind, block, count, min: domain.lowerBound, max: domain.upperBound, into: target)
        // SAFETY: count values were decoded; the section table has seen to it that the section is there.
        return unsafe Array(UnsafeBufferPointer(start: target, count: count))
    }
}
