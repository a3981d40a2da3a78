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
