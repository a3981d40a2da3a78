import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

@Suite("The dictionary of names")
struct NameDictionaryTests {
    /// Looks a name up and inserts it where it is new, as admission does.
    static func ordinal(
        _ name: String, hash: UInt64, in dictionary: inout NameDictionary
    ) -> NameOrdinal? {
        let bytes = Array(name.utf8)
        return bytes.withUnsafeBytes { buffer in
            let base = buffer.baseAddress!
            if let slot = unsafe dictionary.slot(hash: hash, bytes: base, byteCount: bytes.count) {
                return dictionary.ordinal(of: slot)
            }
            return unsafe dictionary.insert(hash: hash, bytes: base, byteCount: bytes.count)
                .map { dictionary.ordinal(of: $0) }
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

    @Test("a name takes 13 bytes and its own, in chunks that are never moved")
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
            expected += (13 + byteCount + 3) & ~3
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

    @Test("a pair has one key, whichever business a reward was last seen with")
    func keys() throws {
        var dictionary = NameDictionary()
        var model: [RewardKey: KeyOrdinal] = [:]
        var generator = SeededRandom(seed: 11)
        for _ in 0..<30_000 {
            let reward = "r\(generator.next() % 600)"
            let business = "b\(generator.next() % 9)"
            let businessFound = Self.ordinal(business, hash: hash(business), in: &dictionary)
            let rewardFound = Self.ordinal(reward, hash: hash(reward), in: &dictionary)
            let businessOrdinal = try #require(businessFound)
            let rewardOrdinal = try #require(rewardFound)
            let bytes = Array(reward.utf8)
            let found = unsafe bytes.withUnsafeBytes {
                unsafe dictionary.slot(
                    hash: hash(reward), bytes: $0.baseAddress!, byteCount: bytes.count)
            }
            let slot = try #require(found)
            let pair = RewardKey(reward: rewardOrdinal, business: businessOrdinal)
            if let key = dictionary.key(reward: slot, business: businessOrdinal) {
                #expect(model[pair] == key)
            } else {
                #expect(model[pair] == nil)
                let given = dictionary.insertKey(reward: slot, business: businessOrdinal)
                let key = try #require(given)
                #expect(key.rawValue == UInt32(model.count))
                model[pair] = key
            }
        }
        #expect(dictionary.nextKey == UInt32(model.count))
    }

    /// A multiplication alone would put these into an eighth-thousandth of the table, and a look-up through all of them.
    @Test("pairs that were chosen to collide are spread over the whole table")
    func chosenPairs() {
        var pairs: [(UInt32, UInt32)] = []
        for reward in 1...20_000 as ClosedRange<UInt32> {
            for business in 1...400 as ClosedRange<UInt32> {
                let pair = UInt64(reward) << 32 | UInt64(business)
                if (pair &* 0x9E37_79B9_7F4A_7C15) >> 51 == 0 { pairs.append((reward, business)) }
            }
        }
        #expect(pairs.count > 500)
        var counts = [Int](repeating: 0, count: 64)
        for (reward, business) in pairs {
            counts[Int(KeyTable.spread(reward, business) >> 58)] += 1
        }
        #expect(counts.max()! < pairs.count / 16)
    }

    @Test("ordinals that were given once are not given again after a load")
    func reserved() {
        var dictionary = NameDictionary()
        let bytes = Array("kept".utf8)
        let isRestored = unsafe bytes.withUnsafeBytes {
            unsafe dictionary.restore(
                NameOrdinal(rawValue: 5), hash: 1, bytes: $0.baseAddress!, byteCount: bytes.count)
                != nil
        }
        #expect(isRestored)
        dictionary.reserve(nextName: 9, nextKey: 4)
        let kept = Self.ordinal("kept", hash: 1, in: &dictionary)?.rawValue
        #expect(kept == 5)
        let new = Self.ordinal("new", hash: 2, in: &dictionary)?.rawValue
        #expect(new == 9)
        #expect(dictionary.nextKey == 4)
    }

    @Test("while the table grows, names and keys are found in the old memory and in the new")
    func growing() throws {
        var dictionary = NameDictionary(doublingCountMax: 1 << 16)
        var generator = SeededRandom(seed: 3)
        var hashes: [UInt64] = []
        var growths: Set<Int> = []
        // Past the doublings: from 65,536 places on the table grows by a quarter.
        for index in 0..<150_000 {
            // Now and then one that belongs at the very end, so that some lie round it.
            let hash = index % 50 == 0 ? ~(generator.next() >> 18) : generator.next()
            hashes.append(hash)
            _ = Self.ordinal("n\(index)", hash: hash, in: &dictionary)
            growths.insert(dictionary.tableByteCount)
            let new = Self.slot("n\(index)", hash: hash, in: dictionary)
            let business = NameOrdinal(rawValue: 7)
            _ = dictionary.insertKey(reward: try #require(new), business: business)
            let old = Int(generator.next() % UInt64(index + 1))
            let seen = Self.slot("n\(old)", hash: hashes[old], in: dictionary)
            let slot = try #require(seen)
            let ordinal = dictionary.ordinal(of: slot).rawValue
            try #require(ordinal == UInt32(old + 1))
            let key = dictionary.key(reward: slot, business: business)?.rawValue
            try #require(key == UInt32(old))
            let other = dictionary.key(reward: slot, business: NameOrdinal(rawValue: 8))
            try #require(other == nil)
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
        // 60 to 75 % full, or both tables while it grows.
        #expect(byteCount <= 150_000 * 8 * 10 / 3)
    }

    private static func slot(
        _ name: String, hash: UInt64, in dictionary: borrowing NameDictionary
    ) -> NameSlot? {
        let bytes = Array(name.utf8)
        return bytes.withUnsafeBytes { buffer in
            unsafe dictionary.slot(
                hash: hash, bytes: buffer.baseAddress!, byteCount: bytes.count)
        }
    }

    private func hash(_ text: String) -> UInt64 {
        text.utf8.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
    }
}
