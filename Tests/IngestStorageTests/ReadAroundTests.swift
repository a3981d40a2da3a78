import Glibc
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Reads around what the disk cannot read: how much of the rest comes, and how often it is tried, since each attempt can take
/// a real disk seconds.
@Suite("Reading around bad regions")
struct ReadAroundTests {
    private static let pageByteCount = 4096
    private static let pageCount = 2048

    /// A file of which each page holds its number.
    private func filled(bad: [Range<Int>]) throws -> (
        files: SimulatedFileSystem, file: SimulatedFile
    ) {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("f")
        var bytes: [UInt8] = []
        for page in 0..<Self.pageCount {
            bytes += [UInt8](repeating: UInt8(page % 251), count: Self.pageByteCount)
        }
        try file.write(bytes, at: 0)
        for pages in bad {
            files.disk.makeUnreadable(
                "f", pages.lowerBound * Self.pageByteCount..<pages.upperBound * Self.pageByteCount)
        }
        return (files, try files.open("f", .read))
    }

    private static func isUniform(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { memcmp($0.baseAddress!, $0.baseAddress! + 1, $0.count - 1) == 0 }
    }

    /// The pages that come as 255, where the file is read in windows of so many pages.
    private func lost(
        _ file: SimulatedFile, windowPageCount: Int
    ) throws -> Set<Int> {
        var lost: Set<Int> = []
        let buffer = ReadBuffer()
        for start in stride(from: 0, to: Self.pageCount, by: windowPageCount) {
            try buffer.readAround(
                file, at: UInt64(start * Self.pageByteCount),
                byteCount: windowPageCount * Self.pageByteCount)
            #expect(
                buffer.byteCount == min(windowPageCount, Self.pageCount - start)
                    * Self.pageByteCount)
            for page in 0..<buffer.byteCount / Self.pageByteCount {
                let bytes = buffer.array(
                    page * Self.pageByteCount..<(page + 1) * Self.pageByteCount)
                #expect(Self.isUniform(bytes))
                if bytes[0] == 255 {
                    lost.insert(start + page)
                } else {
                    #expect(bytes[0] == UInt8((start + page) % 251))
                }
            }
        }
        return lost
    }

    @Test("a region of any size costs a stated number of reads that fail, and no page beside it")
    func region() throws {
        for pages in [
            100..<101, 100..<115, 100..<117, 1000..<1900, 3..<2048, 0..<2048, 2000..<2048,
        ] {
            for windowPageCount in [1, 100, 2048] {
                let (files, file) = try filled(bad: [pages])
                let what = "\(pages) by \(windowPageCount)"
                #expect(
                    try lost(file, windowPageCount: windowPageCount) == Set(pages), "\(what)")
                // A read of several pages fails first, and then each of them.
                let more = windowPageCount > 1 ? 2 : 0
                let most = more + (pages.count < 16 ? 2 * pages.count : 2 * (16 + 2 * 11))
                #expect(files.disk.failedReadCount <= most, "\(what)")
                // Whoever looks again tries nothing again.
                let count = files.disk.failedReadCount
                _ = try lost(file, windowPageCount: 16)
                #expect(files.disk.failedReadCount == count, "\(what)")
            }
        }
    }

    @Test(
        "a page that can be read by itself is not lost where a read of several fails at its beginning"
    )
    func failsEarly() throws {
        let (files, file) = try filled(bad: [120..<122])
        files.disk.failReadsAtBeginning()
        for windowPageCount in [1, 7, 100, 2048] {
            let lost = try lost(file, windowPageCount: windowPageCount)
            #expect(lost == [120, 121], "by \(windowPageCount)")
        }
    }

    @Test("bad pages with good ones between them cost themselves alone")
    func scattered() throws {
        let bad = stride(from: 5, to: 600, by: 2).map { $0..<$0 + 1 } + [700..<715, 716..<731]
        let (_, file) = try filled(bad: bad)
        #expect(try lost(file, windowPageCount: 256) == Set(bad.flatMap { Array($0) }))
    }

    @Test("an open file remembers, one opened later tries again")
    func opened() throws {
        let (files, file) = try filled(bad: [10..<400])
        _ = try lost(file, windowPageCount: 256)
        try files.open("f", .readWrite).write(
            [UInt8](repeating: 1, count: 400 * Self.pageByteCount), at: 0)
        let buffer = ReadBuffer()
        try buffer.readAround(
            try files.open("f", .read), at: 0, byteCount: 400 * Self.pageByteCount)
        #expect(buffer.hole == nil && buffer.array(0..<buffer.byteCount).allSatisfy { $0 == 1 })
    }
}
