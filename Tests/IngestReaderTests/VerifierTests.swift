import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

@Suite struct VerifierTests {
    @Test("A good directory has no differences, live or clean, whatever is in it", arguments: 1...8)
    func good(seed: Int) throws {
        let fixture = try LogFixture.random(
            seed: UInt64(seed), segmentCount: seed % 5, liveBlockCount: seed % 3)
        let report = try fixture.verify()
        #expect(report.exitCode == 0)
        #expect(report.findings.isEmpty)
        #expect(report.rowCount == UInt64(fixture.model.facts.count))
        #expect(report.segmentCount == Int(fixture.position.segment.rawValue))
        #expect(report.end == fixture.position)
    }

    @Test("A directory is good at every stage of its life")
    func stages() throws {
        let fixture = try LogFixture()
        #expect(try fixture.verify().exitCode == 0)
        try fixture.beginSegment()
        #expect(try fixture.verify().exitCode == 0)
        try fixture.append([FixtureEvent()])
        #expect(try fixture.verify().rowCount == 1)
        try fixture.append([])
        #expect(try fixture.verify().blockCount == 2)
        try fixture.seal()
        let sealed = try fixture.verify()
        #expect(sealed.exitCode == 0 && sealed.findings.isEmpty)
        try fixture.beginSegment()
        #expect(try fixture.verify().exitCode == 0)
        try fixture.publish()
        let published = try fixture.verify()
        #expect(published.exitCode == 0 && published.findings.isEmpty)
        #expect(published.blockCount == 2 && published.rowCount == 1)
    }

    // MARK: Differences

    static func change(_ column: CounterColumn) -> (inout [TableRow]) -> Void {
        { $0[$0.count / 2].counters[column] += 1 }
    }

    @Test("One counter altered in a footer, all checksums right, is found")
    func footerCounter() throws {
        let fixture = try LogFixture.random(seed: 21)
        for column in CounterColumn.allCases {
            let report = try fixture.verify {
                try fixture.alterFooter(1) { footer in
                    footer.rewardDays = try! footer.rewardDays.altered(Self.change(column))
                }
            }
            #expect(report.exitCode == 1, "\(column)")
            #expect(report.differenceCount == 1, "\(column)")
            #expect(report.findings.first?.file == "0000000002.segment", "\(column)")
            let shown = CounterColumn.allCases.first { $0.high == column } ?? column
            #expect(report.findings.first?.what.hasPrefix("\(shown) of reward ") == true)
        }
    }

    @Test(
        "One counter altered in a run, all checksums right, is found",
        arguments: TableKind.counterTables)
    func runCounter(table: TableKind) throws {
        let fixture = try LogFixture.random(seed: 22)
        for column in CounterColumn.allCases {
            let report = try fixture.verify { try fixture.alterRun(table, Self.change(column)) }
            #expect(report.exitCode == 1, "\(column)")
            #expect(report.differenceCount == 1, "\(column)")
            let what = report.findings.first?.what
            #expect(what?.contains("\(table.name) table") == true, "\(column)")
        }
    }

    @Test("A row too many and a row too few are found", arguments: TableKind.counterTables)
    func rows(table: TableKind) throws {
        let fewer = try LogFixture.random(seed: 23)
        try fewer.alterRun(table) { $0.removeLast() }
        #expect(try fewer.verify().exitCode == 1)
        let more = try LogFixture.random(seed: 23)
        try more.alterRun(table) { rows in
            var row = rows[rows.count - 1]
            row.day += table.hasDay ? 5 : 0
            if !table.hasDay { row.key += 1 }
            row.counters = CounterRow()
            rows.append(row)
        }
        #expect(try more.verify().exitCode == 1)
    }

    @Test("A row moved to another day, with the same sum, is found")
    func movedDay() throws {
        let fixture = try LogFixture.random(seed: 24)
        try fixture.alterRun(.days) { $0[$0.count - 1].day += 1 }
        let report = try fixture.verify()
        #expect(report.exitCode == 1 && report.differenceCount == 2)
    }

    @Test("Sums of a footer that are not its blocks' are found")
    func footerSums() throws {
        let changes: [(inout SegmentFooter) -> Void] = [
            { $0.ledger[0].packets[0] += 1 },
            { $0.ledger[0].events[3] += 1 },
            { $0.ledger[0].sequences = [0...99] },
            { $0.blocks[1].summary.admissionTime += 1 },
        ]
        for (index, change) in changes.enumerated() {
            let fixture = try LogFixture.random(seed: 25)
            try fixture.alterFooter(0, change)
            #expect(try fixture.verify().exitCode == 1, "change \(index)")
        }
    }

    @Test("A name or a key altered in a names run is found")
    func names() throws {
        let name = try LogFixture.random(seed: 26)
        try name.alterNames(name: { $0 == 3 ? Array("impostor".utf8)[...] : $1 })
        #expect(try name.verify().exitCode == 1)
        let key = try LogFixture.random(seed: 26)
        try key.alterNames(key: { ordinal, pair in
            ordinal == 2 ? RewardKey(reward: pair!.business, business: pair!.reward) : pair
        })
        #expect(try key.verify().exitCode == 1)
    }

    @Test("A ledger that does not say what its block's rows are is found")
    func ledgerOfBlock() throws {
        for verdict in Verdict.allCases where verdict != .malformed {
            let fixture = try LogFixture()
            try fixture.beginSegment()
            var event = FixtureEvent()
            event.verdict = verdict
            if verdict == .notViewable { event.isMeasured = true }
            fixture.alterLedger = { $0.events[Int(verdict.rawValue)] = 0 }
            try fixture.append([event])
            let report = try fixture.verify()
            #expect(report.exitCode == 1)
            #expect(report.findings.map(\.what) == ["events \(verdict.name) in the block's ledger"])
        }
    }

    // MARK: Corruption

    @Test("Every byte of every file of a small directory is covered")
    func everyByte() throws {
        let fixture = try LogFixture.random(
            seed: 31, segmentCount: 1, blockCount: 1, eventCount: 3, liveBlockCount: 1)
        _ = try fixture.files.lock(FileName.lock.text)
        #expect(try fixture.verify().exitCode == 0)
        let kinds = try Set(fixture.fileNames.map { String($0.drop { !$0.isLetter }) })
        let tables = TableKind.counterTables + [.names]
        #expect(
            kinds
                == Set(["LOCK", "durable-mark", "manifest", "segment"])
                .union(tables.map { "\($0.name).run" }))
        var missed: [String] = []
        for name in try fixture.fileNames {
            let byteCount = fixture.byteCount(name)
            let content = fixture.files.disk.contents(name)!.lastIndex { $0 != 0 } ?? 0
            for byte in 0..<byteCount where Self.isTried(byte, content: content, of: byteCount) {
                let bit = (byte * 7 + byte / 8) % 8
                fixture.flip(name, byte: byte, bit: bit)
                let report = try Verifier.run(fixture.files, workerCount: 1)
                if report.exitCode != 65 { missed.append("\(name) byte \(byte) bit \(bit)") }
                fixture.flip(name, byte: byte, bit: bit)
            }
        }
        #expect(missed.isEmpty)
        #expect(try fixture.verify().exitCode == 0)
    }

    /// Every byte of headers, footers' ends and small files; of the rest, and of preallocated zeros, a
    /// sample: the tests of each format flip every byte of theirs.
    private static func isTried(_ byte: Int, content: Int, of byteCount: Int) -> Bool {
        if byte > content + 40 { return byte % 509 == 0 }
        return byte < 200 || byte + 100 > content || byte % 7 == 0
    }

    @Test("A file cut short, lengthened or missing is a corruption")
    func lengths() throws {
        let fixture = try LogFixture.random(seed: 32, liveBlockCount: 0)
        for name in try fixture.fileNames {
            let good = fixture.files.disk.contents(name)!
            for bad in [Array(good.dropLast()), Array(good.prefix(40)), [], good + [0]] {
                fixture.files.disk.damage(name) { $0 = bad }
                #expect(try fixture.verify().exitCode == 65, "\(name), \(bad.count) bytes")
            }
            fixture.files.disk.damage(name) { $0 = good }
        }
        for name in fixture.manifest.fileNames where name != .manifest(fixture.manifest.generation)
        {
            let good = fixture.files.disk.contents(name.text)!
            try fixture.files.unlink(name.text)
            #expect(try fixture.verify().exitCode == 65, "\(name.text) missing")
            _ = try fixture.files.create(name.text)
            fixture.files.disk.damage(name.text) { $0 = good }
        }
        #expect(try fixture.verify().exitCode == 0)
    }

    @Test("Corruption wins over a difference, and both are reported")
    func corruptionWins() throws {
        let fixture = try LogFixture.random(seed: 33)
        try fixture.alterFooter(0) { footer in
            footer.rewardDays = try! footer.rewardDays.altered(Self.change(.clicks))
        }
        fixture.flip("durable-mark", byte: 20)
        let report = try fixture.verify()
        #expect(report.exitCode == 65)
        #expect(report.differenceCount == 1 && report.corruptionCount == 1)
    }

    @Test(
        "A bad block of a sealed segment costs itself: the runs are held against the footer instead"
    )
    func badBlock() throws {
        let fixture = try LogFixture.random(seed: 34)
        fixture.flip("0000000001.segment", byte: 4_096 + 200)
        let bad = try fixture.verify()
        #expect(bad.exitCode == 65 && bad.differenceCount == 0 && bad.corruptionCount == 1)
        #expect(bad.findings.first?.file == "0000000001.segment")
        try fixture.alterRun(.rewards, Self.change(.clicks))
        #expect(try fixture.verify().differenceCount == 1)
    }

    @Test("Swapping two files of the same kind is found")
    func swapped() throws {
        let fixture = try LogFixture.random(seed: 35, liveBlockCount: 0)
        let (a, b) = (
            FileName.segment(SegmentNumber(rawValue: 1)),
            FileName.segment(SegmentNumber(rawValue: 2))
        )
        let (first, second) = (fixture.bytes(a), fixture.bytes(b))
        fixture.replace(a, second)
        fixture.replace(b, first)
        #expect(try fixture.verify().exitCode == 65)
    }

    @Test("A run that no manifest names any more is checked all the same")
    func droppedRun() throws {
        let fixture = try LogFixture.random(seed: 36)
        let listed = Set(fixture.manifest.fileNames.map(\.text))
        let dropped = try fixture.fileNames.filter { $0.hasSuffix(".run") && !listed.contains($0) }
        #expect(!dropped.isEmpty)
        for name in dropped {
            fixture.flip(name, byte: fixture.byteCount(name) / 2)
            #expect(try fixture.verify().exitCode == 65, "\(name)")
            fixture.flip(name, byte: fixture.byteCount(name) / 2)
        }
    }

    @Test("One counter altered in a run that no manifest names any more is found")
    func droppedRunCounter() throws {
        let fixture = try LogFixture.random(seed: 38, segmentCount: 5)
        let listed = Set(fixture.manifest.fileNames)
        let dropped = try fixture.fileNames.compactMap { FileName($0) }.filter { name in
            guard case .run(let table, _) = name else { return false }
            return table != .names && !listed.contains(name)
        }
        #expect(dropped.count >= 3)
        for name in dropped {
            let good = fixture.bytes(name)
            for column in [CounterColumn.clicks, .spendMicros, .uncheckedEvents] {
                try fixture.alterRun(name, Self.change(column))
                let report = try fixture.verify()
                #expect(report.exitCode == 1 && report.differenceCount == 1, "\(name.text)")
                #expect(report.findings.first?.file == name.text)
                fixture.replace(name, good)
            }
        }
        #expect(try fixture.verify().findings.isEmpty)
    }

    @Test("Counters of two runs altered so that their sum wraps to the right one are found")
    func wrappedSum() throws {
        let fixture = try LogFixture()
        for number in 1...3 {
            try fixture.beginSegment()
            try fixture.append([FixtureEvent()])
            try fixture.seal()
            if number > 1 { try fixture.publish() }
        }
        for table in TableKind.counterTables {
            #expect(fixture.manifest.runs.count { $0.table == table } == 2)
            for place in 0...1 {
                try fixture.alterRun(table, at: place) { rows in
                    rows[0].counters[.redemptions] += 1 << 63
                }
            }
        }
        let report = try fixture.verify()
        #expect(report.exitCode == 1 && report.differenceCount == 3)
        #expect(report.findings.allSatisfy { $0.got == "a sum that does not fit" })
    }

    @Test("A file over its limit is a corruption, and does not end the report")
    func overLimit() throws {
        let fixture = try LogFixture.random(seed: 39)
        let name = FileName.manifest(fixture.manifest.generation)
        let good = fixture.bytes(name)
        fixture.replace(name, good + Array(repeating: 0, count: Limits.manifestByteCountMax))
        #expect(try fixture.verify().exitCode == 65)
        #expect { try fixture.reader } throws: {
            ($0 as? ReaderError)?.kind == .corrupt
        }
        fixture.replace(name, good)
        let older = FileName.manifest(Generation(rawValue: name.generation - 1))
        fixture.replace(
            older, fixture.bytes(older) + Array(repeating: 0, count: Limits.manifestByteCountMax))
        let report = try fixture.verify()
        #expect(report.exitCode == 65 && report.rowCount == UInt64(fixture.model.facts.count))
        #expect(report.findings.map(\.file) == [older.text])
    }

    @Test("What lies in aside is noted and is no fault")
    func aside() throws {
        let fixture = try LogFixture.random(seed: 40)
        let aside = try fixture.files.subdirectory(FileName.aside.text, create: true)
        for number in 10...34 { _ = try aside.create("00000000\(number).days.run") }
        let report = try fixture.verify()
        #expect(report.exitCode == 0)
        #expect(report.findings.count == 21 && report.findings.allSatisfy { $0.kind == .note })
        #expect(report.findings.first?.file == "aside/0000000010.days.run")
        #expect(report.findings.last?.what == "5 more files")
    }

    @Test("A directory that holds nothing of ours is said to be none of ours")
    func foreign() throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try files.create("notes.txt")
        #expect { try Verifier.run(files) } throws: {
            if case .missingManifest(_, fileCount: 0)? = ($0 as? VerifyError)?.cause {
                true
            } else {
                false
            }
        }
    }

    @Test("Progress comes to the end, and a caller that says no stops it")
    func progress() throws {
        let fixture = try LogFixture.random(seed: 37)
        var last: VerifyProgress?
        _ = try Verifier.run(fixture.files) {
            last = $0
            return true
        }
        #expect(last?.doneByteCount == last?.totalByteCount && last!.totalByteCount > 0)
        #expect { try Verifier.run(fixture.files) { _ in false } } throws: {
            ($0 as? VerifyError)?.isCancelled == true
        }
    }
}

extension FileName {
    /// Of a manifest.
    fileprivate var generation: UInt64 {
        if case .manifest(let generation) = self { generation.rawValue } else { 0 }
    }
}
