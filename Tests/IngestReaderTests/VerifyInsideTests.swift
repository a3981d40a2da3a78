import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

/// Runs and cuts that end in the middle of a segment: each is held against the rows of exactly the blocks
/// before its end.
@Suite struct VerifyInsideTests {
    /// Two sealed segments, then a live one of five blocks, with a generation behind its second, third and
    /// fourth block.
    private static func fixture(seed: UInt64) throws -> LogFixture {
        var random = SeededRandom(seed: seed)
        let fixture = try LogFixture.random(seed: seed, segmentCount: 2, liveBlockCount: 0)
        try fixture.beginSegment()
        for block in 1...5 {
            try fixture.append((0..<20).map { _ in FixtureEvent(&random) })
            if (2...4).contains(block) { try fixture.publishLive() }
        }
        return fixture
    }

    /// The runs that end in the live segment, those of the newest generation last.
    private static func liveRuns(_ fixture: LogFixture) throws -> [FileName] {
        let base = Set(fixture.sealedManifest.fileNames)
        return try fixture.fileNames.compactMap { FileName($0) }.filter { name in
            guard case .run(let table, _) = name, table != .names, !base.contains(name) else {
                return false
            }
            return try Run.decode(fixture.bytes(name)).header.span.firstSegment
                == fixture.position.segment
        }
    }

    @Test("Generations in the middle of a segment are good, and stay so when it is sealed")
    func good() throws {
        let fixture = try Self.fixture(seed: 51)
        #expect(try Self.liveRuns(fixture).count == 6)
        #expect(fixture.manifest.cut.segment == fixture.position.segment)
        #expect(fixture.manifest.cut.blockCount == 4)
        func expectGood(_ stage: String) throws {
            let report = try fixture.verify()
            #expect(report.exitCode == 0 && report.findings.isEmpty, "\(stage)")
            #expect(report.rowCount == UInt64(fixture.model.facts.count), "\(stage)")
            #expect(report.cut == fixture.position.cut, "\(stage)")
        }
        try expectGood("live")
        try fixture.seal()
        try expectGood("sealed, and no generation has it")
        try fixture.publish()
        try expectGood("published")
        try fixture.beginSegment()
        try fixture.append([FixtureEvent()])
        try fixture.publishLive()
        try expectGood("the next segment")
    }

    @Test(
        "One counter altered in a run that ends inside a segment is found",
        arguments: TableKind.counterTables)
    func altered(table: TableKind) throws {
        let fixture = try Self.fixture(seed: 52)
        let current = Set(fixture.manifest.fileNames)
        for isSealed in [false, true] {
            if isSealed { try fixture.seal() }
            for name in try Self.liveRuns(fixture) {
                guard case .run(table, _) = name else { continue }
                let good = fixture.bytes(name)
                let newest = FileName.manifest(fixture.manifest.generation)
                let goodManifest = fixture.bytes(newest)
                for column in [CounterColumn.impressions, .refusedClicks, .revenueMicros] {
                    let change = VerifierTests.change(column)
                    if current.contains(name) {
                        let place = fixture.manifest.runs.count { $0.table == table } - 1
                        try fixture.alterRun(table, at: place, change)
                    } else {
                        try fixture.alterRun(name, change)
                    }
                    let report = try fixture.verify()
                    // Of the newest generation, a run of reward-days stands for rewards as well.
                    let tableCount = table == .rewardDays && current.contains(name) ? 2 : 1
                    #expect(report.exitCode == 1 && report.differenceCount == tableCount)
                    #expect(report.findings.first?.file.hasSuffix(name.text) == true)
                    fixture.replace(name, good)
                    fixture.replace(newest, goodManifest)
                }
            }
        }
        #expect(try fixture.verify().findings.isEmpty)
    }

    @Test("A block counted too much or too little by a run that ends inside a segment is found")
    func wrongEnd() throws {
        for change in [-1, 1] {
            let fixture = try Self.fixture(seed: 53)
            var manifest = fixture.manifest
            let end = LogPosition(
                segment: manifest.cut.segment,
                blockCount: UInt32(Int(manifest.cut.blockCount) + change))
            for (index, entry) in manifest.runs.enumerated()
            where entry.span.end == manifest.cut {
                let run = try Run.decode(fixture.bytes(entry.fileName))
                let header = RunHeader(
                    table: entry.table, fileNumber: entry.fileNumber,
                    directory: run.header.directory,
                    span: LogSpan(firstSegment: entry.span.firstSegment, end: end),
                    generation: run.header.generation, createdAt: run.header.createdAt,
                    index: run.counters.index)
                fixture.replace(
                    entry.fileName, Run(header: header, counters: run.counters).encode())
                manifest.runs[index] = header.entry
            }
            manifest.shard.cut = end
            try fixture.alterManifest { $0 = manifest }
            let report = try fixture.verify()
            #expect(report.differenceCount > 0)
            // And the last block before the cut is another than the manifest says.
            #expect(report.exitCode == 65 && report.corruptionCount > 0)
        }
    }

    @Test("What the manifest says of a cut inside a segment is held against the block before it")
    func shard() throws {
        let changes: [(what: String, (inout ShardState) -> Void)] = [
            ("checksum of the last block before the cut", { $0.lastBlockChecksum ^= 4 }),
            ("next name at the cut", { $0.nextName += 1 }),
            ("next key at the cut", { $0.nextKey += 1 }),
            ("commit epoch at the cut", { $0.commitEpoch += 1 }),
        ]
        for (what, change) in changes {
            for isSealed in [false, true] {
                let fixture = try Self.fixture(seed: 54)
                if isSealed { try fixture.seal() }
                try fixture.alterManifest { change(&$0.shard) }
                let report = try fixture.verify()
                #expect(report.exitCode == 65 && report.corruptionCount == 1)
                #expect(report.findings.map(\.what) == [what])
            }
        }
    }

    @Test("The offset of a cut inside a segment is held against the end of the block before it")
    func offset() throws {
        for isSealed in [false, true] {
            let fixture = try Self.fixture(seed: 57)
            if isSealed { try fixture.seal() }
            try fixture.alterManifest { $0.shard.cutOffset += 8 }
            let report = try fixture.verify()
            #expect(report.exitCode == 65 && report.corruptionCount == 1)
            #expect(report.findings.map(\.what) == ["offset of the cut"])
        }
    }

    @Test("What a manifest says that the log adds up to is held against the rows and ledgers")
    func sums() throws {
        let sealed = "of all sealed segments"
        let live = "of the live segment before the cut"
        let changes: [(what: String, (inout ShardState) -> Void)] = [
            ("rows \(sealed)", { $0.sealedTotals = $0.sealedTotals.with(rowCount: 999_999) }),
            ("rows \(live)", { $0.liveTotals = $0.liveTotals.with(rowCount: 999_999) }),
            ("packets bad_crc \(sealed)", { $0.sealedTotals.add([Self.packet(.badCRC)]) }),
            ("packets accepted \(live)", { $0.liveTotals.add([Self.packet(.accepted)]) }),
            ("events malformed \(sealed)", { $0.sealedTotals.add([Self.event(.malformed)]) }),
            ("events counted \(live)", { $0.liveTotals.add([Self.event(.counted)]) }),
            ("money \(sealed)", { $0.sealedMoneyMicros = 1 << 61 }),
        ]
        for (what, change) in changes {
            for isSealed in [false, true] {
                let fixture = try Self.fixture(seed: 58)
                #expect(try fixture.verify().findings.isEmpty)
                if isSealed { try fixture.seal() }
                try fixture.alterManifest { change(&$0.shard) }
                let report = try fixture.verify()
                #expect(report.exitCode == 1 && report.differenceCount == 1)
                #expect(report.findings.map(\.what) == [what])
            }
        }
    }

    @Test("Sums of a manifest that ends with a segment are held against it too")
    func sumsOfSealed() throws {
        let fixture = try LogFixture.random(seed: 59, liveBlockCount: 0)
        #expect(try fixture.verify().findings.isEmpty)
        let good = fixture.bytes(.manifest(fixture.manifest.generation))
        for change: (inout ShardState) -> Void in [
            { $0.sealedTotals.add([Self.event(.tooOld)]) },
            { $0.sealedTotals.add([Self.packet(.shed)]) }, { $0.sealedMoneyMicros -= 1 },
        ] {
            try fixture.alterManifest { change(&$0.shard) }
            #expect(try fixture.verify().exitCode == 1)
            fixture.replace(.manifest(fixture.manifest.generation), good)
        }
        try fixture.alterManifest { manifest in
            let key = manifest.sealed[0].number
            let isNoted = manifest.note(
                LostRange(
                    segment: key, firstBlock: 1, blockCount: 1, offset: 200, byteCount: 8,
                    rowCount: 3, names: 2..<2, keys: 1..<1))
            #expect(isNoted)
        }
        let report = try fixture.verify()
        #expect(report.exitCode == 1 && report.differenceCount == 1)
    }

    private static func packet(_ result: PacketResult) -> LedgerEntry {
        var entry = LedgerEntry(key: .plain)
        entry.packets[Int(result.rawValue)] = 1
        return entry
    }

    private static func event(_ verdict: Verdict) -> LedgerEntry {
        var entry = LedgerEntry(key: .plain)
        entry.events[Int(verdict.rawValue)] = 1
        return entry
    }

    @Test("A bad block before a cut inside a segment costs itself, and makes no differences")
    func badBlock() throws {
        for isSealed in [false, true] {
            let fixture = try Self.fixture(seed: 55)
            let name = FileName.segment(fixture.position.segment).text
            if isSealed { try fixture.seal() }
            fixture.flip(name, byte: SegmentHeader.byteCount + 200)
            let report = try fixture.verify()
            #expect(report.exitCode == 65 && report.differenceCount == 0)
            #expect(report.corruptionCount == 1)
            #expect(report.findings.first?.file == name)
        }
    }
}

extension LogTotals {
    fileprivate func with(rowCount: UInt64) -> LogTotals {
        var totals = self
        totals.rowCount = rowCount
        return totals
    }
}
