import IngestCounting
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport

/// One event as a test writes it down.
struct FixtureEvent {
    var reward = "r"
    var business = "b"
    var day: Int32 = 20_000
    /// Microseconds since 1970; `nil` = some instant of the day.
    var time: Int64?
    var type = EventType.impression
    var verdict = Verdict.counted
    var consent = Consent.optIn
    var isMeasured = false
    /// Parts per million and milliseconds, where it is measured.
    var viewability: (visible: UInt32, duration: UInt32) = (600_000, 1_500)
    var money: (revenue: Int64, spend: Int64)?
    var hasEventID = true
    /// Of its id; `nil` = one that no other has.
    var eventHash: UInt64?
    var hasSession = false
    var isOutsideWindow = false
    private var isUnchecked: Bool {
        saysUnchecked && (isOutsideWindow || !(hasEventID || hasSession))
    }
    var platform: String?
    var campaign: String?
    var source: String?
    /// In the place of both; shown as `(other)`.
    var isOverflow = false
    /// Of invalid traffic.
    var rule = InvalidTrafficRule.sender
    /// Of what is counted: whether no impression came before, and whether its reward is beyond the limit.
    var isOrphan = false
    var isOfOther = false
    /// Whether it says so where it could not be compared.
    var saysUnchecked = true

    /// A random one of a few names and days, every type and verdict, in the shape that admission makes.
    init(_ random: inout SeededRandom, rewardCount: Int = 12, businessCount: Int = 3) {
        reward = "reward-\(random.below(UInt64(rewardCount)))"
        business = "shop \(random.below(UInt64(businessCount)))"
        day = 20_000 + Int32(random.below(4))
        type = EventType.allCases[Int(random.below(3))]
        if random.below(3) == 0 {
            verdict = Verdict.allCases[Int(random.below(11))]
            if verdict == .notViewable || verdict == .undetermined { type = .impression }
        }
        isMeasured = type == .impression && (verdict == .notViewable || random.below(2) == 0)
        if verdict == .undetermined { isMeasured = false }
        if type == .redemption {
            money = (Int64(random.below(50_000_000)), Int64(random.below(9_000_000)))
        }
        hasEventID = random.below(3) > 0
        hasSession = random.below(3) == 0
        isOutsideWindow = random.below(9) == 0
        if verdict == .invalidTraffic, hasSession {
            rule = InvalidTrafficRule.allCases[random.below(4)]
        }
        isOrphan = hasSession && type != .impression && random.oneIn(2)
        isOfOther = random.oneIn(12)
        if isOfOther { reward = "(other)" }
    }

    init() {}

    /// What the event adds, written down from the contract once more.
    var row: CounterRow {
        var row = CounterRow()
        let kind = [EventType.impression, .click, .redemption].firstIndex(of: type)!
        func column(_ first: CounterColumn) -> CounterColumn {
            CounterColumn(rawValue: first.rawValue + kind)!
        }
        switch verdict {
        case .counted: row[column(.impressions)] = 1
        case .notViewable: row[.notViewableImpressions] = 1
        case .invalidTraffic: row[column(.invalidImpressions)] = 1
        case .duplicate, .sessionRepeat: row[column(.duplicateImpressions)] = 1
        case .conflict: row[column(.conflictImpressions)] = 1
        default: row[column(.refusedImpressions)] = 1
        }
        if type == .impression && !isMeasured && (verdict == .counted || verdict == .undetermined) {
            row[.undeterminedImpressions] = 1
        }
        guard verdict == .counted else { return row }
        if type == .impression && isMeasured { row[.viewableImpressions] = 1 }
        if isUnchecked { row[.uncheckedEvents] = 1 }
        if isOfOther { row[.overflowEvents] = 1 }
        if isOrphan { row[type == .click ? .orphanClicks : .orphanRedemptions] = 1 }
        row[.revenueMicros] = UInt64(money?.revenue ?? 0)
        row[.spendMicros] = UInt64(money?.spend ?? 0)
        return row
    }

    var attributes: RowAttributes {
        var bits: UInt16 = 0
        if isMeasured { bits |= RowAttributes.measured }
        if hasEventID { bits |= RowAttributes.eventID }
        if hasSession { bits |= RowAttributes.session }
        if money != nil { bits |= RowAttributes.money }
        if isUnchecked, verdict == .counted { bits |= RowAttributes.unchecked }
        if isOrphan, verdict == .counted { bits |= RowAttributes.orphan }
        if verdict == .invalidTraffic { bits |= RowAttributes.detail(rule) }
        if isOfOther { bits |= RowAttributes.overflow }
        return RowAttributes(
            type: type.rawValue, verdict: verdict, consent: consent.rawValue, format: 0, bits: bits)
    }
}

/// Writes a data directory on a simulated disk with the real encoders, sealer and publisher, and keeps the
/// reference model of what it wrote.
final class LogFixture {
    let files: SimulatedFileSystem
    private(set) var model = ReferenceModel()
    /// The model as of each position of the log.
    private(set) var models: [Cut: ReferenceModel] = [.init(segment: 0, block: 0): .init()]
    /// Where the last block lies in its segment file.
    private(set) var lastBlock = 0..<0
    /// The model without the last block.
    private(set) var modelBeforeLastBlock = ReferenceModel()
    /// Changes the ledger of the blocks that follow.
    var alterLedger: (inout LedgerEntry) -> Void = { _ in }
    /// Further entries of each block that follows.
    var otherSenders: () -> [LedgerEntry] = { [] }
    /// Behind the last sealed segment.
    private var windows = SenderWindows()
    private(set) var position = LogPosition.start
    private let directory = DirectoryID(rawValue: 0x1122_3344_5566_7788)
    private let encoder = BlockEncoder()
    private let buffer = BlockBuffer()
    private let rows = BlockRows()
    /// Of the segments that follow; `nil` is a version of long ago.
    var policy: CountingPolicy?
    /// Of the blocks that follow.
    var admissionTime: Int64 = 7
    private(set) var names: [String: UInt32] = [:]
    private(set) var keys: [RewardKey: UInt32] = [:]
    private(set) var previousChecksum: UInt32 = 0
    private(set) var commitEpoch: UInt64 = 0
    /// How many of the model's facts lie in earlier segments than the one at hand.
    private(set) var factCountAtSegment = 0
    private var eventCount: UInt64 = 0
    private var publisher: SnapshotPublisher<SimulatedFileSystem, SimulatedClock>
    private var sealed: [SealedSegmentFile] = []
    private let clock = SimulatedClock(wallMicroseconds: 20_000 * 86_400_000_000)

    private var live: SegmentAccumulator?
    private var writer: SegmentWriter<SimulatedFileSystem>?
    private var mark: DurableMarkFile<SimulatedFileSystem>

    init(seed: UInt64 = 1) throws {
        files = SimulatedFileSystem(seed: seed)
        let manifest = Manifest(
            directory: directory, createdAt: 1, hashAlgorithm: 1,
            hashKey: Array(repeating: 7, count: 32))
        let store = ManifestStore(files: files)
        try store.publish(manifest)
        publisher = SnapshotPublisher(
            store: store, manifest: manifest, keys: [], clock: clock, counters: PipelineCounters())
        mark = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
    }

    /// A directory of random events: `segmentCount` sealed segments published two by two, then a live one.
    static func random(
        seed: UInt64, segmentCount: Int = 3, blockCount: Int = 4, eventCount: Int = 30,
        liveBlockCount: Int = 3
    ) throws -> LogFixture {
        var random = SeededRandom(seed: seed)
        let fixture = try LogFixture(seed: seed)
        func block() throws {
            try fixture.append((0..<eventCount).map { _ in FixtureEvent(&random) })
        }
        for number in 0..<segmentCount {
            try fixture.beginSegment()
            for _ in 0..<blockCount { try block() }
            try fixture.seal()
            if number % 2 == 0 { try fixture.publish() }
        }
        try fixture.publish()
        if liveBlockCount > 0 {
            try fixture.beginSegment()
            for _ in 0..<liveBlockCount { try block() }
        }
        return fixture
    }

    // MARK: Writing

    func beginSegment() throws {
        let header = SegmentHeader(
            directory: directory, segment: position.segment.next,
            createdAt: policy == nil ? 5 : admissionTime,
            previousChecksum: previousChecksum, firstName: NameOrdinal(rawValue: nextName),
            firstKey: KeyOrdinal(rawValue: nextKey), commitEpoch: commitEpoch + 1, policy: policy)
        writer = try SegmentWriter.create(header, byteCountMax: 48 << 10, in: files)
        live = SegmentAccumulator(
            header: header, counters: SegmentCounters(), windows: windows)
        position = LogPosition(segment: header.segment, blockCount: 0)
        models[position.cut] = model
        factCountAtSegment = model.facts.count
    }

    var nextName: UInt32 { UInt32(names.count + 1) }
    var nextKey: UInt32 { UInt32(keys.count) }

    /// Appends a block of these events and makes it durable.
    /// - Parameter setsMark: whether the durable mark moves on, as it does unless there is a power cut.
    func append(_ events: [FixtureEvent], setsMark: Bool = true, syncs: Bool = true) throws {
        commitEpoch += 1
        let context = BlockContext(
            directory: directory, segment: position.segment, blockOrdinal: position.blockCount,
            commitEpoch: commitEpoch, previousChecksum: previousChecksum,
            admissionTime: admissionTime,
            policyVersion: policy == nil ? 1 : CountingPolicy.version,
            firstName: NameOrdinal(rawValue: nextName),
            firstKey: KeyOrdinal(rawValue: nextKey))
        var newNames = NewNames()
        var newKeys: [RewardKey] = []
        modelBeforeLastBlock = model
        rows.removeAll()
        for event in events { append(event, &newNames, &newKeys) }
        var ledger = [Self.ledger(of: events, sequence: commitEpoch)]
        alterLedger(&ledger[0])
        ledger += otherSenders()
        let summary = encoder.encode(
            rows: rows, names: newNames, keys: newKeys, ledger: ledger, context: context,
            into: buffer)
        var segment = live.take()!
        var file = writer.take()!
        let offset = try file.append(buffer)
        if syncs { try file.sync() }
        let outcome = segment.add(
            summary, ordinal: context.blockOrdinal, offset: offset, rows: rows, names: newNames,
            keys: newKeys, ledger: ledger)
        precondition(outcome == .folded)
        live = consume segment
        writer = consume file
        previousChecksum = summary.headerChecksum
        position = LogPosition(segment: position.segment, blockCount: position.blockCount + 1)
        models[position.cut] = model
        lastBlock = Int(offset)..<Int(offset) + summary.byteCount
        if setsMark { try mark.set(position) }
    }

    private func append(
        _ event: FixtureEvent, _ newNames: inout NewNames, _ newKeys: inout [RewardKey]
    ) {
        func ordinal(_ name: String) -> NameOrdinal {
            if let known = names[name] { return NameOrdinal(rawValue: known) }
            let bytes = Array(name.utf8)
            newNames.append(bytes.span.bytes)
            names[name] = nextName
            return NameOrdinal(rawValue: nextName - 1)
        }
        let key = RewardKey(reward: ordinal(event.reward), business: ordinal(event.business))
        if keys[key] == nil {
            keys[key] = nextKey
            newKeys.append(key)
        }
        let row = rows.rowCount
        let attributes = event.attributes
        rows.key[row] = keys[key]!
        rows.timestamp[row] =
            event.time ?? Int64(event.day) * 86_400_000_000 + Int64(eventCount)
        rows.day[row] = event.day
        rows.attributes[row] = attributes.rawValue
        rows.platform[row] = event.platform.map { ordinal($0).rawValue } ?? 0
        func attribution(_ name: String?) -> UInt32 {
            event.isOverflow ? Attribution.other : name.map { ordinal($0).rawValue } ?? 0
        }
        rows.campaign[row] = attribution(event.campaign)
        rows.source[row] = attribution(event.source)
        if rows.campaign[row] | rows.source[row] != 0 { rows.mark.isAttributed = true }
        if attributes.hasEventID {
            rows.eventHash[rows.eventHashCount] =
                event.eventHash ?? eventCount &* 0x9E37_79B9_7F4A_7C15
            rows.mark.eventHash += 1
        }
        if attributes.isOverflow {
            rows.rewardHash[rows.rewardHashCount] = eventCount
            rows.mark.rewardHash += 1
        }
        if attributes.hasSession {
            rows.session[rows.sessionCount] = eventCount
            rows.mark.session += 1
        }
        if attributes.isMeasured {
            rows.visible[rows.measuredCount] = event.viewability.visible
            rows.duration[rows.measuredCount] = event.viewability.duration
            rows.mark.measured += 1
        }
        if let money = event.money {
            rows.revenue[rows.moneyCount] = money.revenue
            rows.spend[rows.moneyCount] = money.spend
            rows.mark.money += 1
        }
        rows.mark.row += 1
        eventCount += 1
        model.facts.append(
            .init(
                reward: event.reward, business: event.business, day: event.day, row: event.row,
                campaign: event.isOverflow ? "(other)" : event.campaign,
                source: event.isOverflow ? "(other)" : event.source, isOverflow: event.isOverflow))
    }

    /// Each block is one packet of sender 9, with two malformed events and an opted-out one beside.
    private static func ledger(of events: [FixtureEvent], sequence: UInt64) -> LedgerEntry {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 9), epoch: SenderEpoch(rawValue: 4)))
        entry.packets[Int(PacketResult.accepted.rawValue)] = 1
        entry.packets[Int(PacketResult.badCRC.rawValue)] = 2
        for event in events { entry.events[Int(event.verdict.rawValue)] += 1 }
        entry.events[Int(Verdict.malformed.rawValue)] += 2
        entry.events[Int(Verdict.noConsent.rawValue)] += 1
        entry.sequences = [sequence...sequence]
        if sequence == 1 { entry.window.start = 1 }
        return entry
    }

    /// Writes the footer of the segment at hand. No manifest has it before `publish`.
    func seal() throws {
        let segment = live.take()!
        let file = writer.take()!
        publisher.add(segment.names, upTo: segment.nextKey)
        let footer = try segment.footer(sealedAt: 8, keys: publisher.keys)
        windows = footer.windows
        let trailer = try SegmentSealer.seal(file.file, footer: footer, at: segment.endOffset)
        sealed.append(
            SealedSegmentFile(
                footer: footer, entry: footer.entry(trailer: trailer), names: segment.names))
    }

    /// Publishes the sealed segments as the next generation.
    func publish(merges: Bool = true) throws {
        try publish(sealed, merges: merges)
        sealed = []
    }

    /// Publishes segments, also those that recovery sealed, and merges them.
    func publish(_ segments: [SealedSegmentFile], merges: Bool = true) throws {
        for segment in segments {
            publisher.add(segment.names, upTo: segment.footer.keys.upperBound)
        }
        try publisher.publish(segments)
        if merges { _ = try publisher.mergeAtOnce(level0CountMin: 1) }
    }

    /// The newest generation.
    var manifest: Manifest { publisher.manifest }

    // MARK: Expired segments

    /// Publishes the next generation, in which the first `count` segments that are listed have expired. Their files go.
    func expire(_ count: Int) throws {
        let entries = manifest.sealed.prefix(count)
        // Tables first, where they have not all of them.
        while let last = entries.last?.number, manifest.lastExpired < last {
            _ = try publisher.mergeAtOnce(expiring: entries)
        }
        for entry in entries { try files.unlink(FileName.segment(entry.number).text) }
    }

    // MARK: Reading and damage

    var reader: IngestReader { get throws { try IngestReader.open(files) } }

    func verify(deepByteCountMax: Int? = nil) throws -> VerifyReport {
        try Verifier.run(files, deepByteCountMax: deepByteCountMax)
    }

    func flip(_ name: String, byte: Int, bit: Int = 0) {
        files.disk.damage(name) { $0[byte] ^= 1 << UInt8(bit) }
    }

    func byteCount(_ name: String) -> Int { files.disk.contents(name)?.count ?? 0 }

    /// But the leases, of which nobody reads a byte.
    var fileNames: [String] {
        get throws { try files.names().filter { $0 != FileName.leases.text } }
    }
}
