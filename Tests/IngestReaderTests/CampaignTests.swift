import IngestFormat
import IngestReaderTool
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader

/// Counters by campaign and source, against a plain list of what was written.
@Suite("Counters by campaign and source")
struct CampaignTests {
    /// Names as somebody sends them on purpose.
    private static let hostile = [
        "(other)", "(lost:3)", "a", "A", "a\u{0}", "null", "x,\"y\"\n", "\u{1B}[31m", "ä",
        String(repeating: "z", count: 64), "-", "=1+1",
    ]

    private static func events(_ count: Int, _ random: inout SeededRandom) -> [FixtureEvent] {
        (0..<count).map { _ in
            var event = FixtureEvent(&random)
            switch random.below(8) {
            case 0: event.isOverflow = true
            case 1: event.campaign = hostile[Int(random.below(UInt64(hostile.count)))]
            case 2: event.source = hostile[Int(random.below(UInt64(hostile.count)))]
            case 3, 4:
                event.campaign = "campaign \(random.below(5))"
                event.source = hostile[Int(random.below(4))]
            default: break
            }
            return event
        }
    }

    private static let queries: [CampaignsQuery] = [
        CampaignsQuery(), CampaignsQuery(reward: "reward-3"), CampaignsQuery(business: "shop 1"),
        CampaignsQuery(reward: "reward-5", business: "shop 0"), CampaignsQuery(reward: "none"),
        CampaignsQuery(business: "nobody"),
        CampaignsQuery(
            days: DayRange(from: CivilDay(dayNumber: 20_001), to: CivilDay(dayNumber: 20_002))),
        CampaignsQuery(
            reward: "reward-3", days: DayRange(from: CivilDay(dayNumber: 20_003), to: nil)),
        CampaignsQuery(days: DayRange(from: nil, to: CivilDay(dayNumber: 19_999))),
    ]

    private static func expectRight(_ fixture: LogFixture, _ place: Comment) throws {
        let reader = try fixture.reader
        for query in queries {
            #expect(try reader.campaigns(query) == fixture.model.campaigns(query), place)
        }
        #expect(try reader.rewards() == fixture.model.rewards(RewardsQuery()), place)
        #expect(try reader.days() == fixture.model.days(DaysQuery()), place)
        let days = RewardDaysQuery(days: DayRange(from: CivilDay(dayNumber: 20_001), to: nil))
        #expect(try reader.rewardDays(days) == fixture.model.rewardDays(days), place)
        let findings = try fixture.verify().findings.filter { $0.kind != .note }
        #expect(findings.isEmpty, "\(place): \(findings.prefix(3))")
    }

    @Test(
        "they are what was written, in the tail, level 0, runs and what is left of expired segments",
        arguments: 1...3)
    func parts(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let fixture = try LogFixture(seed: seed)
        try Self.expectRight(fixture, "empty")
        for number in 0..<6 {
            try fixture.beginSegment()
            for _ in 0..<3 { try fixture.append(Self.events(40, &random)) }
            try Self.expectRight(fixture, "tail of segment \(number)")
            try fixture.seal()
            try fixture.publish(merges: number % 3 != 0)
            try Self.expectRight(fixture, "segment \(number)")
        }
        try fixture.expire(2)
        try Self.expectRight(fixture, "two expired")
        try fixture.expire(2)
        try Self.expectRight(fixture, "four expired")
        let manifest = fixture.manifest
        #expect(!manifest.expired.isEmpty)
        // Of what is left.
        let store = ManifestStore(files: fixture.files)
        let made = try LogRebuild.run(store, after: store.complete(manifest)).manifest
        #expect(made.runs.count == 3)
        try Self.expectRight(fixture, "made again")
        let again = try LogRebuild.run(store, after: store.complete(made)).manifest
        for (first, second) in zip(made.runs, again.runs) {
            #expect((first.rowCount, first.byteCount) == (second.rowCount, second.byteCount))
        }
    }

    @Test("a listing of more rows than are held at a time is the same", arguments: [1, 2, 7, 50])
    func ranges(rowCountMax: Int) throws {
        var random = SeededRandom(seed: 9)
        let fixture = try LogFixture(seed: 9)
        try fixture.beginSegment()
        try fixture.append(Self.events(200, &random))
        try fixture.seal()
        try fixture.publish()
        try fixture.beginSegment()
        try fixture.append(Self.events(100, &random))
        for query in Self.queries {
            let snapshot = try fixture.reader.snapshot
            var found: [CampaignRow] = []
            try query.forEachRow(
                in: CounterQuery(snapshot, rowCountMax: rowCountMax), snapshot.attributedParts()
            ) { row in
                found.append(row)
                return true
            }
            #expect(found == fixture.model.campaigns(query))
        }
        var first: [CampaignRow] = []
        try fixture.reader.forEachCampaign { row in
            first.append(row)
            return first.count == 3 ? .stop : .next
        }
        #expect(first == Array(fixture.model.campaigns(CampaignsQuery()).prefix(3)))
    }

    @Test("the rows of a reward add up to its counters, and those of export events to them")
    func sums() throws {
        var random = SeededRandom(seed: 10)
        let fixture = try LogFixture(seed: 10)
        try fixture.beginSegment()
        try fixture.append(Self.events(300, &random))
        let reader = try fixture.reader
        for reward in try reader.rewards() {
            var sum = CounterRow()
            for row in try reader.campaigns(CampaignsQuery(reward: reward.id)) {
                let fits = sum.add(row.counters.row)
                #expect(fits)
            }
            #expect(Counters(sum) == reward.counters)
        }
        var impressions: [[String?]: UInt64] = [:]
        try reader.forEachEvent { event in
            if event.kind == .impression && event.verdict == .counted {
                impressions[
                    [event.rewardID, event.businessID, event.campaign, event.source],
                    default: 0] += 1
            }
            return .next
        }
        var found: [[String?]: UInt64] = [:]
        for row in try reader.campaigns() where row.counters.impressions > 0 {
            found[[row.id, row.businessID, row.campaign, row.source], default: 0] +=
                row.counters.impressions
        }
        #expect(found == impressions)
    }

    @Test("every format shows what there is none of, and what is beyond the bound")
    func formats() throws {
        let fixture = try LogFixture(seed: 1)
        try fixture.beginSegment()
        var event = FixtureEvent()
        var events = [event]
        event.campaign = "(other)"
        events.append(event)
        event.isOverflow = true
        events.append(event)
        try fixture.append(events)
        var lines: [String] = []
        for format in [OutputFormat.ndjson, .csv] {
            let rows = try fixture.reader.campaigns()
            let text = try FormattingTests.written { output in
                try RowFormatter(format: format, cut: nil, output: output)
                    .list(FormattingTests.given(rows))
            }
            lines += text.split(whereSeparator: \.isNewline).map(String.init)
        }
        #expect(lines.count == 7)
        let head = #"{"id":"r","businessId":"b","campaign":"#
        #expect(lines[0].hasPrefix(head + #"null,"source":null,"overflow":false,"#))
        #expect(lines[1].hasPrefix(head + #""(other)","source":null,"overflow":false,"#))
        #expect(lines[2].contains(#""campaign":"(other)","source":"(other)","overflow":true"#))
        #expect(lines[3].hasPrefix("id,businessId,campaign,source,overflow,impressions,clicks"))
        #expect(lines[4].hasPrefix("r,b,,,false,1,"))
        #expect(lines[6].hasPrefix("r,b,(other),(other),true,1,"))
    }

    @Test("verify names the attribution whose counters are not those of the rows")
    func tampered() throws {
        var random = SeededRandom(seed: 11)
        let fixture = try LogFixture(seed: 11)
        try fixture.beginSegment()
        try fixture.append(Self.events(60, &random))
        try fixture.seal()
        try fixture.publish()
        let run = try #require(fixture.manifest.runs(of: .rewardDays).first)
        let whole = try Run.decode(
            try #require(fixture.files.disk.contents(run.fileName.text)))
        var segments = try SealedSegments.decode(
            try whole.header.decodeMetadata(whole.metadata), of: run.span)
        var entries = segments.attributions.entries
        let place = try #require(
            entries.indices.dropLast().last {
                entries[$0].source == 0 && entries[$0].campaign != 0
            })
        let old = entries[place]
        entries[place] = Attribution(
            key: old.key, campaign: old.campaign, source: Attribution.other)
        guard entries[place] < entries[place + 1] else { return }
        segments.attributions = AttributionList(sorted: entries)
        let metadata = RunMetadata(segments.encode())
        let header = RunHeader(
            table: .rewardDays, fileNumber: run.fileNumber, directory: whole.header.directory,
            span: run.span, generation: whole.header.generation,
            createdAt: whole.header.createdAt, index: whole.counters.index, metadata: metadata)
        let bytes = Run(header: header, counters: whole.counters, metadata: metadata.bytes).encode()
        var manifest = fixture.manifest
        manifest.runs[try #require(manifest.runs.firstIndex(of: run))] = header.entry
        fixture.files.disk.damage(run.fileName.text) { $0 = bytes }
        fixture.files.disk.damage(FileName.manifest(manifest.generation).text) {
            $0 = manifest.encode()
        }
        let findings = try fixture.verify().findings.filter { $0.kind == .difference }
        #expect(findings.count >= 2)
        #expect(findings.allSatisfy { $0.what.contains(" campaign ") })
        #expect(findings.contains { $0.what.contains("source (other)") })
    }
}
