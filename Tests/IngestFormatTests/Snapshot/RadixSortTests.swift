import TestSupport
import Testing

@testable import IngestFormat

struct RadixSortTests {
    private struct Item: Equatable {
        let number: UInt64
        let place: Int
    }

    private func sorted(_ numbers: [UInt64]) -> [Item] {
        var items = numbers.enumerated().map { Item(number: $1, place: $0) }
        // More room than is needed, as for a part of many.
        var scratch = items + items
        unsafe items.withUnsafeMutableBufferPointer { items in
            unsafe scratch.withUnsafeMutableBufferPointer { scratch in
                unsafe RadixSort.sort(items, scratch) { $0.number }
            }
        }
        return items
    }

    /// Few and many items; numbers that differ in all bytes, in some, in none.
    @Test(
        arguments: [0, 1, 2, 63, 64, 65, 1_000, 20_000],
        [UInt64.max, 0xFF, 0xFF00_0000_00FF_0000, 3, 0, 0xFFFF_FFFF_0000_0000])
    func `items are in order, and those of equal numbers as they were`(
        count: Int, mask: UInt64
    ) {
        var random = SeededRandom(seed: UInt64(count) ^ mask)
        let numbers = (0..<count).map { _ in random.next() & mask }
        let expected = numbers.enumerated().map { Item(number: $1, place: $0) }.sorted {
            ($0.number, $0.place) < ($1.number, $1.place)
        }
        #expect(sorted(numbers) == expected)
        #expect(sorted(expected.map(\.number)).map(\.place) == Array(0..<count))
    }

    @Test(arguments: [100, 5_000]) func `names that begin alike are in the order of their bytes`(
        count: Int
    ) {
        var random = SeededRandom(seed: 4)
        let names = (0..<count).map { _ -> [UInt8] in
            let alike = [0, 3, 8, 9, 16, 40][Int(random.next() % 6)]
            let rest = (0..<Int(random.next() % 20)).map { _ in UInt8(random.next() % 3) }
            return [UInt8](repeating: 120, count: alike) + rest
        }
        var (bytes, ends): ([UInt8], [UInt32]) = ([], [])
        for name in names {
            bytes += name
            ends.append(UInt32(bytes.count))
        }
        let expected = names.indices.sorted { a, b in
            names[a] == names[b] ? a < b : names[a].lexicographicallyPrecedes(names[b])
        }
        #expect(NameSort.order(bytes: bytes, ends: ends) == expected.map { UInt32($0) })
    }

    @Test func `memory that grows keeps what it holds, in small pages and in large`() {
        var memory = LineMemory<UInt64>()
        var count = 0
        // Past two mebibytes it is mapped, and moved as it is.
        for larger in [1, 5_000, 100_000, 300_000, 1_000_000, 3_000_000] {
            memory.reserve(larger, keeping: count)
            #expect(memory.capacity >= larger)
            for place in count..<larger {
                unsafe (memory.base + place).initialize(to: UInt64(place) &* 0x9E37)
            }
            count = larger
            let isKept = (0..<count).allSatisfy {
                unsafe memory.base[$0] == UInt64($0) &* 0x9E37
            }
            #expect(isKept)
        }
    }

    @Test func `a copy of new names has no room for more, and leaves the block its own`() {
        var names = NewNames()
        for place in 0..<1_000 { names.append(Array("name-\(place)".utf8).span.bytes) }
        let copy = names.copy()
        #expect(copy == names)
        #expect(copy.bytes.capacity < names.bytes.count + 64)
        names.removeAll()
        #expect(copy.count == 1_000 && names.bytes.capacity >= copy.bytes.count)
    }
}
