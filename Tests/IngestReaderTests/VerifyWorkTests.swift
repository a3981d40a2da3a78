import IngestFormat
import IngestStorage
import Synchronization
import TestSupport
import Testing

@testable import IngestVerify

/// What several threads make of a directory: the same as one.
@Suite struct VerifyWorkTests {
    @Test("A report is the same however many threads make it", arguments: 1...4)
    func deterministic(seed: Int) throws {
        let fixture = try LogFixture.random(seed: UInt64(60 + seed), segmentCount: 7)
        func expectSame(_ what: String) throws {
            let one = try Verifier.run(fixture.files, workerCount: 1)
            for count in [2, 3, 16] {
                #expect(try Verifier.run(fixture.files, workerCount: count) == one, "\(what)")
            }
        }
        try expectSame("good")
        for index in [0, 4] {
            try fixture.alterFooter(index) { footer in
                footer.rewardDays = try! footer.rewardDays.altered(VerifierTests.change(.clicks))
            }
        }
        try fixture.alterRun(.days, VerifierTests.change(.impressions))
        try expectSame("differences")
        for number in [2, 3, 6] {
            fixture.flip("000000000\(number).segment", byte: 4_096 + 300)
        }
        try expectSame("damage")
        try fixture.files.unlink("0000000005.segment")
        try expectSame("a segment missing")
        #expect(try Verifier.run(fixture.files, workerCount: 3).corruptionCount >= 4)
    }

    /// Names and keys entered as blocks introduce them.
    private static func enter(
        _ names: inout LogNames, first: UInt32, _ texts: [String], firstKey: UInt32 = 0,
        _ keys: [RewardKey] = []
    ) -> (names: [UInt32], keys: [UInt32]) {
        let hashes = texts.map { names.hash.name(Array($0.utf8)) }
        let block = IntroducedNames(
            offset: UInt64(first), names: (first, hashes), keys: (firstKey, keys.map(\.word)))
        return names.enter(block, of: SegmentNumber(rawValue: first))
    }

    private static func repeats(_ words: NameWords) -> [NameWords.Repeat] {
        (0..<NameWords.partCount).flatMap { words.repeats(part: $0) }
            .sorted { $0.ordinal < $1.ordinal }
    }

    @Test("Names and keys that are given twice are found, and ordinals that are")
    func givenTwice() throws {
        func pair(_ reward: UInt32, _ business: UInt32) -> RewardKey {
            RewardKey(
                reward: NameOrdinal(rawValue: reward), business: NameOrdinal(rawValue: business))
        }
        var names = LogNames()
        var changed = Self.enter(&names, first: 1, ["a", "b"], firstKey: 4, [pair(1, 2)])
        #expect(changed.names.isEmpty && changed.keys.isEmpty)
        changed = Self.enter(&names, first: 7, ["a"], firstKey: 9, [pair(1, 2), pair(2, 1)])
        #expect(changed.names.isEmpty && changed.keys.isEmpty)
        #expect(Self.repeats(names.names) == [.init(ordinal: 7, other: 1)])
        #expect(Self.repeats(names.keys) == [.init(ordinal: 9, other: 4)])
        #expect(names.names[5] == 0 && names.keys[5] == 0)
        #expect(names.business(ofKey: 9) == 2 && names.business(ofKey: 77) == 0)
        #expect(names.describe(.key, 5).contains("(lost:5)"))
        #expect(names.introduction(of: .name, 7)?.offset == 7)
        #expect(names.introduction(of: .name, 3) == nil)
        #expect(names.introduction(of: .key, 4)?.file == "0000000001.segment")
        changed = Self.enter(&names, first: 2, ["b"], firstKey: 10, [pair(2, 1)])
        #expect(changed.names.isEmpty && changed.keys.isEmpty)
        changed = Self.enter(&names, first: 2, ["c"], firstKey: 10, [pair(2, 2)])
        #expect(changed.names == [2] && changed.keys == [10])
    }

    @Test("Many names are told apart, and each that comes again is found, also of expired ones")
    func manyNames() throws {
        let files = SimulatedFileSystem(seed: 1)
        var encoder = NamesRunEncoder(
            table: .expiredNames, fileNumber: FileNumber(rawValue: 1),
            directory: DirectoryID(rawValue: 1), firstName: NameOrdinal(rawValue: 1),
            firstKey: KeyOrdinal(rawValue: 0), generation: Generation(rawValue: 0), createdAt: 0)
        for name in ["name-77", "", "expired"] { encoder.append(name: Array(name.utf8)[...]) }
        let key = RewardKey(
            reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 3))
        encoder.append(key: key)
        let (bytes, entry) = encoder.finish()
        try ManifestStore(files: files).write(entry.fileName, [bytes])
        var names = LogNames()
        try names.enter(expired: NamesRunReader(entry, in: files))
        #expect(names.names[2] == 0 && names.names[3] != 0)
        _ = Self.enter(
            &names, first: 11, (1...5_000).map { "name-\($0)" }, firstKey: 1, [key])
        let known = NameWords.Repeat(ordinal: 87, other: 1)
        #expect(Self.repeats(names.names) == [known])
        let again = Array(stride(from: 1, through: 5_000, by: 97))
        _ = Self.enter(&names, first: 6_000, again.map { "name-\($0)" })
        let found = Self.repeats(names.names)
        #expect(found.filter { $0 != known }.map { Int($0.other) } == again.map { $0 + 10 })
        #expect(found.contains(known))
        #expect(Self.repeats(names.keys) == [.init(ordinal: 1, other: 0)])
    }

    @Test(
        "What comes of the work is taken in its order, and no more is begun than there is room for")
    func order() {
        let ahead = Mutex((taken: 0, most: 0))
        var taken: [Int] = []
        OrderedWork.run(200, workerCount: 4) {
            { index in
                ahead.withLock { $0.most = max($0.most, index - $0.taken) }
                return index * index
            }
        } take: { index, output in
            #expect(index == taken.count)
            taken.append(output)
            ahead.withLock { $0.taken = taken.count }
        }
        #expect(taken == (0..<200).map { $0 * $0 })
        #expect(ahead.withLock { $0.most } <= 5)
    }

    @Test("Work ends when the caller has enough, whatever is under way", arguments: [0, 1, 7])
    func stops(after count: Int) {
        var taken = 0
        OrderedWork.run(50, workerCount: 3, wait: { taken < count }) {
            { $0 }
        } take: { _, _ in
            taken += 1
        }
        #expect(taken == count)
        OrderedWork.run(0, workerCount: 3) {
            { $0 }
        } take: { _, _ in
            Issue.record("nothing to take")
        }
    }

    @Test("A caller that says no in the middle stops it")
    func cancelled() throws {
        let fixture = try LogFixture.random(seed: 67, segmentCount: 6)
        for limit in 1...6 {
            var count = 0
            #expect {
                try Verifier.run(fixture.files, workerCount: 2) { _ in
                    count += 1
                    return count < limit
                }
            } throws: {
                ($0 as? VerifyError)?.isCancelled == true
            }
            #expect(count == limit)
        }
    }

    @Test("Progress never goes back, and says the bytes of the log")
    func progress() throws {
        let fixture = try LogFixture.random(seed: 68, segmentCount: 5)
        var seen: [UInt64] = []
        var total: UInt64 = 0
        _ = try Verifier.run(fixture.files) {
            seen.append($0.doneByteCount)
            total = $0.totalByteCount
            return true
        }
        #expect(seen == seen.sorted() && seen.last == total)
        let segments = try fixture.fileNames.filter { $0.hasSuffix(".segment") }
        #expect(total == segments.reduce(UInt64(0)) { $0 + UInt64(fixture.byteCount($1)) })
    }

    @Test("One reward on many days is held against footers, runs and older runs")
    func manyDays() throws {
        var random = SeededRandom(seed: 69)
        let fixture = try LogFixture()
        for number in 0..<6 {
            try fixture.beginSegment()
            for _ in 0..<3 {
                try fixture.append(
                    (0..<40).map { _ in
                        var event = FixtureEvent(&random, rewardCount: 2, businessCount: 1)
                        event.day = 20_000 + Int32(number) * 20 + Int32(random.below(30))
                        return event
                    })
            }
            try fixture.seal()
            try fixture.publish()
        }
        #expect(try fixture.verify().findings.isEmpty)
        for table in TableKind.counterTables {
            try fixture.alterRun(table, VerifierTests.change(.redemptions))
        }
        let report = try fixture.verify()
        #expect(report.exitCode == 1 && report.differenceCount == 3)
    }

    @Test("A row counts as one event, whatever else is counted of it; one that cannot be as none")
    func gross() {
        let columns = CounterColumn.allCases.filter(\.isOfGross)
        for (bits, counted) in CountedColumns.ofAttributes.enumerated() {
            let isRow = RowAttributes(rawValue: UInt16(bits)).isValid
            #expect(columns.count { counted.contains($0) } == (isRow ? 1 : 0), "\(bits)")
        }
    }

    @Test("No kind of finding hides another, and what has no line is counted")
    func kinds() {
        var report = VerifyReport()
        for number in 0..<3_000 {
            report.add(Finding(.note, file: "\(number)", what: "a note"))
            if number >= 1_500 { report.add(Finding(.difference, file: "d", what: "\(number)")) }
        }
        report.add(Finding(.corruption, file: "c", what: "a flipped bit"))
        var whole = VerifyReport()
        whole.append(report)
        whole.append(report)
        for (report, count) in [(report, 1), (whole, 2)] {
            #expect(report.findings.count { $0.kind == .corruption } == count)
            #expect(report.findings.count { $0.kind == .note } == VerifyReport.noteCountMax)
            #expect(
                report.findings.count { $0.kind == .difference } == VerifyReport.findingCountMax)
            #expect(report.noteCount == count * 3_000 && report.differenceCount == count * 1_500)
            #expect(report.unlistedCount == count * 4_501 - 1_100 - count)
        }
    }
}
