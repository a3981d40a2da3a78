// packet → decode → ring → [admit] → block → segment → [compaction] → [snapshot] → [query]
import Glibc
import IngestFormat
import IngestPipeline
import IngestStorage

/// Writes names runs, merges them, asks them, and fills the daemon's dictionary, and prints what a name costs: what
/// docs/format/names.md and the types themselves say it costs is from here.
func namesBenchmark() {
    for count in [100_000, 1_000_000] { NamesMeasurement(count: count).report() }
    DictionaryMeasurement(count: 10_000_000).report()
}

/// Names such as `reward-0001234567`, each with a key, in an order that has nothing to do with that of the bytes.
private struct NamesMeasurement {
    let count: Int
    private let manifest = Manifest(
        directory: DirectoryID(rawValue: 1), createdAt: 0, hashAlgorithm: KeyedHash.algorithm,
        hashKey: [UInt8](repeating: 7, count: KeyedHash.keyByteCount))

    init(count: Int) { self.count = count }

    func report() {
        print("names: \(count) with a key each")
        let path = "/tmp/ingest-bench-names-\(getpid())"
        do {
            let files = try LinuxFileSystem(path: path, create: true)
            defer {
                for name in (try? files.names()) ?? [] { try? files.unlink(name) }
                _ = unsafe rmdir(path)
            }
            try measure(in: files)
        } catch {
            print("  failed: \(error)")
        }
    }

    private func measure(in files: LinuxFileSystem) throws(StorageError) {
        var fresh = (whole: fresh(0..<count), half: fresh(0..<count / 2))
        show("sort", count) { fresh.whole.sort() }
        fresh.half.sort()
        var entry: NamesRunEntry?
        try show("write and read back", count) { () throws(StorageError) in
            entry = try write(1, [], fresh.whole, files)
        }
        guard let entry else { return }
        let bytes = Double(entry.byteCount) / Double(count)
        print("  \(padded("on disk")) \(fixed(bytes, 1)) bytes/name")
        let first = try NamesRunReader(try write(2, [], fresh.half, files), in: files)
        var second = self.fresh(count / 2..<count)
        second.sort()
        var rest = self.fresh(count..<count)
        rest.sort()
        let halves = [first, try NamesRunReader(try writeSecond(second, files), in: files)]
        try show("merge of two, write and read back", count) { () throws(StorageError) in
            _ = try write(4, halves, rest, files)
        }
        var run: NamesRunReader<LinuxFileSystem>?
        try show("open", 1) { () throws(StorageError) in
            run = try NamesRunReader(entry, in: files)
        }
        if let run { try ask(run) }
    }

    private func ask(_ run: NamesRunReader<LinuxFileSystem>) throws(StorageError) {
        let places = (0..<20_000).map { UInt32($0 &* 7_919 % count) }
        let names = places.map { Self.name(Int($0)) }
        try show("ordinal of a name", places.count) { () throws(StorageError) in
            for (place, name) in names.enumerated() {
                let found = try run.ordinal(of: name)
                precondition(found?.rawValue == places[place] + 1)
            }
        }
        try show("ordinal of a name that is not there", places.count) {
            () throws(StorageError) in
            for name in names {
                let found = try run.ordinal(of: name + [33])
                precondition(found == nil)
            }
        }
        try show("name of an ordinal", places.count) { () throws(StorageError) in
            for place in places { _ = try run.name(NameOrdinal(rawValue: place + 1)) }
        }
        try show("key of an ordinal", places.count) { () throws(StorageError) in
            for place in places { _ = try run.key(KeyOrdinal(rawValue: place)) }
        }
        try show("keys of a reward", places.count) { () throws(StorageError) in
            for place in places { _ = try run.keys(ofReward: NameOrdinal(rawValue: place + 1)) }
        }
        try show("all names in order", count) { () throws(StorageError) in
            var cursor = run.makeNameCursor()
            let batch = NameBatch()
            while try cursor.nextNames(into: batch) {}
        }
        try show("all keys", count) { () throws(StorageError) in
            var keys: [RewardKey] = []
            try run.readKeys(run.keys, to: &keys)
        }
    }

    private func write(
        _ number: UInt64, _ runs: [NamesRunReader<LinuxFileSystem>], _ fresh: FreshNames,
        _ files: LinuxFileSystem
    ) throws(StorageError) -> NamesRunEntry {
        try NamesRunWriter.write(
            FileNumber(rawValue: number), merging: runs, and: fresh, for: manifest, in: files)
    }

    private func writeSecond(
        _ fresh: FreshNames, _ files: LinuxFileSystem
    ) throws(StorageError) -> NamesRunEntry { try write(3, [], fresh, files) }

    private func fresh(_ range: Range<Int>) -> FreshNames {
        var fresh = FreshNames(
            firstName: NameOrdinal(rawValue: UInt32(range.lowerBound + 1)),
            firstKey: KeyOrdinal(rawValue: UInt32(range.lowerBound)))
        for place in range {
            fresh.append(name: Self.name(place)[...])
            fresh.append(
                key: RewardKey(
                    reward: NameOrdinal(rawValue: UInt32(place + 1)),
                    business: NameOrdinal(rawValue: UInt32(1 + place % 997))))
        }
        return fresh
    }

    /// Of 17 bytes.
    private static func name(_ place: Int) -> [UInt8] {
        let digits = "\((place &* 48_271 &+ 11) % 2_147_483_647)".utf8
        return Array("reward-".utf8) + repeatElement(48, count: 10 - digits.count) + digits
    }
}

/// The daemon's dictionary while it grows, and full.
private struct DictionaryMeasurement {
    let count: Int

    init(count: Int) { self.count = count }

    func report() {
        print("dictionary: \(count) rewards with a key each")
        var dictionary = NameDictionary()
        var longest: UInt64 = 0
        let business = NameOrdinal(rawValue: 1)
        let start = namesNanoseconds()
        for place in 0..<count {
            let before = place % 16 == 0 ? namesNanoseconds() : 0
            let slot = insert(place, into: &dictionary)
            precondition(dictionary.insertKey(reward: slot, business: business) != nil)
            if before > 0 { longest = max(longest, namesNanoseconds() - before) }
        }
        show("insert of a name and its key", namesNanoseconds() - start, count)
        print("  \(padded("longest of them")) \(fixed(Double(longest) / 1e6, 2)) ms")
        let bytes = Double(dictionary.tableByteCount)
        print("  \(padded("table")) \(fixed(bytes / Double(count), 1)) bytes/name")
        var random = SeededRandom(seed: 5)
        let places = (0..<1 << 20).map { _ in Int(random.next() % UInt64(count)) }
        let lookUp = namesNanoseconds()
        for place in places { precondition(find(place, in: dictionary)) }
        show("find at random", namesNanoseconds() - lookUp, places.count)
        let absent = namesNanoseconds()
        for place in places { precondition(!find(count + place, in: dictionary)) }
        show("find of what is not there", namesNanoseconds() - absent, places.count)
        let ahead = namesNanoseconds()
        for index in places.indices {
            if index + 16 < places.count {
                dictionary.prefetch(hash: SeededRandom.mix(UInt64(places[index + 16])))
            }
            precondition(find(places[index], in: dictionary))
        }
        show("find with prefetch", namesNanoseconds() - ahead, places.count)
    }

    private func insert(_ place: Int, into dictionary: inout NameDictionary) -> NameSlot {
        var name = (place, place)
        // SAFETY: 16 bytes of a local value, inside the closure.
        return unsafe withUnsafeBytes(of: &name) {
            unsafe dictionary.insert(
                hash: SeededRandom.mix(UInt64(place)), bytes: $0.baseAddress!, byteCount: 16)!
        }
    }

    private func find(_ place: Int, in dictionary: borrowing NameDictionary) -> Bool {
        var name = (place, place)
        // SAFETY: as above.
        return unsafe withUnsafeBytes(of: &name) {
            unsafe dictionary.slot(
                hash: SeededRandom.mix(UInt64(place)), bytes: $0.baseAddress!, byteCount: 16)
                != nil
        }
    }
}

/// Of this thread's processor time.
private func namesNanoseconds() -> UInt64 {
    var now = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}

private func show<Failure: Error>(
    _ what: String, _ count: Int, _ body: () throws(Failure) -> Void
) throws(Failure) {
    let start = namesNanoseconds()
    try body()
    show(what, namesNanoseconds() - start, count)
}

private func show(_ what: String, _ nanoseconds: UInt64, _ count: Int) {
    print("  \(padded(what)) \(fixed(Double(nanoseconds) / Double(count), 1)) ns")
}

private func padded(_ text: String) -> String {
    text + String(repeating: " ", count: max(0, 36 - text.count))
}
