import Glibc
import IngestStorage
import TestSupport
import Testing

/// The simulated disk really loses what its fault model says it may, and never what was synced.
@Suite struct SimulatedFaultTests {
    private let seeds: Range<UInt64> = 0..<200

    @Test func `what was synced survives every power cut`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let bytes = pattern(4_096)
        let file = try files.create("a")
        try file.write(bytes, at: 0)
        try file.syncData()
        try files.syncDirectory()
        for seed in seeds {
            #expect(try files.disk.powerCut(seed: seed).open("a", .read).contents() == bytes)
        }
    }

    @Test func `writes not synced are lost, kept and torn at 512 bytes`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("a")
        try files.syncDirectory()
        let bytes = pattern(2_048)
        try file.write(bytes, at: 0)
        var outcomes: Set<[Bool]> = []
        for seed in seeds {
            let left = files.disk.powerCut(seed: seed).disk.contents("a") ?? []
            let whole = left + [UInt8](repeating: 0, count: 2_048 - left.count)
            outcomes.insert(
                try (0..<4).map { sector in
                    let range = sector * 512..<(sector + 1) * 512
                    let isKept = whole[range] == bytes[range]
                    try #require(isKept || whole[range].allSatisfy { $0 == 0 })
                    return isKept
                })
        }
        #expect(outcomes.contains([true, true, true, true]))
        #expect(outcomes.contains([false, false, false, false]))
        #expect(outcomes.contains { $0.last == true && $0.contains(false) }, "a later sector alone")
        #expect(outcomes.count > 8)
    }

    @Test func `a file whose name was not synced is gone in some cuts`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("a")
        try file.write([1], at: 0)
        try file.sync()
        let present = try seeds.map { try files.disk.powerCut(seed: $0).names().contains("a") }
        #expect(Set(present) == [true, false])
    }

    @Test func `a rename not synced is undone or done, never half`() throws {
        let files = SimulatedFileSystem(seed: 1)
        for (name, byte) in [("new", UInt8(2)), ("old", UInt8(1))] {
            let file = try files.create(name)
            try file.write([byte], at: 0)
            try file.sync()
        }
        try files.syncDirectory()
        try files.rename("new", to: "old")
        var outcomes: Set<[String]> = []
        for seed in seeds {
            let left = files.disk.powerCut(seed: seed)
            let names = try left.names()
            outcomes.insert(names)
            #expect(try left.open("old", .read).contents() == (names.count == 2 ? [1] : [2]))
        }
        #expect(outcomes == [["new", "old"], ["old"]])
    }

    @Test func `changes of different names survive in any subset, those of one name in order`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        _ = try files.create("a")
        _ = try files.create("b")
        try files.rename("a", to: "c")
        try files.unlink("c")
        let outcomes = Set(try seeds.map { try files.disk.powerCut(seed: $0).names() })
        #expect(outcomes == [[], ["a"], ["b"], ["c"], ["a", "b"], ["b", "c"]])
    }

    @Test(arguments: [false, true])
    func `a move lives in one of the two directories, after both syncs in the new one`(
        _ isSynced: Bool
    ) throws {
        let files = SimulatedFileSystem(seed: 1)
        let aside = try files.subdirectory("aside", create: true)
        _ = try files.create("a")
        try files.syncDirectory()
        try files.move("a", to: "b", in: aside)
        try aside.syncDirectory()
        if isSynced { try files.syncDirectory() }
        var outcomes: Set<[String]> = []
        for seed in seeds {
            let left = files.disk.powerCut(seed: seed)
            let moved = try left.subdirectory("aside", create: false).names()
            outcomes.insert(try left.names() + moved)
        }
        #expect(outcomes == (isSynced ? [["aside", "b"]] : [["aside", "b"], ["a", "aside"]]))
    }

    @Test func `a kill loses nothing but the lock`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let lock = try files.lock("LOCK")
        try files.create("a").write([1], at: 0)
        let next = files.disk.kill()
        #expect(try next.open("a", .read).contents() == [1])
        _ = try next.lock("LOCK")
        #expect(throws: StorageError.self) { try lock.byteCount() }
    }

    @Test func `from the crash point on every call fails and nothing happens`() throws {
        let files = SimulatedFileSystem(seed: 1)
        files.disk.crash(beforeOperation: 2)
        let file = try files.create("a")
        try file.write([1], at: 0)
        #expect(throws: StorageError.self) { try file.write([2], at: 0) }
        #expect(throws: StorageError.self) { try file.syncData() }
        #expect(throws: StorageError.self) { try files.names() }
        #expect(files.disk.isDown)
        #expect(files.disk.contents("a") == [1])
    }

    @Test
    func `a failed sync loses bytes that a reader still sees, and the next sync says nothing`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let file = try files.create("a")
        try files.syncDirectory()
        files.disk.fail(.syncData, onCall: 1)
        let bytes = pattern(8_192)
        try file.write(bytes, at: 0)
        guard case .durabilityLost(_, _, EIO)? = error(of: { try file.syncData() }) else {
            Issue.record("no durabilityLost")
            return
        }
        try file.syncData()
        #expect(try file.contents() == bytes)
        #expect(try files.disk.kill().open("a", .read).contents() == bytes)
        #expect(try files.disk.powerCut(seed: 1).open("a", .read).contents() != bytes)
    }

    @Test func `a full disk takes a part, then nothing, until there is room again`() throws {
        let files = SimulatedFileSystem(seed: 1)
        files.disk.limit(byteCount: 1_000)
        let file = try files.create("a")
        guard
            case .diskFull(_, _, ENOSPC, _)? = error(of: { try file.write(pattern(1_500), at: 0) })
        else {
            Issue.record("no diskFull")
            return
        }
        #expect(try file.byteCount() == 1_000)
        #expect(try files.space().freeByteCount == 0)
        #expect(throws: StorageError.self) { try file.allocate(to: 1_001) }
        try file.write(pattern(1_000), at: 0)
        files.disk.limit(byteCount: 1_500)
        try file.write(pattern(1_500), at: 0)
        #expect(try file.contents() == pattern(1_500))
    }

    @Test func `the n-th call of a kind fails, once or for ever`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("a")
        files.disk.fail(.write, onCall: 2)
        try file.write([1], at: 0)
        guard case .io(_, _, EIO)? = error(of: { try file.write([2], at: 0) }) else {
            Issue.record("the second write went through")
            return
        }
        try file.write([3], at: 0)
        files.disk.fail(.write, onCall: 1, errno: EROFS, forever: true)
        for _ in 0..<3 { #expect(throws: StorageError.self) { try file.write([4], at: 0) } }
        files.disk.clearFailures()
        #expect(try file.contents() == [3])
    }

    @Test func `short writes are finished by the seam`() throws {
        let files = SimulatedFileSystem(seed: 1)
        files.disk.shortenWrites(oneIn: 2)
        let file = try files.create("a")
        let bytes = pattern(10_000)
        for part in 0..<10 {
            try file.write(
                Array(bytes[part * 1_000..<(part + 1) * 1_000]), at: UInt64(part * 1_000))
        }
        #expect(try file.contents() == bytes)
        #expect(files.disk.callCount(.write) > 10)
    }

    @Test func `two runs from one seed are the same`() throws {
        func run() throws -> [[UInt8]] {
            let files = SimulatedFileSystem(seed: 7)
            files.disk.shortenWrites(oneIn: 3)
            for index in 0..<10 {
                let file = try files.create("\(index)")
                try file.write(pattern(3_000), at: 100)
            }
            let left = files.disk.powerCut(seed: 9)
            return try left.names().map { try left.open($0, .read).contents() }
        }
        #expect(try run() == run())
    }
}
