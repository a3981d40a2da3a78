import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Three judges look at each damaged image of a log, and must agree: where `verify` finds nothing, a start loses nothing
/// and a reader answers; where a reader answers, no whole block lies behind its cut.
@Suite("verify, recovery and readers judge a damaged log alike")
struct JudgesTests {
    enum Damage: CaseIterable {
        case zeros, garbage, flippedHead, flippedEnd, firstHalf, secondHalf, unreadable, truncated
    }

    /// A block of the log and where it lies.
    private struct Place: Hashable {
        let segment: SegmentNumber
        let ordinal: UInt32
        let bytes: Range<Int>
        var name: String { FileName.segment(segment).text }
        /// Before it, as a mark says it.
        var start: LogPosition { LogPosition(segment: segment, blockCount: ordinal) }
        var end: LogPosition { LogPosition(segment: segment, blockCount: ordinal + 1) }
    }

    private struct Log {
        let files: SimulatedFileSystem
        let manifest: Manifest
        let places: [Place]
    }

    private let clock = SimulatedClock.afterEvents()

    /// Segments that are published, one that is sealed and not published, and one that is open.
    private func written() throws -> Log {
        let files = SimulatedFileSystem(seed: 1)
        var first = try SteppedPipeline.open(files, clock: clock, seed: 4)
        try first.take(0..<20)
        try first.stop()
        let next = files.disk.kill()
        do {
            var second = try SteppedPipeline.open(next, clock: clock, seed: 5) {
                $0.compactIntervalNanoseconds = 1 << 60
            }
            try second.take(20..<50)
        }
        let left = next.disk.kill()
        let manifest = try newest(left)
        return Log(files: left, manifest: manifest, places: try places(left, manifest.directory))
    }

    /// The whole blocks of all segments.
    private func places(
        _ files: SimulatedFileSystem, _ directory: DirectoryID
    ) throws -> [Place] {
        var places: [Place] = []
        for name in try files.names() {
            guard case .segment(let number)? = FileName(name) else { continue }
            let file = try files.open(FileName.segment(number).text, .read)
            let survey = try SegmentSurvey<SimulatedFileSystem>(
                number, directory: directory, of: file)
            for case .block(let offset, let header) in survey.pieces {
                let bytes = Int(offset)..<Int(offset) + header.byteCount
                places.append(
                    Place(segment: number, ordinal: header.context.blockOrdinal, bytes: bytes))
            }
        }
        return places
    }

    private func apply(_ damage: Damage, to place: Place, of files: SimulatedFileSystem) {
        var random = SeededRandom(seed: UInt64(place.bytes.lowerBound))
        let half = place.bytes.lowerBound + place.bytes.count / 2
        func overwrite(_ range: Range<Int>, _ byte: () -> UInt8) {
            files.disk.damage(place.name) { for index in range { $0[index] = byte() } }
        }
        switch damage {
        case .zeros: overwrite(place.bytes) { 0 }
        case .garbage: overwrite(place.bytes) { UInt8(truncatingIfNeeded: random.next()) }
        case .flippedHead: files.disk.damage(place.name) { $0[place.bytes.lowerBound + 20] ^= 4 }
        case .flippedEnd: files.disk.damage(place.name) { $0[place.bytes.upperBound - 9] ^= 4 }
        case .firstHalf: overwrite(place.bytes.lowerBound..<half) { 0 }
        case .secondHalf: overwrite(half..<place.bytes.upperBound) { 0 }
        case .unreadable: files.disk.makeUnreadable(place.name, place.bytes)
        case .truncated:
            files.disk.damage(place.name) { $0.removeLast($0.count - place.bytes.lowerBound) }
        }
    }

    private func setMark(_ mark: LogPosition?, in files: SimulatedFileSystem) throws {
        guard let mark else { return try files.unlink(FileName.durableMark.text) }
        files.disk.damage(FileName.durableMark.text) { bytes in
            bytes.put(DurableMark.value(of: mark), at: DurableMark.valueOffset)
        }
    }

    /// Blocks of which every byte is as it was written, and can be read.
    private func intact(_ log: Log, in files: SimulatedFileSystem) -> Set<Place> {
        var found: Set<Place> = []
        for place in log.places where bytes(of: place, in: files) == bytes(of: place, in: log.files)
        {
            found.insert(place)
        }
        return found
    }

    private func bytes(of place: Place, in files: SimulatedFileSystem) -> [UInt8]? {
        guard let file = try? files.open(place.name, .read) else { return nil }
        let offset = UInt64(place.bytes.lowerBound)
        return try? file.readArray(at: offset, byteCount: place.bytes.count)
    }

    @Test("whatever is damaged, and whatever the mark says", arguments: Damage.allCases)
    func agree(damage: Damage) throws {
        let log = try written()
        let cut = log.manifest.cut
        let open = log.places.filter { $0.segment > cut.segment }
        #expect(cut.segment.rawValue > 1 && Set(open.map(\.segment)).count > 1)
        let marks: [LogPosition?] = [nil, .start] + open.map(\.end)
        for place in log.places {
            let isSealed = place.segment <= cut.segment
            if isSealed && place.ordinal % 3 > 0 { continue }
            for mark in isSealed ? [nil, open.last?.end] : marks {
                let files = log.files.disk.copy()
                apply(damage, to: place, of: files)
                try setMark(mark, in: files)
                try judge(
                    log, files, mark ?? .start,
                    "\(damage) of \(place.end.text), mark \(mark?.text ?? "absent")")
            }
        }
    }

    @Test("a hole, and behind it a block of which there is no more than its head")
    func begun() throws {
        let log = try written()
        let open = log.places.filter { $0.segment > log.manifest.cut.segment }
        for (hole, next) in zip(open, open.dropFirst()) where hole.segment == next.segment {
            for damage in Damage.allCases where damage != .unreadable {
                for mark in [nil, hole.ordinal > 0 ? hole.start : .start] as [LogPosition?] {
                    let files = log.files.disk.copy()
                    apply(.zeros, to: hole, of: files)
                    apply(damage, to: next, of: files)
                    try setMark(mark, in: files)
                    let what =
                        "zeros, \(damage) of \(next.end.text), mark \(mark?.text ?? "absent")"
                    let isVerified = try judge(log, files, mark ?? .start, what)
                    let hasHead = damage == .flippedEnd
                    #expect(!hasHead || !isVerified, "\(what): the block before it was durable")
                }
            }
        }
    }

    /// - Returns: whether `verify` finds nothing.
    @discardableResult
    private func judge(
        _ log: Log, _ files: SimulatedFileSystem, _ mark: LogPosition, _ what: String
    ) throws -> Bool {
        let intact = intact(log, in: files)
        let destroyed = log.places.filter { !intact.contains($0) }
        let findings = try Verifier.run(files.disk.copy(), workerCount: 1).findings
        let isVerified = findings.allSatisfy { $0.kind == .note }
        // A reader.
        var cut: LogPosition?
        do {
            let reader = try IngestReader.open(files.disk.copy())
            _ = try reader.rewardDays()
            cut = LogPosition(
                segment: SegmentNumber(rawValue: reader.cut.segment),
                blockCount: reader.cut.block)
        } catch {
            #expect(error.kind == .corrupt, "\(what): \(error)")
        }
        #expect(!isVerified || cut != nil, "\(what): verify finds nothing, a reader fails")
        if let cut {
            let behind = intact.filter { $0.end > cut }.sorted { $0.end < $1.end }
            // The last block of the log may be given up by a power cut, where nothing says that it was durable.
            let mayStay = behind.count == 1 && behind[0].end > mark
            let isBehind = !behind.isEmpty && !mayStay
            #expect(!isBehind, "\(what): blocks behind the cut \(cut.text)")
            let gone = destroyed.filter { $0.end <= cut && $0.segment > log.manifest.cut.segment }
            let hasGone = !gone.isEmpty
            #expect(!hasGone, "\(what): a reader answers without \(gone.map(\.end.text))")
        }
        // A start.
        let left = files.disk.copy()
        let report = try recover(left)
        let kept = Set(try places(left, log.manifest.directory).map(\.end))
        let wasted = intact.filter { !kept.contains($0.end) }
        let hasWasted = !wasted.isEmpty
        #expect(!hasWasted, "\(what): recovery drops \(wasted.map(\.end.text))")
        let lost = report.lost.reduce(0) { $0 + Int($1.blockCount) }
        let isDoubtful = report.messages.contains { $0.contains("acked data may be lost") }
        #expect(!isVerified || lost == 0 && !isDoubtful, "\(what): \(report.messages)")
        if isVerified {
            let below = destroyed.filter { $0.end <= max(mark, log.manifest.cut) }
            let isBelow = !below.isEmpty
            #expect(!isBelow, "\(what): verify finds nothing")
        }
        let after = try Verifier.run(left, workerCount: 1).findings.filter { $0.kind != .note }
        let isSealedBad = destroyed.contains { $0.segment <= log.manifest.cut.segment }
        #expect(after.isEmpty == (lost == 0) || isSealedBad, "\(what): \(after.prefix(2))")
        return isVerified
    }

    /// What a start does with the log.
    private func recover(_ files: SimulatedFileSystem) throws -> RecoveryReport {
        var random = SeededRandom(seed: 1)
        let start = try PipelineStart.open(
            files, clock: clock, counters: PipelineCounters(), random: &random)
        return start.recovery
    }
}
