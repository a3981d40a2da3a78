import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

/// The open-addressing table against a dictionary.
struct GrowingTableTests {
    private struct Entry: TableEntry {
        let spread: UInt64
        var value: UInt64
        static var belongsToLine: Bool { false }
        var isFree: Bool { spread == 0 }
    }

    /// Few places that all entries belong at, the last ones among them: long walks, and such round the end.
    private static func spread(_ number: UInt64) -> UInt64 {
        (number % 61 &* 0x0433_0000_0000_0000) &+ (number % 7 &<< 56) &+ number &+ 1
    }

    @Test(
        "Entries are found until they are taken out, also round the end and while it grows",
        arguments: [1, 2, 3])
    func model(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = GrowingTable<Entry>()
        var model: [UInt64: UInt64] = [:]
        var (removedCount, growingCount) = (0, 0)
        for step in 0..<30_000 {
            let spread = Self.spread(random.next() % 9_000)
            if table.isGrowing { growingCount += 1 }
            if step % 3_000 > 2_500 {
                table.goOnGrowing()
                guard !table.isGrowing else { continue }
                let value = model.removeValue(forKey: spread)
                table.remove(spread) { $0.pointee.spread == spread }
                #expect(table.find(spread) { $0.pointee.spread == spread } == nil)
                if value != nil { removedCount += 1 }
            } else if let value = model[spread] {
                #expect(table.find(spread) { $0.pointee.spread == spread }?.pointee.value == value)
            } else {
                #expect(table.find(spread) { $0.pointee.spread == spread } == nil)
                let value = random.next()
                _ = table.insert(Entry(spread: spread, value: value))
                model[spread] = value
            }
            #expect(table.count == model.count)
        }
        #expect(removedCount > 1_000 && growingCount > 100 && table.capacity > 1 << 12)
        for (spread, value) in model {
            #expect(table.find(spread) { $0.pointee.spread == spread }?.pointee.value == value)
        }
    }

    @Test("A table has room for as many entries as were expected, and does not grow for these")
    func expected() {
        let sparseCountMax = 1 << 14
        for count in [1, 2_048, 8_191, 8_192, 8_193, 9_000, 10_922, 10_923, 20_000] {
            var table = GrowingTable<Entry>(
                expectedCount: count, sparseCountMax: sparseCountMax)
            let byteCount = table.byteCount
            for number in 0..<UInt64(count) {
                _ = table.insert(Entry(spread: SplitMix.finish(number + 1), value: number))
            }
            #expect(table.byteCount == byteCount && !table.isGrowing, "\(count)")
            #expect(byteCount <= max(4_096, 2 * count + 64) * 16, "\(count)")
        }
    }
}

/// The same of a table whose entries belong to lines, that of the index of sessions.
struct LineTableTests {
    /// Few lines that all belong to, the first and the last one among them, and the tag that free places have.
    private static func tag(_ number: UInt32) -> UInt32 {
        (number % 13 == 12 ? UInt32.max - 9_000 : number % 13 &* 0x1357_0000) &+ number / 13
    }

    @Test(
        "A line at a time what is there is found, and nothing else, also tag 0", arguments: [1, 2])
    func model(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = GrowingTable<SessionSlot>()
        var model: [UInt32: UInt32] = [:]
        var (removedCount, growingCount, longestCount) = (0, 0, 0)
        func expect(_ tag: UInt32) {
            let spread = SessionSlot.spread(tag)
            let found = table.find(spread) { $0.pointee.tag == tag }
            #expect(found?.pointee.nodeEnd == model[tag], "\(tag)")
            if table.isGrowing { return }
            let inLines = table.current.findInLines(spread) { SessionSlot.scan($0, for: tag) }
            #expect(inLines == found, "\(tag)")
        }
        expect(0)
        for step in 0..<20_000 {
            let tag = Self.tag(UInt32(random.next() % 6_000))
            if table.isGrowing { growingCount += 1 }
            if step % 3_000 > 2_000 {
                table.goOnGrowing()
                guard !table.isGrowing else { continue }
                if model.removeValue(forKey: tag) != nil { removedCount += 1 }
                table.remove(SessionSlot.spread(tag)) { $0.pointee.tag == tag }
            } else if model[tag] == nil {
                let end = 1 + UInt32(random.next() % 1_000)
                _ = table.insert(SessionSlot(tag: tag, nodeEnd: end))
                model[tag] = end
            }
            longestCount = max(longestCount, model.count)
            for tag in [tag, 0, Self.tag(UInt32(random.next() % 6_000))] { expect(tag) }
        }
        #expect(removedCount > 1_000 && growingCount > 100 && longestCount > 3_000)
        for tag in model.keys { expect(tag) }
    }
}

/// A batch of lines to be loaded.
struct LineBatchTests {
    @Test("A batch takes any number of lines, and is empty once they are loaded")
    func lines() {
        let capacity = LineBatch.capacity
        let table = [UInt64](repeating: 7, count: 8 * 100)
        var batch = LineBatch()
        unsafe table.withUnsafeBytes { bytes in
            for (count, left) in [
                (0, 0), (1, 1), (capacity, capacity), (capacity + 1, 1), (3 * capacity, capacity),
            ] {
                for index in 0..<count {
                    // SAFETY: the line is one of the table's.
                    unsafe batch.add(CacheLine(bytes.baseAddress! + index % 100 * 64))
                }
                #expect(batch.count == left)
                unsafe batch.load()
                #expect(batch.count == 0)
            }
        }
    }
}
