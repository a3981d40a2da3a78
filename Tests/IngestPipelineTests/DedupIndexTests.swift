import IngestStorage
import TestSupport
import Testing

@testable import IngestPipeline

/// The index of repeats against a dictionary of what was claimed when.
@Suite struct DedupIndexTests {
    private static let second: Int64 = 1_000_000

    /// A small table that grows a dozen times, with keys that were never dropped: exact answers.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func answersAsADictionaryDoesWhileItGrows(seed: UInt64) {
        var index = DedupIndex(
            keyCountMax: 1 << 20, windowMicroseconds: 1_000 * Self.second, leastBitCount: 4)
        var model: [UInt64: UInt16] = [:]
        var random = SeededRandom(seed: seed)
        for step in 0..<60_000 {
            if step % 500 == 0 { index.open(admissionTime: Int64(step)) }
            if step % 700 == 0 { index.goOn() }
            let hash = step % 4 == 3 ? model.keys.first! : spread(random.next(upperBound: 40_000))
            let check = UInt16(truncatingIfNeeded: hash ^ (random.next(upperBound: 2)))
            #expect(index.claim(hash, check: check) == Self.answer(model[hash], check))
            if model[hash] == nil { model[hash] = check }
        }
        #expect(index.keyCount == model.count)
        #expect(index.completeSinceMicroseconds == .min)
        for (hash, check) in model {
            #expect(index.claim(hash, check: check) == .duplicate)
        }
    }

    private static func answer(_ known: UInt16?, _ check: UInt16) -> DedupIndex.Answer {
        known.map { $0 == check ? .duplicate : .conflict } ?? .first
    }

    private func spread(_ value: UInt64) -> UInt64 {
        var generator = SeededRandom(seed: value)
        return generator.next()
    }

    /// 36 bits of a hash are known beside those of the smallest group, also once there are more lines.
    @Test func tellsHashesApartThatDifferInTheirLastKnownBit() {
        var index = DedupIndex(
            keyCountMax: 1 << 16, windowMicroseconds: 1_000 * Self.second, leastBitCount: 4)
        index.open(admissionTime: 0)
        let lastKnownBit: UInt64 = 1 << (4 - 3 + 35)
        let hashes = (0..<5_000).map { spread(UInt64($0)) }
        for hash in hashes { #expect(index.claim(hash, check: 1) == .first) }
        for hash in hashes { #expect(index.claim(hash ^ lastKnownBit, check: 1) == .first) }
        for hash in hashes {
            #expect(index.claim(hash ^ lastKnownBit << 1, check: 1) == .duplicate)
        }
    }

    /// Ids that all belong to the last line go on behind it; with no room in eight lines the oldest goes.
    @Test func keepsSixtyFourKeysOfOneLineAndDropsTheOldestForMore() {
        var index = DedupIndex(
            keyCountMax: 96, windowMicroseconds: 1_000 * Self.second, leastBitCount: 4)
        let hashes = (0..<66).map { 15 | UInt64($0) << 5 }
        for (place, hash) in hashes.prefix(64).enumerated() {
            index.open(admissionTime: Int64(place) + 100)
            #expect(index.claim(hash, check: 7) == .first)
        }
        for hash in hashes.prefix(64) { #expect(index.claim(hash, check: 7) == .duplicate) }
        #expect(index.completeSinceMicroseconds == .min)
        #expect(index.claim(hashes[64], check: 7) == .first)
        #expect(index.keyCount == 64)
        #expect(index.completeSinceMicroseconds == 100)
        #expect(index.claim(hashes[0], check: 7) == .first)
        #expect(index.claim(hashes[63], check: 7) == .duplicate)
    }

    @Test func forgetsAfterTheWindowAndSaysSo() {
        let window = 128 * Self.second
        var index = DedupIndex(
            keyCountMax: 1 << 16, windowMicroseconds: window, leastBitCount: 4)
        let hashes = (0..<1_000).map { spread(UInt64($0)) }
        for (second, hash) in hashes.enumerated() {
            let now = Int64(second) * Self.second
            index.open(admissionTime: now)
            #expect(index.claim(hash, check: 1) == .first)
            #expect(index.completeSinceMicroseconds < max(1, now - window))
            // What was claimed inside the window is caught, what is older by a slice and more is not.
            if second >= 128 { #expect(index.claim(hashes[second - 128], check: 1) == .duplicate) }
            #expect(index.keyCount <= 131)
        }
        index.open(admissionTime: 2_000 * Self.second)
        #expect(index.keyCount <= 1)
        #expect(index.claim(hashes[900], check: 1) == .first)
    }

    /// The 256th generation gets the byte of the first one, whose slots must be gone by then.
    @Test func aByteThatIsGivenAgainRevivesNothing() {
        var index = DedupIndex(
            keyCountMax: 1 << 16, windowMicroseconds: 128 * Self.second, leastBitCount: 10)
        let old = (0..<600).map { spread(UInt64($0)) }
        index.open(admissionTime: 0)
        for hash in old { #expect(index.claim(hash, check: 1) == .first) }
        for second in 1...254 { index.open(admissionTime: Int64(second) * Self.second) }
        index.open(admissionTime: 255 * Self.second)
        for hash in old { #expect(index.claim(hash, check: 2) == .first) }
    }

    /// 11 bytes for each of the keys that there may be by default; never more than an eighth above three quarters full.
    @Test(arguments: [1 << 26, 100_000_000, 1_000_000, 12_345, 768, 48])
    func hasAsManyLinesAsItsKeysNeed(keyCountMax: Int) {
        let least = (keyCountMax + 5) / 6
        let shape = DedupShape(lineCount: least, leastBitCount: 1)
        #expect(shape.lineCountMax >= max(16, least))
        #expect(shape.lineCountMax <= max(16, least + least / 8 + 1))
        #expect((8...15).contains(shape.groupCount))
        if keyCountMax == 1 << 26 { #expect(shape.lineCountMax * 64 <= 11 * keyCountMax) }
    }

    @Test func keepsAtMostTheKeysThatItMay() {
        var index = DedupIndex(
            keyCountMax: 6_400, windowMicroseconds: 1_000 * Self.second, leastBitCount: 6)
        for block in 0..<400 {
            index.open(admissionTime: Int64(block))
            #expect(index.keyCount <= 6_400)
            for i in 0..<100 {
                #expect(index.claim(spread(UInt64(block * 100 + i)), check: 1) == .first)
            }
        }
        // All that was claimed after `completeSince` is there.
        #expect(index.completeSinceMicroseconds < 400 - 60)
        for block in (Int(index.completeSinceMicroseconds) + 1)..<400 {
            for i in 0..<100 {
                #expect(index.claim(spread(UInt64(block * 100 + i)), check: 1) == .duplicate)
            }
        }
    }

    @Test func sweepsAsItClaimsAndNeverAllAtOnce() {
        // A generation a block, 128 of them in the window: a byte rests for as many claims as there are keys.
        var index = DedupIndex(
            keyCountMax: 6_400, windowMicroseconds: 128, leastBitCount: 6)
        for block in 0..<1_300 {
            index.open(admissionTime: Int64(block))
            for i in 0..<49 { _ = index.claim(spread(UInt64(block * 49 + i)), check: 1) }
        }
        #expect(index.keyCount > 6_000)
        #expect(index.wholeSweepCount == 0)
    }

    /// A full table that grows, forgets and is swept, against what was claimed when: what is inside the window and newer
    /// than `completeSince` is known exactly, and of the rest nothing is taken for something else.
    @Test(arguments: 1...9 as ClosedRange<UInt64>)
    func answersAsADictionaryDoesWhileItForgets(seed: UInt64) {
        let window: Int64 = 1_280
        var random = SeededRandom(seed: seed)
        let keyCountMax = [300, 700, 1_500][Int(seed % 3)]
        var index = DedupIndex(
            keyCountMax: keyCountMax, windowMicroseconds: window, leastBitCount: 4)
        if seed % 2 == 0 { index.reserve(keyCount: keyCountMax / 2) }
        // From the seventh on all belong to an eighth of the lines, which are full: keys move on, or the oldest end.
        let homes: UInt64 = seed > 6 ? ~0b10_1010 : .max
        var model: [UInt64: (time: Int64, check: UInt16)] = [:]
        var ids: [UInt64] = []
        var now: Int64 = 0
        var (firstCount, repeatCount) = (0, 0)
        for _ in 0..<3_000 {
            now += Int64(random.next(upperBound: UInt64(12)))
            index.open(admissionTime: now)
            for _ in 0..<random.next(upperBound: UInt64(30)) {
                let isOld = !ids.isEmpty && random.next(upperBound: UInt64(2)) == 0
                let back = Int(random.next(upperBound: UInt64(min(ids.count, 3_000)) + 1))
                let hash =
                    isOld ? ids[max(0, ids.count - 1 - back)] : spread(random.next()) & homes
                let check =
                    UInt16(truncatingIfNeeded: hash) ^ UInt16(random.next(upperBound: UInt64(2)))
                let known = model[hash]
                let found = index.find(hash, check: check)
                let answer = index.claim(hash, check: check)
                #expect(found == answer)
                if let known, answer != .first {
                    #expect(answer == Self.answer(known.check, check))
                    #expect(now - known.time <= window + window / 64)
                    repeatCount += 1
                } else {
                    let isKept =
                        known.map {
                            $0.time > index.completeSinceMicroseconds && now - $0.time <= window
                        } ?? false
                    #expect(answer == .first && !isKept)
                    model[hash] = (now, check)
                    ids.append(hash)
                    firstCount += 1
                }
            }
            #expect(index.keyCount <= keyCountMax + 30)
            if random.next(upperBound: UInt64(3)) == 0 { index.goOn() }
        }
        #expect(firstCount > 10_000 && repeatCount > 1_000)
    }

    @Test func hasAtOnceTheLinesThatItWouldHaveGrownTo() {
        for count in [100, 1_000, 4_100, 6_000, 9_000, 16_000] {
            var grown = DedupIndex(keyCountMax: 1 << 14, windowMicroseconds: 1, leastBitCount: 6)
            var reserved = DedupIndex(
                keyCountMax: 1 << 14, windowMicroseconds: 1, leastBitCount: 6)
            reserved.reserve(keyCount: count)
            let byteCount = reserved.byteCount
            grown.open(admissionTime: 0)
            reserved.open(admissionTime: 0)
            for i in 0..<count {
                #expect(grown.claim(spread(UInt64(i)), check: 1) == .first)
                #expect(reserved.claim(spread(UInt64(i)), check: 1) == .first)
            }
            #expect(grown.byteCount == reserved.byteCount)
            // Of the shape, not of a power of two.
            #expect(grown.byteCount < 13 * (1 << 14))
            // Nothing was added while they came, but what the last one asked for.
            #expect(reserved.byteCount - byteCount <= 8 * 64)
            for i in 0..<count {
                #expect(reserved.claim(spread(UInt64(i)), check: 1) == .duplicate)
            }
        }
    }

    /// What the log says was counted twice was forgotten in between: it holds as long as the second time says.
    @Test func aClaimThatIsLoadedAgainIsAsOldAsTheLast() {
        let window = 1_000 * Self.second
        var index = DedupIndex(
            keyCountMax: 1_000, windowMicroseconds: window, leastBitCount: 4)
        index.open(admissionTime: 0)
        index.load(7, check: 1)
        index.load(8, check: 1)
        index.open(admissionTime: 690 * Self.second)
        index.load(7, check: 2)
        #expect(index.keyCount == 2)
        index.open(admissionTime: 1_020 * Self.second)
        #expect(index.keyCount == 1)
        #expect(index.find(7, check: 2) == .duplicate && index.find(7, check: 1) == .conflict)
        #expect(index.find(8, check: 1) == .first)
        index.open(admissionTime: 3_000 * Self.second)
        #expect(index.keyCount == 0 && index.find(7, check: 2) == .first)
    }
}
