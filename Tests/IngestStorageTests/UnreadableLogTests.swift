import IngestStorage
import TestSupport
import Testing

@testable import IngestFormat

/// Sectors of the log that cannot be read, in this life and in all that follow.
@Suite struct UnreadableLogTests {
    private static let pageByteCount = 4096

    /// Unsealed segments, of which blocks lie across pages.
    private func written(_ script: LogScript) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced, seals: false)
        return files.disk.kill()
    }

    @Test func `any page costs the blocks that lie in it, whatever life it is`() throws {
        let script = LogScript(blockCounts: [14, 9], rowCount: 40)
        let base = try written(script)
        for index in script.segments.indices {
            let byteCount = script.offset(
                segment: index, block: script.segments[index].count)
            // The first page is that of the header, of which nothing is lost: the next block says the same.
            for page in 1...(byteCount - 1) / Self.pageByteCount {
                let bytes = page * Self.pageByteCount..<(page + 1) * Self.pageByteCount
                let isLost = script.segments[index].indices.map { block in
                    let start = script.offset(segment: index, block: block)
                    return (start..<start + script.segments[index][block].bytes.count)
                        .overlaps(bytes)
                }
                let files = base.disk.kill()
                files.disk.makeUnreadable(script.name(index), bytes)
                let expected =
                    script.segments.enumerated().flatMap { number, blocks in
                        blocks.indices.filter { number != index || !isLost[$0] }
                            .map { blocks[$0].summary }
                    }
                let first = try recover(files)
                #expect(first.blocks == expected, "segment \(index) page \(page)")
                let lost = first.lost.reduce(0) { $0 + Int($1.blockCount) }
                #expect(lost == isLost.count { $0 }, "segment \(index) page \(page)")
                let name = script.name(index)
                #expect(
                    first.messages.contains {
                        $0.contains("Input/output error (5)")
                            && $0.contains("\(name) at byte ")
                    }, "\(first.messages)")
                #expect(first.messages.contains { $0.contains(" rows lost in blocks ") })
                // What could be had of them is kept.
                let aside = try files.subdirectory("aside", create: false).names()
                #expect(!aside.isEmpty && !aside.contains { $0.hasSuffix(".tmp") })
                let second = try recover(files.disk.kill())
                #expect(second.lost == first.lost && second.blocks == expected)
            }
        }
    }

    @Test func `a page behind the last block that nothing marks is cut, and said to be unreadable`()
        throws
    {
        let script = LogScript(blockCounts: [6], rowCount: 40)
        let base = try written(script)
        let end = script.offset(segment: 0, block: 6)
        let page = (end + Self.pageByteCount - 1) / Self.pageByteCount * Self.pageByteCount
        base.disk.damage(script.name(0)) { $0 += [UInt8](repeating: 0, count: 20_000) }
        base.disk.makeUnreadable(script.name(0), page..<page + 1)
        let report = try recover(base)
        #expect(report.lost == [] && report.blocks == script.blocks.map(\.summary))
        #expect(report.messages.contains { $0.contains("not all of it can be read") })
    }

    @Test func `a mark that cannot be read is made again`() throws {
        let script = LogScript(blockCounts: [3])
        let files = try written(script)
        files.disk.makeUnreadable("durable-mark", 0..<8)
        let directory = TestLog.manifest().directory
        #expect(try DurableMarkFile.read(in: files, directory: directory) == nil)
        let report = try recover(files)
        #expect(report.lost == [] && report.blocks == script.blocks.map(\.summary))
        _ = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        #expect(try DurableMarkFile.read(in: files, directory: directory) == .start)
        // And one with something behind it.
        files.disk.damage("durable-mark") { $0.append(0) }
        _ = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        #expect(files.disk.contents("durable-mark")?.count == DurableMark.byteCount)
    }

    @Test func `what is copied aside has the bytes around the page that cannot be read`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("some")
        let bytes = (0..<12_000).map { UInt8(truncatingIfNeeded: $0) }
        try file.write(bytes, at: 0)
        files.disk.makeUnreadable("some", 5_000..<5_001)
        let aside = try AsideDirectory(of: files)
        for _ in 0..<2 {
            #expect(try aside.copy(100..<12_000, of: file, as: "part") == "aside/part")
        }
        var expected = bytes
        for place in 4096..<8192 { expected[place] = .max }
        #expect(files.disk.contents("aside/part") == Array(expected[100...]))
        #expect(
            throws: StorageError.corrupt(
                path: "/sim/some", offset: 4096, detail: "cannot be read: Input/output error (5)")
        ) { try file.readArray(at: 0, byteCount: 12_000) }
    }
}
