import IngestFormat
import IngestStorage
import IngestVerify
import Testing

@testable import IngestReader

/// What expired runs attest, and that they are held against what is left.
@Suite struct VerifyExpiredTests {
    /// Six sealed segments, of which the first four have expired in two files, and a live one.
    private static func fixture(seed: UInt64) throws -> LogFixture {
        let fixture = try LogFixture.random(seed: seed, segmentCount: 6)
        try fixture.expire(3)
        try fixture.expire(1)
        return fixture
    }

    @Test(
        "What has expired is trusted from footers, the rest is recounted, and both are the log",
        arguments: 1...3)
    func good(seed: Int) throws {
        let fixture = try Self.fixture(seed: UInt64(80 + seed))
        for workerCount in [1, 3] {
            let report = try Verifier.run(fixture.files, workerCount: workerCount)
            #expect(report.exitCode == 0 && report.findings.isEmpty, "\(report.findings)")
            #expect(report.trustedRowCount == 4 * 4 * 30 && report.rowCount == 2 * 4 * 30 + 90)
            #expect(report.lastExpiredSegment == 4 && report.segmentCount == 3)
            #expect(report.end == fixture.position)
        }
    }

    @Test("A directory of which everything has expired is good")
    func allExpired() throws {
        let fixture = try LogFixture.random(seed: 84, segmentCount: 2, liveBlockCount: 0)
        try fixture.expire(2)
        let report = try fixture.verify()
        #expect(report.exitCode == 0 && report.findings.isEmpty, "\(report.findings)")
        #expect(
            report.rowCount == 0 && report.trustedRowCount == UInt64(fixture.model.facts.count))
    }

    @Test("One counter altered in an expired run, all checksums right, is found", arguments: 0...1)
    func counter(place: Int) throws {
        for column in CounterColumn.allCases {
            let fixture = try Self.fixture(seed: 85)
            try fixture.alterExpired(at: place, counters: VerifierTests.change(column))
            let report = try fixture.verify()
            #expect(report.exitCode == 1 && report.differenceCount >= 3, "\(column)")
            #expect(!report.isSound)
            for table in TableKind.counterTables {
                #expect(report.findings.contains { $0.what.contains("\(table.name) table") })
            }
        }
    }

    @Test("Counters of an expired run that do not say what their ledger does are found there")
    func conservation() throws {
        let fixture = try Self.fixture(seed: 86)
        let file = fixture.manifest.expired[0].run.fileName
        let good = (fixture.bytes(file), fixture.bytes(.manifest(fixture.manifest.generation)))
        for verdict in Verdict.allCases where verdict != .noConsent && verdict != .malformed {
            try fixture.alterExpired(segments: { $0.ledger[0].events[Int(verdict.rawValue)] += 1 })
            let report = try fixture.verify()
            // And the totals of the manifest are others.
            #expect(report.exitCode == 1 && report.differenceCount >= 2, "\(verdict.name)")
            // Of refused events and conflicts only some are rows.
            let isExact = !verdict.isRefusal && verdict != .conflict
            #expect(
                !isExact || report.findings.contains { $0.file == file.text }, "\(verdict.name)")
            fixture.replace(file, good.0)
            fixture.replace(.manifest(fixture.manifest.generation), good.1)
        }
        try fixture.alterExpired(segments: { $0.ledger[0].packets[0] += 1 })
        #expect(
            Set(try fixture.verify().findings.map(\.what))
                == [
                    "packets accepted of all sealed segments",
                    "packets of sender 9 epoch 4 do not add up",
                ])
    }

    /// Columns of an expired run, the verdicts that they are of, and whether all events with these are rows.
    private static let sums: [(what: String, [CounterColumn], [Verdict], isExact: Bool)] = [
        ("counted", [.impressions, .clicks, .redemptions], [.counted], true),
        (
            "duplicate", [.duplicateImpressions, .duplicateClicks, .duplicateRedemptions],
            [.duplicate, .sessionRepeat], true
        ),
        ("not viewable", [.notViewableImpressions], [.notViewable], false),
        (
            "invalid", [.invalidImpressions, .invalidClicks, .invalidRedemptions],
            [.invalidTraffic], false
        ),
        (
            "refused", [.refusedImpressions, .refusedClicks, .refusedRedemptions],
            [.undetermined, .tooOld, .tooEarly, .outsideWindow, .noConsent], false
        ),
        (
            "conflict", [.conflictImpressions, .conflictClicks, .conflictRedemptions], [.conflict],
            false
        ),
    ]

    @Test("Each sum of an expired run is held against its ledger, on both sides of what may be")
    func sums() throws {
        let fixture = try Self.fixture(seed: 86)
        let file = fixture.manifest.expired[0].run.fileName
        let good = (fixture.bytes(file), fixture.bytes(.manifest(fixture.manifest.generation)))
        var rows: [TableRow] = []
        _ = try Run.decode(good.0).counters.altered { rows = $0 }
        for (what, columns, verdicts, isExact) in Self.sums {
            let rowCount = rows.filter { CounterKeys.rewards.contains($0.key) }
                .reduce(0) { sum, row in columns.reduce(sum) { $0 + row.counters[$1] } }
            #expect(rowCount > 0, "\(what)")
            for verdict in verdicts {
                for change in -1...1 {
                    try fixture.alterExpired(segments: { segments in
                        for entry in segments.ledger.indices {
                            for other in verdicts {
                                segments.ledger[entry].events[Int(other.rawValue)] = 0
                            }
                        }
                        segments.ledger[0].events[Int(verdict.rawValue)] =
                            UInt64(Int(rowCount) + change)
                    })
                    let isFound = try fixture.verify().findings.contains {
                        $0.file == file.text && $0.what == "events \(what) in the counters"
                    }
                    #expect(
                        isFound == (change < 0 || change > 0 && isExact),
                        "\(what), \(verdict.name) \(change)")
                    fixture.replace(file, good.0)
                    fixture.replace(.manifest(fixture.manifest.generation), good.1)
                }
            }
        }
    }

    @Test("Every third byte of expired runs is covered, and a missing file is corruption")
    func damage() throws {
        let fixture = try Self.fixture(seed: 87)
        for name in fixture.manifest.expired.flatMap(\.fileNames).map(\.text) {
            for byte in stride(from: 0, to: fixture.byteCount(name), by: 3) {
                fixture.flip(name, byte: byte, bit: byte % 8)
                let report = try fixture.verify()
                #expect(
                    report.exitCode == 65 && report.findings.first?.file == name, "byte \(byte)")
                fixture.flip(name, byte: byte, bit: byte % 8)
            }
        }
        for name in fixture.manifest.expired[1].fileNames.map(\.text) {
            let bytes = fixture.files.disk.contents(name)!
            try fixture.files.unlink(name)
            let report = try fixture.verify()
            #expect(report.exitCode == 65 && report.differenceCount == 0 && !report.isSound)
            #expect(report.findings.first?.file == name)
            try fixture.files.create(name).write(bytes, at: 0)
        }
    }

    @Test("The first segment that is left must go on from what has expired")
    func chain() throws {
        let fixture = try Self.fixture(seed: 88)
        let other = try Self.fixture(seed: 89)
        for number in 5...6 {
            let name = FileName.segment(SegmentNumber(rawValue: UInt32(number)))
            fixture.replace(name, other.bytes(name))
        }
        #expect(try fixture.verify().exitCode == 65)
    }

    @Test(
        "Expired segments that are still there are noted; what was lost of them stays lost")
    func leftOvers() throws {
        let fixture = try LogFixture.random(seed: 90, segmentCount: 3)
        let name = FileName.segment(SegmentNumber(rawValue: 1))
        let bytes = fixture.bytes(name)
        try fixture.expire(1)
        _ = try fixture.files.create(name.text)
        fixture.replace(name, bytes)
        let noted = try fixture.verify()
        #expect(noted.exitCode == 0 && noted.findings.map(\.file) == [name.text])
        #expect(noted.isSound)
        try fixture.alterExpired(segments: {
            $0.lost = [
                LostRange(
                    segment: SegmentNumber(rawValue: 1), firstBlock: 2, blockCount: 1, offset: 900,
                    byteCount: 8, rowCount: 3, names: 2..<2, keys: 1..<1)
            ]
        })
        let report = try fixture.verify()
        #expect(
            report.exitCode == 65 && report.evidenceLostCount == 1 && report.differenceCount == 0)
    }

    @Test("A name or a key that is given again after it has expired is found")
    func givenAgain() throws {
        let fixture = try Self.fixture(seed: 91)
        var event = FixtureEvent()
        event.reward = "again"
        try fixture.append([event])
        #expect(try fixture.verify().findings.isEmpty)
        let again = try #require(fixture.names["again"])
        try fixture.alterNames(
            ofExpired: true, name: { $0 == 1 ? Array("again".utf8)[...] : $1 })
        let report = try fixture.verify()
        // And the names run says something else.
        #expect(report.exitCode == 1 && report.differenceCount == 2, "\(report.findings)")
        #expect(report.findings.contains { $0.what == "name 1" })
        let twice = report.findings.filter { $0.what == "name again given twice" }
        #expect(twice.count == 1)
        #expect(twice.first?.got == "ordinal \(again)")
        #expect(twice.first?.expected == "ordinal 1")
        #expect(twice.first?.file == FileName.segment(fixture.position.segment).text)
    }
}
