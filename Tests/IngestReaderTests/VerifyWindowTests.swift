import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

/// The windows of senders, and the laws, recounted from the ledgers of the blocks.
@Suite struct VerifyWindowTests {
    /// Sealed segments and a live one, of many senders.
    private static func fixture(
        seed: UInt64, segmentCount: Int = 4, blockCount: Int = 7
    ) throws -> LogFixture {
        let fixture = try LogFixture(seed: seed)
        var senders = RandomSenders(seed: seed)
        fixture.otherSenders = { senders.entries() }
        for number in 0...segmentCount {
            try fixture.beginSegment()
            for _ in 0..<blockCount {
                fixture.admissionTime += 1
                try fixture.append([FixtureEvent()])
            }
            if number < segmentCount { try fixture.seal() }
            if number % 2 == 0 { try fixture.publish() }
        }
        return fixture
    }

    private static let key = SenderKey(
        kind: .framed, sender: SenderID(rawValue: 9), epoch: SenderEpoch(rawValue: 4))

    private static func delta(
        _ change: (inout LedgerEntry) -> Void = { _ in }
    ) -> (inout SegmentFooter) -> Void {
        var entry = LedgerEntry(key: key)
        change(&entry)
        return { [entry] in $0.windows.apply([entry], at: 0) }
    }

    @Test(
        "The windows of any senders are those of the footers, and their packets add up",
        arguments: 1...8 as ClosedRange<UInt64>)
    func good(seed: UInt64) throws {
        let fixture = try Self.fixture(seed: seed)
        for _ in 0..<2 {
            let report = try fixture.verify()
            #expect(report.findings.isEmpty, "\(report.findings)")
            for row in try fixture.reader.ledger() {
                guard let announced = row.packetsAnnounced else { continue }
                #expect(announced == row.packetsReceived + row.packetsMissing! + row.packetsOpen!)
            }
            // And the same with what has expired.
            try fixture.publish()
            try fixture.expire(2)
        }
    }

    @Test(
        "A ledger may say of any sequences that they arrived",
        arguments: [
            [[0...UInt64.max]], [[0...7], [8...UInt64.max]], [[8...UInt64.max], [0...7]],
        ])
    func allSequences(blocks: [[ClosedRange<UInt64>]]) throws {
        let fixture = try LogFixture(seed: 12)
        try fixture.beginSegment()
        for sequences in blocks {
            fixture.alterLedger = { $0.sequences = sequences }
            try fixture.append([FixtureEvent()])
        }
        let report = try fixture.verify()
        #expect(report.findings.contains { $0.kind != .note })
    }

    @Test("Checks of packets altered in a footer are found, and whose they are")
    func footerChecks() throws {
        for altered in [nil, 2, 5] as [UInt64?] {
            let fixture = try LogFixture(seed: 12)
            fixture.alterLedger = { $0.checks = $0.sequences.joined().map { UInt16($0) + 1 } }
            for _ in 0..<2 {
                try fixture.beginSegment()
                for _ in 0..<3 { try fixture.append([FixtureEvent()]) }
                try fixture.seal()
            }
            try fixture.publish()
            if let altered {
                try fixture.alterFooter(
                    Int(altered) / 4,
                    Self.delta { ($0.sequences, $0.checks) = ([altered...altered], [99]) })
            }
            let found = try fixture.verify().findings.map(\.what)
            let expected = altered.map {
                "check of sequence \($0) of sender 9 epoch 4 in the footer"
            }
            #expect(found == [expected].compactMap { $0 })
        }
    }

    @Test("Windows altered in a footer, all checksums right, are found, and whose they are")
    func footerWindows() throws {
        let changes = [
            Self.delta { $0.sequences = [40...40] },
            Self.delta { $0.window.floor = 30 },
            Self.delta { $0.window.announced = 90 },
            Self.delta { $0.window.asksForAcks = false },
            Self.delta { $0.events[Int(Verdict.counted.rawValue)] = 1 },
            Self.delta { $0.window.isExpired = true },
        ]
        for (index, change) in changes.enumerated() {
            let fixture = try Self.fixture(seed: 11)
            try fixture.alterFooter(1, change)
            let report = try fixture.verify()
            #expect(report.exitCode == 1, "change \(index)")
            let found = try #require(report.findings.first)
            #expect(found.what == "window of sender 9 epoch 4 in the footer", "change \(index)")
            #expect(found.file == "0000000002.segment" && found.got != found.expected)
            // The next footer is as the blocks say.
            #expect(report.findings.allSatisfy { $0.file == found.file })
        }
        let fixture = try Self.fixture(seed: 11)
        try fixture.alterFooter(1) { $0.windows = SenderWindows() }
        let report = try fixture.verify()
        #expect(report.findings.count >= 6 && report.differenceCount == report.findings.count)
        #expect(report.findings.contains { $0.got == "none" })
    }

    @Test("The window and the times of a footer's ledger entry are held against the blocks")
    func footerLedger() throws {
        let changes: [(what: String, change: (inout LedgerEntry) -> Void)] = [
            ("window", { $0.window.start = 7 }), ("window", { $0.window.floor = 7 }),
            ("window", { $0.window.announced = 7 }), ("window", { $0.window.missingCount += 1 }),
            ("window", { $0.window.asksForAcks = true }),
            ("window", { $0.window.isExpired = true }), ("times", { $0.see(1...2) }),
            ("times", { $0.seen = nil }),
        ]
        for (what, change) in changes {
            let fixture = try LogFixture.random(seed: 12)
            try fixture.alterFooter(1) { change(&$0.ledger[0]) }
            let report = try fixture.verify()
            #expect(report.exitCode == 1 && report.differenceCount == 1, "\(what)")
            #expect(report.findings.first?.what == "ledger of sender 9 epoch 4: \(what)")
        }
    }

    @Test("Packets that do not add up are found, in a sealed segment and in the live one")
    func packets() throws {
        let changes: [(inout LedgerEntry) -> Void] = [
            { $0.packets[Int(PacketResult.accepted.rawValue)] += 1 },
            { $0.packets[Int(PacketResult.malformed.rawValue)] += 1 },
            { $0.window.missingCount += 1 },
            { $0.sequences = [] },
            { $0.sequences = [$0.sequences[0].lowerBound...$0.sequences[0].lowerBound + 1] },
        ]
        for (index, change) in changes.enumerated() {
            for isSealed in [true, false] {
                let fixture = try LogFixture.random(seed: 13, segmentCount: 1, liveBlockCount: 1)
                fixture.alterLedger = change
                try fixture.append([FixtureEvent()])
                if isSealed { try fixture.seal() }
                let report = try fixture.verify()
                #expect(report.exitCode == 1 && report.differenceCount == 1, "change \(index)")
                let found = try #require(report.findings.first)
                #expect(found.what == "packets of sender 9 epoch 4 do not add up")
                #expect(found.file == "0000000002.segment")
                #expect(found.got.hasSuffix(" announced") && found.expected.hasSuffix(" open"))
            }
        }
    }

    @Test("Sequences of a window that no block opened are found")
    func noStart() throws {
        let fixture = try LogFixture()
        fixture.alterLedger = { $0.window.start = nil }
        try fixture.beginSegment()
        try fixture.append([FixtureEvent()])
        let report = try fixture.verify()
        #expect(report.findings.map(\.what) == ["packets of sender 9 epoch 4 before its window"])
    }

    @Test("Events that came with no packet are found")
    func eventsWithoutPacket() throws {
        let fixture = try LogFixture.random(seed: 14, segmentCount: 1, liveBlockCount: 1)
        fixture.alterLedger = {
            $0.packets[Int(PacketResult.accepted.rawValue)] = 0
            $0.packets[Int(PacketResult.malformed.rawValue)] = 1
        }
        try fixture.append([FixtureEvent()])
        #expect(
            try fixture.verify().findings.map(\.what)
                == ["events without a packet of sender 9 epoch 4 in the block's ledger"])
    }

    @Test(
        "Windows go on from what has expired, and where senders were folded, from the next footer")
    func expired() throws {
        let fixture = try Self.fixture(seed: 15)
        try fixture.publish()
        try fixture.expire(2)
        #expect(try fixture.verify().findings.isEmpty)
        let good = try fixture.fileNames.map { ($0, fixture.files.disk.contents($0) ?? []) }
        try fixture.alterFooter(0, Self.delta { $0.window.announced = 90 })
        #expect(
            try fixture.verify().findings.map(\.what)
                == ["window of sender 9 epoch 4 in the footer"])
        for (name, bytes) in good { fixture.files.disk.damage(name) { $0 = bytes } }
        try fixture.alterExpired(segments: {
            let place = $0.ledger.firstIndex { $0.key == Self.key }!
            var others = LedgerEntry(key: .others)
            others.packets = $0.ledger[place].packets
            others.events = $0.ledger[place].events
            $0.ledger[place] = others
        })
        #expect(try fixture.verify().findings.isEmpty)
    }

    @Test("A block that is lost makes nobody's figures wrong", arguments: 1...12 as ClosedRange)
    func lost(seed: UInt64) throws {
        let fixture = try Self.fixture(seed: 20 + seed, segmentCount: 2, blockCount: 12)
        let name = FileName.segment(fixture.position.segment).text
        // One of the blocks of the live segment, or several.
        fixture.files.disk.damage(name) { bytes in
            var place = 4_096 + Int(seed) * 90
            while place < fixture.lastBlock.lowerBound {
                bytes[place] ^= 1
                place += Int(seed % 3 + 1) * 700
            }
        }
        #expect(try fixture.verify().differenceCount == 0)
        let recovered = try recoverSegments(
            in: fixture.files, after: fixture.manifest, now: 9)
        try fixture.publish(recovered.segments.map(\.file))
        let report = try fixture.verify()
        #expect(report.exitCode == 65 && report.evidenceLostCount > 0)
        #expect(report.differenceCount == 0, "\(report.findings)")
    }
}
