import Glibc
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// The room that is held back on the disk.
@Suite struct DiskReserveTests {
    private typealias Reserve = DiskReserve<SimulatedFileSystem>
    private let segment: UInt64 = 8 << 20

    private func free(_ files: SimulatedFileSystem) throws -> UInt64 {
        try files.space().freeByteCount
    }

    @Test func `it is half as much again as the segment, and grows with it`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let reserve = try Reserve(in: files)
        #expect(try files.names() == [], "it makes nothing before it is asked to")
        let floor = 2 * UInt64(Limits.reserveFloorByteCount)
        for (asked, segment) in [(1 << 20, 1 << 20), (4 << 20, 4 << 20), (2 << 20, 4 << 20)] {
            try reserve.hold(forSegmentOf: UInt64(asked))
            #expect(reserve.byteCount == UInt64(segment) / 2 * 3 + floor)
            #expect(
                try files.open("reserve", .read).byteCount() == reserve.byteCount, "\(asked)")
        }
        #expect(try Reserve(in: files).byteCount == reserve.byteCount)
    }

    @Test func `what is lent is free until it is given back, and the log has to wait for it`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        let reserve = try Reserve(in: files)
        try reserve.hold(forSegmentOf: segment)
        let before = try free(files)
        #expect(reserve.lend())
        #expect(try free(files) == before + segment / 4 + UInt64(Limits.reserveFloorByteCount))
        #expect(!reserve.lend(), "there is nothing more to give")
        #expect(error(of: { try reserve.hold(forSegmentOf: 1) })?.shortage == .space)
        reserve.giveBack()
        try reserve.hold(forSegmentOf: 1)
        #expect(try free(files) == before)
    }

    @Test func `on a full disk it cannot be held, and can when there is room`() throws {
        let files = SimulatedFileSystem(seed: 1)
        files.disk.limit(byteCount: 1 << 20)
        let reserve = try Reserve(in: files)
        #expect(error(of: { try reserve.hold(forSegmentOf: segment) })?.shortage == .space)
        #expect(error(of: { try reserve.hold(forSegmentOf: segment) })?.shortage == .space)
        files.disk.limit(byteCount: 1 << 30)
        try reserve.hold(forSegmentOf: segment)
        #expect(reserve.byteCount == Reserve.byteCount(forSegmentOf: segment))
    }

    @Test func `what part of it could be had is known, and completed when there is room`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let reserve = try Reserve(in: files)
        try reserve.hold(forSegmentOf: 1 << 20)
        let before = reserve.byteCount
        files.disk.limit(byteCount: 3 << 20)
        #expect(error(of: { try reserve.hold(forSegmentOf: segment) })?.shortage == .space)
        let part = reserve.byteCount
        #expect(part > before && part < Reserve.byteCount(forSegmentOf: segment))
        #expect(try files.open("reserve", .read).byteCount() == part)
        // It is as much as the smaller segment needs, and the log of that goes on.
        try reserve.hold(forSegmentOf: 1 << 20)
        files.disk.limit(byteCount: 1 << 30)
        try reserve.hold(forSegmentOf: segment)
        #expect(reserve.byteCount == Reserve.byteCount(forSegmentOf: segment))
    }

    @Test func `a start can spend all of it, once`() throws {
        let files = SimulatedFileSystem(seed: 1)
        #expect(try !Reserve.spend(in: files))
        try Reserve(in: files).hold(forSegmentOf: segment)
        let before = try free(files)
        #expect(try Reserve.spend(in: files))
        #expect(try free(files) == before + Reserve.byteCount(forSegmentOf: segment))
        #expect(try !Reserve.spend(in: files))
    }
}
