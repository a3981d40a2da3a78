import CIngestLinux
import Glibc
import IngestFormat
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

@testable import IngestPipeline

/// The keys of the pseudonyms of sessions.
struct SessionKeysTests {
    private static let hour: Int64 = 3_600_000_000
    /// 12:00 UTC of a day.
    private static let noon: Int64 = 1_763_640_000_000_000
    private static let directory = DirectoryID(rawValue: 9)

    @Test("SipHash-2-4 is that of its authors")
    func vectors() {
        let bytes = (0..<15).map { UInt8($0) }
        let low: UInt64 = 0x0706_0504_0302_0100
        let high: UInt64 = 0x0f0e_0d0c_0b0a_0908
        func hash(_ byteCounts: [Int]) -> [UInt64] {
            bytes.withUnsafeBufferPointer { bytes in
                let texts = byteCounts.map {
                    ingest_text(bytes: bytes.baseAddress!, byteCount: $0)
                }
                var hashes = [UInt64](repeating: 0, count: texts.count)
                ingest_siphash(low, high, texts, texts.count, &hashes)
                return hashes
            }
        }
        let expected: [Int: UInt64] = [
            15: 0xa129_ca61_49be_45e5, 0: 0x726f_db47_dd0e_0e31, 8: 0x93f5_f579_9a93_2462,
        ]
        for (byteCount, expected) in expected {
            #expect(hash([byteCount]) == [expected])
            // Eight that follow each other are hashed together.
            #expect(
                hash(Array(repeating: byteCount, count: 19))
                    == Array(repeating: expected, count: 19))
        }
        #expect(hash([15, 8, 0]) == [15, 8, 0].map { expected[$0]! })
    }

    @Test("A text has the same hash alone and among others, whatever their lengths are")
    func together() {
        var random = SeededRandom(seed: 11)
        let bytes = (0..<4_096).map { _ in UInt8.random(in: 0...255, using: &random) }
        bytes.withUnsafeBufferPointer { bytes in
            for byteCount in 0...70 {
                // Some runs of eight, and some that one of another length breaks.
                let texts = (0..<40).map { index in
                    let other = index % 13 == 12 ? 5 : byteCount
                    let first = Int.random(in: 0..<4_000, using: &random)
                    return ingest_text(bytes: bytes.baseAddress! + first, byteCount: other)
                }
                var (together, alone) = (Array(repeating: 0 as UInt64, count: 40), [UInt64]())
                ingest_siphash(1, 2, texts, texts.count, &together)
                for text in texts {
                    var hash: UInt64 = 0
                    withUnsafePointer(to: text) { ingest_siphash(1, 2, $0, 1, &hash) }
                    alone.append(hash)
                }
                #expect(together == alone)
            }
        }
    }

    @Test("A key a day is made, and destroyed 48 hours later")
    func renewal() {
        var random = SeededRandom(seed: 3)
        var keys = SessionKeys(directory: Self.directory)
        #expect(keys.newest == nil)
        func renew(_ hours: Double) -> (changed: Bool, ages: [Int64]) {
            let now = Self.noon + Int64(hours * Double(Self.hour))
            let before = keys
            keys.renew(at: now, random: &random)
            return (
                keys != before,
                keys.keys.filter { $0.madeAt > 0 }.map { (now - $0.madeAt) / Self.hour }
            )
        }
        #expect(renew(0) == (true, [0]))
        #expect(renew(11.9) == (false, [11]))
        let first = keys.newest
        #expect(renew(12) == (true, [0, 12]))
        #expect(keys.newest != first && keys.keys[1] == first)
        #expect(renew(36) == (true, [0, 24, 36]))
        #expect(renew(47.9) == (false, [11, 35, 47]))
        #expect(renew(48) == (true, [12, 36]))
        #expect(!keys.keys.contains(first!))
        #expect(renew(60) == (true, [0, 24]))
        // Nobody looked for days; and a clock that goes back: what is from the future is destroyed.
        #expect(renew(600) == (true, [0]))
        #expect(renew(60) == (true, [0]))
    }

    @Test("What is written is what is read, of this directory alone")
    func image() throws {
        var random = SeededRandom(seed: 4)
        var keys = SessionKeys(directory: Self.directory)
        keys.renew(at: Self.noon, random: &random)
        keys.renew(at: Self.noon + 13 * Self.hour, random: &random)
        let bytes = keys.encode()
        #expect(bytes.count == 128)
        #expect(try SessionKeys.decode(bytes, directory: Self.directory) == keys)
        #expect(throws: FormatError.self) {
            try SessionKeys.decode(bytes, directory: DirectoryID(rawValue: 8))
        }
        for bit in 0..<bytes.count * 8 {
            var damaged = bytes
            damaged[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: FormatError.self) {
                try SessionKeys.decode(damaged, directory: Self.directory)
            }
        }
    }

    private static func open(
        _ files: SimulatedFileSystem, hours: Int64 = 0
    ) throws -> SessionKeyFile<SimulatedFileSystem> {
        let opened = SessionKeyFile.open(
            in: files, directory: directory, now: noon + hours * hour)
        #expect(opened.warning == nil)
        return try #require(opened.file)
    }

    @Test("The file is durable before a key is used, and new keys are written over the old ones")
    func file() throws {
        let files = SimulatedFileSystem(seed: 5)
        var opened = try Self.open(files)
        let first = try #require(opened.ring.current.newest)
        // A power cut keeps it.
        let left = files.disk.kill()
        opened = try Self.open(left, hours: 1)
        #expect(opened.ring.current.newest == first)
        let old = try left.open("session-keys", .read)
        // The same keys go on.
        #expect(opened.goOn(SimulatedClock(wallMicroseconds: Self.noon + Self.hour)) == nil)
        #expect(opened.ring.current.newest == first)
        let clock = SimulatedClock(
            wallMicroseconds: Self.noon + 12 * Self.hour, monotonicNanoseconds: 100_000_000_000)
        #expect(opened.goOn(clock) == nil)
        let ring = opened.ring.current
        #expect(ring.newest != first && ring.older == [first])
        let written = try old.readArray(at: 0, byteCount: 256)
        #expect(try SessionKeys.decode(written, directory: Self.directory).newest == ring.newest)
        #expect(try left.names() == ["session-keys"])
        // A step that events are not admitted by is none for keys.
        for days in [3, -6] as [Int64] {
            clock.jumpWall(milliseconds: Int(days) * 24 * 3_600_000)
            clock.advance(milliseconds: 60_000)
            let step = days > 0 ? days * 86_400 : -3 * 86_400
            #expect(opened.goOn(clock, stepSeconds: step) == nil)
            #expect(opened.ring.current.newest == ring.newest)
        }
        clock.jumpWall(milliseconds: 3 * 24 * 3_600_000)
        // Within a minute nothing is looked at.
        clock.jumpWall(milliseconds: 24 * 3_600_000)
        #expect(opened.goOn(clock) == nil && opened.ring.current.newest == ring.newest)
        clock.advance(milliseconds: 60_000)
        #expect(opened.goOn(clock) == nil && opened.ring.current.newest != ring.newest)
    }

    @Test("A file that cannot be read is made anew, and said")
    func damaged() throws {
        let files = SimulatedFileSystem(seed: 6)
        try files.create("session-keys").write([1, 2, 3], at: 0)
        let opened = SessionKeyFile.open(in: files, directory: Self.directory, now: Self.noon)
        #expect(opened.warning?.contains("sessions that were going on begin anew") == true)
        #expect(opened.file?.ring.current.newest != nil)
        let store = SessionKeyStore(files: files, directory: Self.directory)
        let keys = try #require(try store.read())
        // Also one that is whole, and longer than it should be.
        try files.open("session-keys", .readWrite).write([0], at: 128)
        #expect(throws: StorageError.self) { try store.read() }
        let again = SessionKeyFile.open(in: files, directory: Self.directory, now: Self.noon)
        #expect(again.warning?.contains("bytes behind the end") == true)
        #expect(again.warning?.contains("from a copy") == false)
        #expect(try files.open("session-keys", .read).byteCount() == 128)
        #expect(try store.read() != keys)
    }

    @Test("Keys of a later release are not replaced, also where no start has stopped for them")
    func newer() throws {
        let files = SimulatedFileSystem(seed: 9)
        _ = try Self.open(files)
        let file = try files.open("session-keys", .readWrite)
        var bytes = try file.readArray(at: 0, byteCount: 128)
        bytes[4] = 2
        // A later version may be longer.
        bytes = bytes.sealed(128) + [7]
        try file.write(bytes, at: 0)
        let opened = SessionKeyFile.open(in: files, directory: Self.directory, now: Self.noon)
        #expect(opened.file == nil && opened.warning?.contains("newer version") == true)
        #expect(try file.readArray(at: 0, byteCount: 256) == bytes)
    }

    @Test(
        "A key whose time is over and that the disk still has is destroyed as soon as that can be")
    func full() throws {
        let files = SimulatedFileSystem(seed: 7)
        var opened = try Self.open(files)
        let first = try #require(opened.ring.current.newest)
        let clock = SimulatedClock(
            wallMicroseconds: Self.noon + 36 * Self.hour, monotonicNanoseconds: 100_000_000_000)
        #expect(opened.goOn(clock) == nil && opened.ring.current.older == [first])
        // Nothing but its end is due.
        clock.jumpWall(milliseconds: 12 * 3_600_000)
        files.disk.fail(
            .write, ofFiles: "session-keys", onCall: 1, errno: ENOSPC, forever: true)
        for isFull in [true, true, false, false] {
            if !isFull { files.disk.clearFailures() }
            clock.advance(milliseconds: 60_000)
            #expect((opened.goOn(clock) != nil) == isFull)
            #expect(opened.ring.current.older == [])
            let onDisk = try SessionKeyStore(files: files, directory: Self.directory).read()
            #expect(onDisk?.keys.contains(first) == isFull)
        }
    }

    @Test("With the rule off all keys are destroyed")
    func off() throws {
        let files = SimulatedFileSystem(seed: 8)
        _ = try Self.open(files)
        let old = try files.open("session-keys", .read)
        for _ in 0..<2 {
            let opened = SessionKeyFile.open(
                SessionPolicy(isOn: false), in: files, directory: Self.directory, now: Self.noon)
            #expect(opened.file == nil && opened.warning == nil)
            #expect(try files.names() == [])
            #expect(try old.readArray(at: 0, byteCount: 128) == [UInt8](repeating: 0, count: 128))
        }
    }
}
