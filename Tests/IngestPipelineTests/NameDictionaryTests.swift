import TestSupport
import Testing

@testable import IngestFormat
@testable import IngestPipeline

@Suite("The dictionary of names")
struct NameDictionaryTests {
    /// Looks a name up and inserts it where it is new, as admission does.
    static func ordinal(
        _ name: String, hash: UInt64, in dictionary: inout NameDictionary
    ) -> NameOrdinal? {
        let bytes = Array(name.utf8)
        return bytes.withUnsafeBytes { buffer in
            if let slot = unsafe dictionary.slot(hash: hash, buffer) {
                return dictionary.ordinal(of: slot)
            }
            return unsafe dictionary.insert(hash: hash, buffer).map { dictionary.ordinal(of: $0) }
        }
    }

    @Test("ordinals are given from 1 in order of first sight, and stay through growth")
    func ordinalsStay() {
        var dictionary = NameDictionary()
        var generator = SeededRandom(seed: 7)
        var hashes: [UInt64] = []
        for index in 0..<20_000 {
            hashes.append(generator.next())
            // Lengths on both sides of what fits an entry.
            let name = String(repeating: "n", count: index % 90) + "\(index)"
            let found = Self.ordinal(name, hash: hashes[index], in: &dictionary)?.rawValue
            #expect(found == UInt32(index + 1))
        }
        for index in 0..<20_000 {
            let name = String(repeating: "n", count: index % 90) + "\(index)"
            let found = Self.ordinal(name, hash: hashes[index], in: &dictionary)?.rawValue
            #expect(found == UInt32(index + 1))
        }
        #expect(dictionary.nextName == 20_001)
    }

    @Test("growing ends also where no name is added, and every name is found on the way")
    func growingEnds() {
        var dictionary = NameDictionary()
        var generator = SeededRandom(seed: 8)
        var hashes: [UInt64] = []
        while !dictionary.isGrowing {
            hashes.append(generator.next())
            _ = Self.ordinal("\(hashes.count)", hash: hashes[hashes.count - 1], in: &dictionary)
        }
        #expect(hashes.count > 1_000)
        var stepCount = 0
        while dictionary.isGrowing, stepCount < 100 {
            dictionary.goOnGrowing()
            stepCount += 1
            for (index, hash) in hashes.enumerated() {
                let found = Self.ordinal("\(index + 1)", hash: hash, in: &dictionary)?.rawValue
                #expect(found == UInt32(index + 1))
            }
        }
        #expect(!dictionary.isGrowing && stepCount > 1)
        #expect(dictionary.nextName == UInt32(hashes.count + 1))
    }

    @Test("a name takes 9 bytes and its own, in chunks that are never moved")
    func records() throws {
        var records = NameRecords()
        let bytes = (0..<128).map { UInt8($0) }
        var places: [(place: UInt32, byteCount: Int)] = []
        for ordinal in 1...200_000 as ClosedRange<UInt32> {
            let byteCount = 1 + Int(ordinal &* 7 % 128)
            let place = unsafe bytes.withUnsafeBytes {
                unsafe records.append(
                    NameRecord(ordinal: ordinal, byteCount: UInt8(byteCount)),
                    $0.baseAddress! + (128 - byteCount), byteCount)
            }
            places.append((place, byteCount))
        }
        var expected = 0
        for (index, (place, byteCount)) in places.enumerated() {
            expected += (9 + byteCount + 3) & ~3
            let record = unsafe records.chunks.pointer(at: place)
            try #require(unsafe record.pointee.ordinal == UInt32(index + 1))
            try #require(unsafe Int(record.pointee.byteCount) == byteCount)
            let name = unsafe UnsafeRawBufferPointer(
                start: UnsafeRawPointer(record) + NameRecord.nameOffset, count: byteCount)
            try #require(unsafe name.elementsEqual(bytes.suffix(byteCount)))
        }
        #expect(Set(places.map(\.place)).count == places.count)
        #expect(
            records.byteCount >= expected
                && records.byteCount < expected + expected / 100 + (4 << 20))
    }

    @Test("names of equal hash are told apart, short and long", arguments: [1, 39, 40, 41, 128])
    func equalHashes(byteCount: Int) {
        var dictionary = NameDictionary()
        let names = (0..<50).map { index in
            let tail = "\(Character(UnicodeScalar(UInt8(65 + index))))"
            return String(repeating: "x", count: byteCount - 1) + tail
        }
        for (index, name) in names.enumerated() {
            let found = Self.ordinal(name, hash: 42, in: &dictionary)?.rawValue
            #expect(found == UInt32(index + 1))
        }
        for (index, name) in names.enumerated() {
            let found = Self.ordinal(name, hash: 42, in: &dictionary)?.rawValue
            #expect(found == UInt32(index + 1))
        }
    }

    /// The keys of rows, looked up together.
    private static func keys(
        of rows: [PacketRow], in dictionary: inout NameDictionary
    ) -> [KeyOrdinal?] {
        var keyEnds = [UInt32](repeating: .max, count: rows.count)
        let areKnown = dictionary.findKeyEnds(of: rows, rows.count, into: &keyEnds)
        #expect(areKnown == !keyEnds.contains(0))
        return keyEnds.map { $0 == 0 ? nil : KeyOrdinal(rawValue: $0 - 1) }
    }

    @Test("a pair has one key, and a key the names of its pair, through growth")
    func keys() throws {
        var dictionary = NameDictionary(sparseCountMax: 1 << 14)
        var model: [RewardKey: KeyOrdinal] = [:]
        var generator = SeededRandom(seed: 11)
        var sizes: Set<Int> = []
        var (rows, place) = ([PacketRow](repeating: PacketRow(EventDescriptor()), count: 11), 0)
        for _ in 0..<100_000 {
            let names = RewardKey(
                reward: NameOrdinal(rawValue: 1 + UInt32(generator.next() % 9_000)),
                business: NameOrdinal(rawValue: 1 + UInt32(generator.next() % 9)))
            let pair = Self.pair(names)
            if let key = dictionary.key(of: pair) {
                try #require(model[names] == key)
            } else {
                try #require(model[names] == nil)
                let given = dictionary.insertKey(pair, of: names)
                let key = try #require(given)
                try #require(key.rawValue == UInt32(model.count))
                model[names] = key
            }
            sizes.insert(dictionary.pairTableByteCount)
            rows[place].pairHash = pair.low
            rows[place].pairTag = pair.tag
            place = (place + 1) % rows.count
            // Also while the table grows, before what was moved is found in one place only.
            try #require(
                Self.keys(of: rows, in: &dictionary) == rows.map { dictionary.key(of: $0.pair) })
            dictionary.goOnGrowing()
        }
        #expect(sizes.count > 10)
        for (names, key) in model {
            let (found, namesFound) = (
                dictionary.key(of: Self.pair(names)), dictionary.names(of: key)
            )
            try #require(found == key && namesFound == names)
        }
        #expect(dictionary.nextKey == UInt32(model.count))
        // Past 16,384 places three quarters are filled.
        #expect(model.count > 1 << 15 && model.count < 98_304)
        #expect(dictionary.pairTableByteCount == (1 << 17) * 16)
    }

    @Test("pairs whose hashes differ in their last 32 bits, or belong to one line, are told apart")
    func equalHalves() throws {
        var dictionary = NameDictionary()
        let names = RewardKey(
            reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 2))
        let pairs =
            (0..<100).map { PairHash(low: .max, tag: $0) }
            + (0..<100).map { PairHash(low: .max - 1 - UInt64($0), tag: 0) }
        for (index, pair) in pairs.enumerated() {
            let isNew = dictionary.key(of: pair) == nil
            try #require(isNew)
            let given = dictionary.insertKey(pair, of: names)
            let key = try #require(given)
            try #require(key.rawValue == UInt32(index))
        }
        for (index, pair) in pairs.enumerated() {
            let key = dictionary.key(of: pair)?.rawValue
            try #require(key == UInt32(index))
        }
    }

    @Test("a key that was lost has no names, and those after it keep theirs")
    func lostKeys() throws {
        var dictionary = NameDictionary()
        let names = RewardKey(
            reward: NameOrdinal(rawValue: 3), business: NameOrdinal(rawValue: 2))
        let isRestored = dictionary.restoreKey(
            KeyOrdinal(rawValue: 5), Self.pair(names), of: names)
        #expect(isRestored && dictionary.nextKey == 6)
        let none = RewardKey(reward: .none, business: .none)
        for key in 0..<8 as Range<UInt32> {
            let found = dictionary.names(of: KeyOrdinal(rawValue: key))
            #expect(found == (key == 5 ? names : none))
        }
    }

    private static func pair(_ names: RewardKey) -> PairHash {
        let bits = UInt64(names.reward.rawValue) << 32 | UInt64(names.business.rawValue)
        return PairHash(
            low: SplitMix.finish(bits), tag: UInt32(truncatingIfNeeded: SplitMix.finish(~bits)))
    }

    @Test("ordinals that were given once are not given again after a load")
    func reserved() {
        var dictionary = NameDictionary()
        let bytes = Array("kept".utf8)
        let isRestored = unsafe bytes.withUnsafeBytes {
            unsafe dictionary.restore(NameOrdinal(rawValue: 5), hash: 1, $0) != nil
        }
        #expect(isRestored)
        dictionary.reserve(nextName: 9, nextKey: 4)
        let kept = Self.ordinal("kept", hash: 1, in: &dictionary)?.rawValue
        #expect(kept == 5)
        let new = Self.ordinal("new", hash: 2, in: &dictionary)?.rawValue
        #expect(new == 9)
        #expect(dictionary.nextKey == 4)
    }

    @Test("while the table grows, names are found in the old memory and in the new")
    func growing() throws {
        var dictionary = NameDictionary(sparseCountMax: 1 << 16)
        var generator = SeededRandom(seed: 3)
        var hashes: [UInt64] = []
        var growths: Set<Int> = []
        // Past 65,536 places, from where on the table is filled to three quarters.
        for index in 0..<150_000 {
            // Now and then one that belongs at the very end, so that some lie round it.
            let hash = index % 50 == 0 ? ~(generator.next() >> 18) : generator.next()
            hashes.append(hash)
            _ = Self.ordinal("n\(index)", hash: hash, in: &dictionary)
            growths.insert(dictionary.tableByteCount)
            let old = Int(generator.next() % UInt64(index + 1))
            let seen = Self.slot("n\(old)", hash: hashes[old], in: dictionary)
            let slot = try #require(seen)
            let ordinal = dictionary.ordinal(of: slot).rawValue
            try #require(ordinal == UInt32(old + 1))
            let unknown = Self.slot("n\(index + 1)", hash: hash &+ 1, in: dictionary)
            try #require(unknown == nil)
        }
        #expect(growths.count > 10)
        for index in 0..<150_000 {
            let seen = Self.slot("n\(index)", hash: hashes[index], in: dictionary)
            let ordinal = dictionary.ordinal(of: try #require(seen)).rawValue
            try #require(ordinal == UInt32(index + 1))
        }
        let byteCount = dictionary.tableByteCount
        // Half full they would be twice as many.
        #expect(byteCount == (1 << 18) * 8)
    }

    private static func slot(
        _ name: String, hash: UInt64, in dictionary: borrowing NameDictionary
    ) -> NameSlot? {
        let bytes = Array(name.utf8)
        return bytes.withUnsafeBytes { unsafe dictionary.slot(hash: hash, $0) }
    }
}
