import Glibc
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import Synchronization
import TestSupport
import Testing

@Suite struct SnapshotTests {
    static func expectAnswers(
        of reader: IngestReader, are model: ReferenceModel, _ comment: Comment = ""
    ) throws {
        #expect(try reader.rewards() == model.rewards(RewardsQuery()), comment)
        #expect(try reader.days() == model.days(DaysQuery()), comment)
        #expect(try reader.rewardDays() == model.rewardDays(RewardDaysQuery()), comment)
        let days = DayRange(from: CivilDay(dayNumber: 20_001), to: CivilDay(dayNumber: 20_002))
        #expect(
            try reader.rewards(RewardsQuery(business: "shop 1", days: days))
                == model.rewards(RewardsQuery(business: "shop 1", days: days)), comment)
    }

    @Test("Runs, uncovered segments and the tail add up to what was written", arguments: 1...6)
    func everything(seed: Int) throws {
        let fixture = try LogFixture.random(
            seed: UInt64(seed), segmentCount: seed % 4, liveBlockCount: seed % 3)
        let reader = try fixture.reader
        try Self.expectAnswers(of: reader, are: fixture.model)
        #expect(
            reader.cut
                == Cut(
                    segment: fixture.position.segment.rawValue, block: fixture.position.blockCount))
    }

    @Test("A new directory has no rows and a cut at the start")
    func empty() throws {
        let reader = try LogFixture().reader
        #expect(try reader.rewards().isEmpty)
        #expect(try reader.days().isEmpty)
        #expect(try reader.rewardDays().isEmpty)
        #expect(try reader.reward("r") == nil)
        #expect(reader.cut == Cut(segment: 0, block: 0))
    }

    @Test("Numbers are the same before sealing, after it, and after publishing")
    func stages() throws {
        let fixture = try LogFixture.random(seed: 3)
        try Self.expectAnswers(of: fixture.reader, are: fixture.model, "live")
        try fixture.seal()
        try Self.expectAnswers(of: fixture.reader, are: fixture.model, "sealed")
        try fixture.beginSegment()
        try Self.expectAnswers(of: fixture.reader, are: fixture.model, "a new segment is there")
        try fixture.append([FixtureEvent()])
        try Self.expectAnswers(of: fixture.reader, are: fixture.model, "and has a block")
        try fixture.publish()
        try Self.expectAnswers(of: fixture.reader, are: fixture.model, "published")
    }

    @Test("A reader goes on answering from its cut while generations come and go")
    func isolation() throws {
        var random = SeededRandom(seed: 8)
        let fixture = try LogFixture.random(seed: 4)
        let reader = try fixture.reader
        let model = fixture.model
        let before = try fixture.fileNames
        try fixture.append((0..<40).map { _ in FixtureEvent(&random) })
        try fixture.seal()
        try fixture.publish()
        for name in before where name.hasSuffix(".run") { try? fixture.files.unlink(name) }
        try Self.expectAnswers(of: reader, are: model)
    }

    @Test("The last block counts as durable only by the mark or a block behind it")
    func durability() throws {
        let fixture = try LogFixture.random(seed: 5)
        try fixture.append([FixtureEvent()], setsMark: false)
        try Self.expectAnswers(of: fixture.reader, are: fixture.modelBeforeLastBlock, "no mark")
        let model = fixture.model
        try fixture.append([FixtureEvent()], setsMark: false)
        try Self.expectAnswers(of: fixture.reader, are: model, "followed")
        try fixture.files.unlink(FileName.durableMark.text)
        try Self.expectAnswers(of: fixture.reader, are: model, "a mark is no must")
    }

    @Test("A block below the mark that cannot be read is an error that names file and place")
    func badBlock() throws {
        let fixture = try LogFixture.random(seed: 6)
        let name = FileName.segment(fixture.position.segment).text
        fixture.flip(name, byte: 4_096 + 300)
        let error = #expect(throws: ReaderError.self) { try fixture.reader.rewards() }
        #expect(error?.kind == .corrupt)
        #expect(error?.path.hasSuffix(name) == true)
        #expect((error?.offset ?? 0) >= 4_096)
    }

    @Test("A flipped bit in a run is an error of the query that reads it, not a wrong number")
    func badRun() throws {
        let fixture = try LogFixture.random(seed: 7)
        let name = try #require(fixture.manifest.runs.first { $0.table == .rewards }).fileName.text
        fixture.flip(name, byte: 140)
        let reader = try fixture.reader
        let error = #expect(throws: ReaderError.self) { try reader.rewards() }
        #expect(error?.kind == .corrupt && error?.path.hasSuffix(name) == true)
        #expect(try reader.days() == fixture.model.days(DaysQuery()))
    }

    @Test("Segments without a manifest, and no directory, are told apart from an empty one")
    func missing() throws {
        let fixture = try LogFixture.random(seed: 9)
        for name in try fixture.fileNames where name.hasSuffix(".manifest") {
            try fixture.files.unlink(name)
        }
        #expect(throws: ReaderError.self) { try fixture.reader }
        #expect { try fixture.reader } throws: { ($0 as? ReaderError)?.kind == .missingManifest }
        #expect { try IngestReader.open(directory: "/nowhere/at/all") } throws: {
            ($0 as? ReaderError)?.kind == .notFound
        }
    }

    @Test("A key that was lost with its block is listed in a tail as in a run")
    func lostKeyInTail() throws {
        let fixture = try LogFixture()
        try fixture.beginSegment()
        try fixture.append([FixtureEvent()])
        var other = FixtureEvent()
        other.reward = "other"
        try fixture.append([other])
        let lost = fixture.lastBlock
        try fixture.append([other, other])
        fixture.flip(FileName.segment(fixture.position.segment).text, byte: lost.upperBound - 20)
        let sealed = try recoverSegments(
            in: fixture.files, after: fixture.manifest, now: 9
        ).segments
        for isPublished in [false, true] {
            if isPublished { try fixture.publish(sealed.map(\.file)) }
            let reader = try fixture.reader
            #expect(try reader.rewards().map(\.id) == ["(lost:1)", "r"])
            #expect(try reader.rewards().map(\.counters.impressions) == [2, 1])
            let top = try reader.rewards(RewardsQuery(order: .impressions, limit: 1))
            #expect(top.map(\.id) == ["(lost:1)"])
            #expect(try reader.rewardDays().map(\.id) == ["(lost:1)", "r"])
            #expect(try reader.days().map(\.businessID) == ["(lost:0)", "b"])
            #expect(try reader.reward("(lost:1)")?.counters.impressions == 2)
            #expect(try reader.status().keyCount == 1)
        }
    }

    @Test("Names of a tail are the same by a few look-ups and by many, lost ones too")
    func namesOfTail() throws {
        let fixture = try LogFixture()
        try fixture.beginSegment()
        func event(_ number: Int) -> FixtureEvent {
            var event = FixtureEvent()
            (event.reward, event.business) = ("r\(number % 40)", "b\(number % 3)")
            return event
        }
        for block in 0..<5 { try fixture.append((0..<30).map { event(20 * block + $0) }) }
        let lost = fixture.lastBlock
        try fixture.append([event(1), event(2)])
        let name = FileName.segment(fixture.position.segment).text
        for isDamaged in [false, true] {
            if isDamaged {
                fixture.flip(name, byte: lost.upperBound - 20)
                _ = try recoverSegments(in: fixture.files, after: fixture.manifest, now: 9)
            }
            let snapshot = try SnapshotLoader(fixture.files).load()
            let many = snapshot.makeNames()
            for _ in 0..<20 { #expect(try many.ordinal(of: "none") == nil) }
            for number in 0..<40 {
                let few = snapshot.makeNames()
                let ordinal = try few.ordinal(of: "r\(number)")
                #expect(try ordinal == many.ordinal(of: "r\(number)"))
                guard let ordinal else { continue }
                #expect(try few.keys(ofReward: ordinal) == many.keys(ofReward: ordinal))
            }
            for ordinal in (1..<many.nextName + 2).map(NameOrdinal.init(rawValue:)) {
                #expect(try snapshot.makeNames().bytes(of: ordinal) == many.bytes(of: ordinal))
            }
            for key in (0..<many.nextKey + 2).map(KeyOrdinal.init(rawValue:)) {
                #expect(try snapshot.makeNames().names(of: key) == many.names(of: key))
            }
            #expect(try (many.lostKeyCount() > 0) == isDamaged)
        }
    }

    @Test("A block without rows, as heartbeats leave, has no rows of the key before it")
    func blockWithoutRows() throws {
        let fixture = try LogFixture()
        try fixture.beginSegment()
        var other = FixtureEvent()
        other.reward = "other"
        for events in [[FixtureEvent(), other], [], [FixtureEvent()], [], [other]] {
            try fixture.append(events)
        }
        for id in ["r", "other"] {
            #expect(try fixture.reader.reward(id)?.counters.impressions == 2)
        }
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.model)
    }

    @Test("A block that is written over while a reader has it open is an error, no trap")
    func exchangedBlock() throws {
        let fixture = try LogFixture()
        let other = try LogFixture()
        for (fixture, count) in [(fixture, 40), (other, 3)] {
            try fixture.beginSegment()
            for first in [0, count] {
                try fixture.append(
                    (first..<first + count).map { number in
                        var event = FixtureEvent()
                        event.reward = "r\(number)"
                        return event
                    })
            }
        }
        let name = FileName.segment(fixture.position.segment).text
        let bytes = try #require(other.files.disk.contents(name))
        for ask in 0..<3 {
            let snapshot = try SnapshotLoader(fixture.files).load()
            let whole = try #require(fixture.files.disk.contents(name))
            fixture.files.disk.damage(name) { $0.replaceSubrange(0..<bytes.count, with: bytes) }
            let error = #expect(throws: ReaderError.self) {
                switch ask {
                case 0: _ = try snapshot.makeNames().bytes(of: NameOrdinal(rawValue: 60))
                case 1: _ = try snapshot.makeNames().names(of: KeyOrdinal(rawValue: 30))
                default:
                    let names = snapshot.makeNames()
                    try snapshot.forEachRow(
                        of: .rewards, CounterPoint(key: 2), names, { (_, _) in })
                }
            }
            #expect(error?.kind == .corrupt)
            fixture.files.disk.damage(name) { $0 = whole }
        }
    }

    @Test("Status counts segments, files, packets and events")
    func status() throws {
        let fixture = try LogFixture.random(seed: 10)
        let status = try fixture.reader.status()
        #expect(status.sealedSegmentCount == 3 && status.unsealedSegmentCount == 1)
        #expect(status.generation == 5)
        #expect(status.cut == Cut(segment: 4, block: 3) && status.durable == status.cut)
        #expect(status.compacted == Cut(segment: 3, block: 4))
        #expect(status.rowCount == 15 * 30)
        #expect(status.packets == [.accepted: 15, .badCRC: 30])
        #expect(status.events[.malformed] == 30)
        #expect(status.events.values.reduce(0, +) == 15 * 33)
        let columns: [CounterColumn] = [.impressions, .clicks, .redemptions]
        let counted = fixture.model.facts.reduce(into: UInt64(0)) { sum, fact in
            for column in columns { sum += fact.row[column] }
        }
        #expect(status.events[.counted] == counted)
        #expect(status.fileCount == (try fixture.files.names().count))
        // With that of rewards beyond the limit.
        #expect(status.nameCount == 16 && status.keyCount > 20)
        #expect(status.uncleanStops.isEmpty && status.lostRangeCount == 0)
    }

    @Test("A run that is dropped while a reader opens makes it read the newer generation")
    func droppedWhileOpening() throws {
        let fixture = try LogFixture.random(seed: 11)
        let runCount = fixture.manifest.runs.count + fixture.manifest.namesRuns.count
        for call in 4...3 + runCount {
            fixture.files.disk.fail(.open, onCall: call, errno: 2)
            try Self.expectAnswers(of: fixture.reader, are: fixture.model, "open \(call)")
            fixture.files.disk.clearFailures()
        }
        // A run that stays away is no race.
        try fixture.files.unlink(fixture.manifest.runs[0].fileName.text)
        #expect { try fixture.reader } throws: { ($0 as? ReaderError)?.kind == .corrupt }
    }

    @Test("However often files go while a reader opens, it opens as long as generations come")
    func droppedAgainAndAgain() throws {
        let fixture = try LogFixture.random(seed: 13)
        // More than any fixed number of attempts that one would think of.
        let dropCountMax = 12
        let dropCount = Atomic(0)
        // All of it is done by this thread.
        nonisolated(unsafe) let daemon = fixture
        let racing = WatchedFileSystem(fixture.files) { (name) throws(StorageError) in
            guard name.hasSuffix(".run"), dropCount.load(ordering: .relaxed) < dropCountMax else {
                return
            }
            dropCount.add(1, ordering: .relaxed)
            do {
                try daemon.append([FixtureEvent()])
                try daemon.seal()
                try daemon.publish()
                try daemon.beginSegment()
            } catch {
                throw .corrupt(path: name, offset: 0, detail: "the fixture failed: \(error)")
            }
            throw .notFound(path: name)
        }
        try Self.expectAnswers(of: IngestReader.open(racing), are: fixture.model)
        let seenCount = dropCount.load(ordering: .relaxed)
        #expect(seenCount == dropCountMax)
    }

    @Test("An I/O error at any call is an error of its own kind, of queries and of verify")
    func ioErrors() throws {
        let fixture = try LogFixture.random(seed: 12, segmentCount: 2)
        // A read that fails with EIO is of the bytes, and is made twice.
        let faults: [(SimulatedDisk.Kind, Int32)] = [(.open, EIO), (.read, EINVAL), (.names, EIO)]
        for (kind, errno) in faults {
            var call = 1
            var failureCount = 0
            while true {
                fixture.files.disk.fail(kind, onCall: call, errno: errno)
                let before = fixture.files.disk.callCount(kind)
                do {
                    let reader = try fixture.reader
                    _ = try reader.rewards()
                    _ = try reader.status()
                    _ = try fixture.verify()
                } catch {
                    var isIO = (error as? ReaderError)?.kind == .io
                    if case .io? = (error as? VerifyError)?.cause { isIO = true }
                    #expect(isIO, "\(kind) \(call): \(error)")
                    failureCount += 1
                }
                let wasReached = fixture.files.disk.callCount(kind) - before >= call
                fixture.files.disk.clearFailures()
                if !wasReached { break }
                call += 1
            }
            // But of the leases: without them a reader may come too late, and is told so.
            let leaseCount = kind == .open ? 2 : 0
            #expect(
                failureCount == call - 1 - leaseCount, "every \(kind) that fails is an error")
        }
        for call in 1...40 {
            fixture.files.disk.fail(.read, onCall: call)
            try Self.expectAnswers(of: fixture.reader, are: fixture.model)
            fixture.files.disk.clearFailures()
        }
    }
}
