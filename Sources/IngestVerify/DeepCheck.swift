// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares only the rules with what admits events, and no code with what counts them.
import IngestFormat
import IngestRules
import IngestStorage

/// `verify --deep`: judges every retained row again, and looks for an event id that was counted twice.
///
/// A row is judged by the rules and numbers of its segment and the admission time of its block: consent, clock, invalid
/// traffic, viewability. What these count may have been found to be a repeat, of an id or in a session, or too fast for
/// one: that depends on events before it, which may have expired, and of it is held what the row itself must have for it.
/// Which business a sender's key is bound to is in no row: `wrong_business` is believed. What a row says beside its verdict
/// (session, orphan, unchecked, which rate) has to be possible. Rows of another version of the rules are not judged, nor are
/// those of blocks that cannot be read; both are noted, but what lies behind an unreadable block of the open segment.
///
/// An id counted twice is a fault if the claim of the first must have been known to the second: the second happened before
/// the first was committed, and is not marked as unchecked; or no id of that age had been forgotten when its segment was
/// sealed. A claim is no newer than the start that loaded it (`--accept-clock`), and so than any segment behind its own.
///
/// **Cost** One pass over the rows, 20 ns each; then one over their ids for each `memoryByteCountMax` of 80 bytes an id.
struct DeepCheck<Files: FileSystem> {
    private typealias Segment = Target<Files>.Segment

    private let files: Files
    private let directory: DirectoryID
    private let segments: [Target<Files>.Segment]
    private let memoryByteCountMax: Int
    private let buffer = ReadBuffer()
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private(set) var report = VerifyReport()

    /// - Parameters:
    ///   - segments: in the order of the log.
    ///   - memoryByteCountMax: for ids, at least that of one.
    init(
        _ segments: [Target<Files>.Segment], of directory: DirectoryID, in files: Files,
        memoryByteCountMax: Int
    ) {
        (self.segments, self.directory, self.files) = (segments, directory, files)
        self.memoryByteCountMax = memoryByteCountMax
    }

    /// - Parameter isWanted: asked for each segment; `false` ends it.
    mutating func run(while isWanted: () -> Bool) throws(StorageError) {
        var (judgedCount, otherCount, unreadCount): (UInt64, UInt64, UInt64) = (0, 0, 0)
        var idCount: UInt64 = 0
        for segment in segments {
            if !isWanted() { return }
            var readCount: UInt64 = 0
            try forEachBlock(
                of: segment, [.attributes, .timestamp, .viewability, .commits]
            ) { (check, block, place) in
                idCount += UInt64(block.header.eventHashCount)
                readCount += UInt64(block.header.rowCount)
                let count = check.judge(block, place)
                judgedCount += count
                otherCount += UInt64(block.header.rowCount) - count
            }
            unreadCount += max(readCount, segment.entry?.rowCount ?? 0) - readCount
        }
        report.judgedRowCount = judgedCount
        noteUnjudged(otherCount, "of another version of the counting rules")
        noteUnjudged(unreadCount, "that cannot be read")
        // Sorting takes up to as much again.
        let idsOfPass = UInt64(max(1, memoryByteCountMax / (2 * MemoryLayout<Claim>.stride)))
        let passCount = idCount / idsOfPass + 1
        for pass in 0..<passCount {
            if !isWanted() { return }
            try findRepeats(pass, of: passCount, idCount / passCount, while: isWanted)
        }
    }

    private mutating func noteUnjudged(_ count: UInt64, _ which: String) {
        if count > 0 { report.add(.note, "\(count) rows \(which) were not judged", in: "log") }
    }

    // MARK: Rows

    /// Where a block is.
    private struct Place {
        let header: SegmentHeader
        let offset: UInt64
    }

    /// - Returns: how many rows were judged.
    private mutating func judge(_ block: DecodedBlock, _ place: Place) -> UInt64 {
        let policy = place.header.policy
        var (judgedCount, measured) = (UInt64(0), 0)
        block.commits.forEach { (commit, ownRows) in
            let isKnown =
                place.header.policyVersion == CountingPolicy.version
                && block.commits.policyVersions[commit] == CountingPolicy.version
            if isKnown { judgedCount += UInt64(ownRows.count) }
            let number = block.header.context.blockOrdinal &+ UInt32(commit)
            for row in ownRows {
                // SAFETY: here and in `event`: rows and sparse columns have as many values as the block's counts say,
                // which the decoder held against the attributes.
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                let event = event(row, attributes, measured: measured)
                if attributes.isMeasured { measured += 1 }
                let expected = policy.verdict(
                    on: event, admissionTime: block.commits.admissionTimes[commit])
                if !isKnown || policy.mayStore(attributes, where: expected) { continue }
                report.add(
                    .difference, "verdict of row \(row - ownRows.lowerBound) of block \(number)",
                    in: FileName.segment(block.header.context.segment).text, at: place.offset,
                    got: attributes.verdict?.name ?? "none", expected: expected.name)
            }
        }
        return judgedCount
    }

    /// What the rules look at of a row.
    /// - Parameter measured: its place in the columns of viewability, if it has one.
    private func event(_ row: Int, _ attributes: RowAttributes, measured: Int) -> JudgedEvent {
        let isMeasured = attributes.isMeasured
        return unsafe JudgedEvent(
            timestampMicroseconds: rows.timestamp[row], type: UInt8(attributes.rawValue & 3),
            consent: attributes.consent.rawValue, format: attributes.format?.rawValue ?? 0,
            isMeasured: isMeasured, visiblePartsPerMillion: isMeasured ? rows.visible[measured] : 0,
            durationMilliseconds: isMeasured ? rows.duration[measured] : 0,
            isMarkedInvalid: attributes.invalidTrafficRule == .sender,
            isWrongBusiness: attributes.verdict == .wrongBusiness)
    }

    // MARK: Ids

    /// A counted row with an id.
    private struct Claim {
        let hash: UInt64
        var admissionTime: Int64
        let timestamp: Int64
        let segment: UInt32
        let block: UInt32
        /// Of the commit; the highest bit is set if it could not be compared.
        let row: UInt32

        var isUnchecked: Bool { row >> 31 != 0 }
        var rowNumber: UInt32 { row & ~(1 << 31) }
        var text: String { "segment \(segment) block \(block) row \(rowNumber)" }

        /// Equal ids together, in the order of the log.
        func precedes(_ other: Claim) -> Bool {
            (hash, segment, block, rowNumber)
                < (other.hash, other.segment, other.block, other.rowNumber)
        }
    }

    /// What is known of the claims of a segment.
    private struct Claims {
        /// Among all.
        var places = 0..<0
        /// When its first block was admitted, or its life of the daemon began.
        var createdAt = Int64.max
        /// The newest id that was forgotten when it was sealed; `nil` if nobody knows.
        var completeSince: Int64?
        /// How far ahead an event's time may be.
        var lead: Int64 = 0
    }

    /// Looks for repeats among the ids of one part of all hashes.
    /// - Parameter countExpected: about how many ids it has.
    private mutating func findRepeats(
        _ pass: UInt64, of passCount: UInt64, _ countExpected: UInt64, while isWanted: () -> Bool
    ) throws(StorageError) {
        var claims: [Claim] = []
        // So that it does not grow by doubling; hashes are spread evenly.
        claims.reserveCapacity(Int(countExpected + countExpected / 16))
        var known: [UInt32: Claims] = [:]
        for segment in segments {
            if !isWanted() { return }
            var own = Claims()
            let start = claims.count
            own.completeSince = try forEachBlock(
                of: segment, [.attributes, .timestamp, .eventHash, .commits]
            ) { (check, block, place) in
                own.createdAt = place.header.createdAt
                own.lead = place.header.policy.leadMicrosecondsMax
                check.gather(block, pass, of: passCount, into: &claims)
            }
            own.places = start..<claims.count
            known[segment.number.rawValue] = own
        }
        var next = Int64.max
        for segment in segments.reversed() {
            guard let own = known[segment.number.rawValue] else { continue }
            for place in own.places {
                claims[place].admissionTime = min(claims[place].admissionTime, next)
            }
            next = min(next, own.createdAt)
        }
        claims.sort { $0.precedes($1) }
        for (first, second) in zip(claims, claims.dropFirst()) where first.hash == second.hash {
            guard let own = known[second.segment] else { continue }
            let isEarlier =
                !second.isUnchecked && second.timestamp &- own.lead <= first.admissionTime
            let isKept = own.completeSince.map { $0 < first.admissionTime } ?? false
            guard isEarlier || isKept else { continue }
            let file = FileName.segment(SegmentNumber(rawValue: second.segment)).text
            report.add(
                .difference,
                "verdict of row \(second.rowNumber) of block \(second.block): its id was counted in "
                    + first.text, in: file, got: Verdict.counted.name,
                expected: Verdict.duplicate.name)
        }
    }

    private func gather(
        _ block: DecodedBlock, _ pass: UInt64, of passCount: UInt64, into claims: inout [Claim]
    ) {
        var id = 0
        block.commits.forEach { (commit, ownRows) in
            for row in ownRows {
                // SAFETY: as in `judge`, also of the hashes.
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                guard attributes.hasEventID else { continue }
                let hash = unsafe rows.eventHash[id]
                id += 1
                guard attributes.verdict == .counted,
                    hash.multipliedFullWidth(by: passCount).high == pass
                else { continue }
                claims.append(
                    Claim(
                        hash: hash, admissionTime: block.commits.admissionTimes[commit],
                        timestamp: unsafe rows.timestamp[row],
                        segment: block.header.context.segment.rawValue,
                        block: block.header.context.blockOrdinal &+ UInt32(commit),
                        row: UInt32(row - ownRows.lowerBound)
                            | (attributes.isUnchecked ? 1 << 31 : 0)))
            }
        }
    }

    // MARK: Blocks

    /// Gives the blocks of a segment that can be read; what cannot be was found before.
    ///
    /// - Returns: of a sealed one, the newest commit of an id that was forgotten by then.
    @discardableResult
    private mutating func forEachBlock(
        of segment: Segment, _ wanted: BlockSections,
        _ body: (inout DeepCheck, DecodedBlock, Place) -> Void
    ) throws(StorageError) -> Int64? {
        guard let entry = segment.entry else {
            _ = try Target<Files>.optional { () throws(StorageError) in
                let reader = try SegmentReader(segment.number, directory: directory, in: files)
                var walk = reader.makeWalk()
                var offset = walk.offset
                while case .block = try walk.next(into: buffer) {
                    body(
                        &self, try decode(wanted, reader),
                        Place(header: reader.header, offset: offset))
                    offset = walk.offset
                }
            }
            return nil
        }
        let found = try Target<Files>.optional { () throws(StorageError) in
            try SealedBlocks(entry, directory: directory, in: files)
        }
        guard let blocks = found, let file = blocks.file, let header = blocks.header else {
            return nil
        }
        let reader = SegmentReader<Files>(segment.number, directory, header, file)
        for block in blocks.entries {
            let decoded = try Target<Files>.optional { () throws(StorageError) in
                _ = try reader.read(block, into: buffer)
                return try decode(wanted, reader)
            }
            if let decoded { body(&self, decoded, Place(header: header, offset: block.offset)) }
        }
        return blocks.idsCompleteSince
    }

    private func decode(
        _ wanted: BlockSections, _ reader: SegmentReader<Files>
    ) throws(StorageError) -> DecodedBlock {
        try StorageError.decoding(reader.file.path) { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.decode(bytes, wanted: wanted, into: rows)
            }
        }
    }
}

extension CountingPolicy {
    /// Whether a row may have these attributes where the rules on one event alone say `expected`.
    fileprivate func mayStore(_ attributes: RowAttributes, where expected: Verdict) -> Bool {
        guard let verdict = attributes.verdict, isPossible(attributes) else { return false }
        if verdict == expected { return true }
        // Rates come before viewability.
        let isComparable = expected == .notViewable || expected == .undetermined
        guard expected == .counted || isComparable && verdict == .invalidTraffic else {
            return false
        }
        switch verdict {
        case .duplicate, .conflict: return attributes.hasEventID
        case .sessionRepeat: return attributes.hasSession && attributes.type == .impression
        case .outsideWindow: return attributes.hasEventID && refusesOutsideWindow
        case .invalidTraffic: return attributes.hasSession && hasRate(attributes)
        default: return false
        }
    }

    /// Whether what a row says beside its verdict can be said of one event.
    private func isPossible(_ attributes: RowAttributes) -> Bool {
        if attributes.hasSession, !sessions.isOn { return false }
        if attributes.isOrphan, !attributes.hasSession || attributes.type == .impression {
            return false
        }
        switch attributes.verdict {
        // Without consent to be counted, nothing that tells events or sessions apart is kept.
        case .noConsent: return !attributes.hasEventID && !attributes.hasSession
        // What could be compared with nothing says so.
        case .counted:
            return attributes.hasEventID || attributes.hasSession || attributes.isUnchecked
        default: return true
        }
    }

    /// Whether there is the rate that a row says its event was beyond.
    private func hasRate(_ attributes: RowAttributes) -> Bool {
        switch (attributes.invalidTrafficRule, attributes.type) {
        case (.clickInterval, .click): sessions.clickIntervalMilliseconds > 0
        case (.clickRate, .click): sessions.clicksPerMinuteMax > 0
        case (.impressionRate, .impression): sessions.impressionsPerMinuteMax > 0
        default: false
        }
    }
}
