import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct NamesRunReaderTests {
    private static let number = FileNumber(rawValue: 12)

    /// Names and keys by ordinal, from a first one on.
    private struct Content {
        var firstName: UInt32 = 40
        var firstKey: UInt32 = 7
        var names: [[UInt8]] = []
        var keys: [RewardKey?] = []

        init(nameCount: Int, keyCount: Int, seed: UInt64 = 1) {
            var random = SeededRandom(seed: seed)
            for place in 0..<nameCount {
                let text = place % 7 == 3 ? "\(random.next())" : "reward-\(place * 7_919 % 100_000)"
                names.append(place % 60 == 11 ? [] : Array(text.utf8))
            }
            for place in 0..<keyCount {
                let reward = NameOrdinal(
                    rawValue: 1 + UInt32(random.below(UInt64(keyCount / 3 + 1))))
                let business = NameOrdinal(rawValue: 1 + UInt32(random.below(20)))
                keys.append(
                    place % 50 == 9 ? nil : RewardKey(reward: reward, business: business))
            }
        }

        var fresh: FreshNames {
            var fresh = FreshNames(
                firstName: NameOrdinal(rawValue: firstName),
                firstKey: KeyOrdinal(rawValue: firstKey))
            for name in names { fresh.append(name: name[...]) }
            for key in keys { fresh.append(key: key) }
            fresh.sort()
            return fresh
        }

        func write(
            to files: SimulatedFileSystem, _ number: FileNumber = number
        ) throws -> NamesRunEntry {
            var encoder = NamesRunEncoder(
                fileNumber: number, directory: TestLog.directory,
                firstName: NameOrdinal(rawValue: firstName),
                firstKey: KeyOrdinal(rawValue: firstKey),
                generation: Generation(rawValue: 3), createdAt: 5)
            for name in names { encoder.append(name: name[...]) }
            for key in keys { encoder.append(key: key) }
            let (bytes, entry) = encoder.finish()
            try ManifestStore(files: files).write(entry.fileName, [bytes])
            return entry
        }
    }

    private func open(
        _ entry: NamesRunEntry, _ files: SimulatedFileSystem
    ) throws -> NamesRunReader<SimulatedFileSystem> {
        try NamesRunReader(entry, directory: TestLog.directory, in: files)
    }

    @Test(
        "every name, ordinal, key and reward is found, with and without a cache",
        arguments: [(0, 0), (1, 1), (600, 40), (3_000, 2_500)])
    func lookUps(nameCount: Int, keyCount: Int) throws {
        let files = SimulatedFileSystem(seed: 1)
        let content = Content(nameCount: nameCount, keyCount: keyCount)
        let run = try open(content.write(to: files), files)
        let shared = NamesPageCache()
        for (place, name) in content.names.enumerated() {
            let cache = place % 3 == 0 ? nil : shared
            let ordinal = NameOrdinal(rawValue: content.firstName + UInt32(place))
            #expect(try run.name(ordinal, cache: cache) == (name.isEmpty ? nil : name))
            let found = try run.ordinal(of: name, cache: cache)
            #expect(found == (name.isEmpty ? nil : ordinal))
        }
        for (place, key) in content.keys.enumerated() {
            let ordinal = KeyOrdinal(rawValue: content.firstKey + UInt32(place))
            #expect(try run.key(ordinal, cache: shared) == key)
        }
        let rewards = Dictionary(grouping: content.keys.indices) {
            content.keys[$0]?.reward.rawValue ?? 0
        }
        for reward in 0...UInt32(keyCount / 3 + 2) {
            let expected = reward == 0 ? [] : (rewards[reward] ?? [])
            #expect(
                try run.keys(ofReward: NameOrdinal(rawValue: reward), cache: shared)
                    == expected.map { KeyOrdinal(rawValue: content.firstKey + UInt32($0)) })
        }
    }

    @Test("what is not in the run is not found")
    func absent() throws {
        let files = SimulatedFileSystem(seed: 1)
        let run = try open(Content(nameCount: 2_000, keyCount: 30).write(to: files), files)
        for name in [
            "", "1", "reward", "reward-00", "~", "reward-7919 ", "reward-7918", "reward-79190",
        ] {
            let bytes = Array(name.utf8)
            #expect(try run.ordinal(of: bytes) == nil)
        }
        #expect(try run.name(NameOrdinal(rawValue: 39)) == nil)
        #expect(try run.name(NameOrdinal(rawValue: 2_040)) == nil)
        #expect(try run.key(KeyOrdinal(rawValue: 6)) == nil)
        #expect(try run.key(KeyOrdinal(rawValue: 37)) == nil)
    }

    @Test("one name under several ordinals, over several pages, is found as the first of them")
    func repeated() throws {
        let files = SimulatedFileSystem(seed: 1)
        var content = Content(nameCount: 0, keyCount: 0)
        content.names = (0..<700).map { Array((300..<600 ~= $0 ? "m" : "a\($0)").utf8) }
        content.names += (0..<700).map { Array("z\($0)".utf8) }
        let run = try open(content.write(to: files), files)
        for (place, name) in content.names.enumerated() where !(301..<600 ~= place) {
            let ordinal = NameOrdinal(rawValue: content.firstName + UInt32(place))
            #expect(try run.ordinal(of: name) == ordinal)
        }
    }

    @Test("the cursors give all names in the order of their bytes, and keys in theirs")
    func orders() throws {
        let files = SimulatedFileSystem(seed: 1)
        let content = Content(nameCount: 2_500, keyCount: 2_200)
        let run = try open(content.write(to: files), files)
        var cursor = run.makeNameCursor()
        let batch = NameBatch()
        var found: [(name: [UInt8], ordinal: UInt32)] = []
        while try cursor.nextNames(into: batch) {
            for place in 0..<batch.count {
                found.append((batch.name(place), batch.ordinal(place).rawValue))
            }
        }
        let expected = content.names.enumerated().sorted { a, b in
            a.element == b.element
                ? a.offset < b.offset : a.element.lexicographicallyPrecedes(b.element)
        }
        #expect(found.map(\.name) == expected.map(\.element))
        #expect(found.map(\.ordinal) == expected.map { content.firstName + UInt32($0.offset) })

        for range in [7..<7, 7..<8, 1_000..<1_040, 7..<2_207] as [Range<UInt32>] {
            var pairs: [RewardKey] = []
            try run.readKeys(range, to: &pairs)
            let lost = RewardKey(reward: .none, business: .none)
            #expect(pairs == range.map { content.keys[Int($0 - 7)] ?? lost })
        }
    }

    @Test(
        "runs and fresh names that are merged are as if they had been written at once",
        arguments: [[0], [900], [10, 2_500, 1_100], [1, 0, 3, 700, 5], [1_024, 1_024, 1_024]])
    func merged(counts: [Int]) throws {
        let files = SimulatedFileSystem(seed: 1)
        var manifest = TestLog.manifest()
        manifest.generation = Generation(rawValue: 3)
        manifest.createdAt = 5
        var whole = Content(nameCount: 0, keyCount: 0)
        var runs: [NamesRunReader<SimulatedFileSystem>] = []
        var fresh: FreshNames?
        for (place, count) in counts.enumerated() {
            var part = Content(nameCount: count, keyCount: count / 2, seed: UInt64(place + 1))
            part.firstName = whole.firstName + UInt32(whole.names.count)
            part.firstKey = whole.firstKey + UInt32(whole.keys.count)
            whole.names += part.names
            whole.keys += part.keys
            if place + 1 < counts.count {
                runs.append(
                    try open(part.write(to: files, FileNumber(rawValue: UInt64(place + 1))), files))
            } else {
                fresh = part.fresh
            }
        }
        let expected = try whole.write(to: files)
        let bytes = try files.open(expected.fileName.text, .read).readAll(byteCountMax: 1 << 20)
        let merged = try NamesRunWriter.write(
            Self.number, merging: runs, and: try #require(fresh), for: manifest, in: files)
        #expect(merged == expected)
        let found = try files.open(merged.fileName.text, .read).readAll(byteCountMax: 1 << 20)
        #expect(found == bytes)
    }

    @Test("a run that the manifest does not mean is refused")
    func another() throws {
        let files = SimulatedFileSystem(seed: 1)
        let entry = try Content(nameCount: 3, keyCount: 1).write(to: files)
        for alter: (inout NamesRunEntry) -> Void in [
            { $0.checksum ^= 1 }, { $0.byteCount += 1 }, { $0.names = 40..<44 },
        ] {
            var other = entry
            alter(&other)
            #expect(throws: StorageError.self) { try open(other, files) }
        }
        #expect(throws: StorageError.self) {
            try NamesRunReader(entry, directory: DirectoryID(rawValue: 1), in: files)
        }
    }

    @Test("whatever bit is flipped, answers are right or an error, and something notices")
    func flips() throws {
        let files = SimulatedFileSystem(seed: 1)
        let content = Content(nameCount: 40, keyCount: 30)
        let entry = try content.write(to: files)
        let file = try files.open(entry.fileName.text, .readWrite)
        for place in 0..<Int(entry.byteCount) {
            let byte = try file.readArray(at: UInt64(place), byteCount: 1)[0]
            try file.write([byte ^ 1 << UInt8(place % 8)], at: UInt64(place))
            #expect(try errorCount(entry, content, files) > 0, "byte \(place)")
            try file.write([byte], at: UInt64(place))
        }
        #expect(try errorCount(entry, content, files) == 0)
    }

    /// How many of all questions are answered by an error; the others are answered right.
    private func errorCount(
        _ entry: NamesRunEntry, _ content: Content, _ files: SimulatedFileSystem
    ) throws -> Int {
        var count = 0
        func ask<Answer: Equatable>(_ expected: Answer, _ body: () throws -> Answer) {
            do {
                let found = try body()
                if found != expected { Issue.record("\(found), expected \(expected)") }
            } catch { count += 1 }
        }
        guard let run = try? open(entry, files) else { return 1 }
        for (place, name) in content.names.enumerated() {
            let ordinal = NameOrdinal(rawValue: content.firstName + UInt32(place))
            ask(name.isEmpty ? nil : name) { try run.name(ordinal) }
            ask(name.isEmpty ? nil : ordinal) {
                try run.ordinal(of: name)
            }
        }
        for (place, key) in content.keys.enumerated() {
            let ordinal = KeyOrdinal(rawValue: content.firstKey + UInt32(place))
            ask(key) { try run.key(ordinal) }
            if let key {
                ask(true) { try run.keys(ofReward: key.reward).contains(ordinal) }
            }
        }
        return count
    }
}
