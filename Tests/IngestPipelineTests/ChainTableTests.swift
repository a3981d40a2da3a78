import TestSupport
import Testing

@testable import IngestPipeline

/// The table of sessions' entries against a dictionary.
struct ChainTableTests {
    private struct Entry: ChainEntry {
        let identity: UInt64
        var link: UInt32 = 0
        var value: UInt64
    }

    @Test("Entries are found where they were put until they are taken out", arguments: [1, 2, 3])
    func model(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = ChainTable<Entry>()
        var model: [UInt64: (number: UInt32, value: UInt64)] = [:]
        for step in 0..<60_000 {
            // It grows, shrinks and grows again.
            let grows = step / 20_000 != 1
            let identity = random.next() % 20_000
            if let known = model[identity] {
                #expect(table.find(identity) == known.number)
                #expect(table.entry(known.number).pointee.value == known.value)
                if !grows || random.next() % 4 == 0 {
                    table.remove(known.number)
                    model[identity] = nil
                }
            } else {
                #expect(table.find(identity) == 0)
                if grows || random.next() % 4 == 0 {
                    let number = table.insert(Entry(identity: identity, value: random.next()))
                    model[identity] = (number, table.entry(number).pointee.value)
                }
            }
            #expect(table.count == model.count)
        }
        for (identity, known) in model { #expect(table.find(identity) == known.number) }
        #expect(Set(model.values.map(\.number)).count == model.count)
    }
}
