import IngestFormat
import IngestReader
import IngestStorage
import Testing

@Suite struct InspectorTests {
    final class Lines {
        var all: [String] = []
    }

    static func inspect(_ fixture: LogFixture, _ name: String) throws -> (Bool, [String]) {
        let lines = Lines()
        var inspector = Inspector(fixture.files, name: name) { lines.all.append($0) }
        return (try inspector.run(), lines.all)
    }

    @Test("Every file of a good directory is described and sound")
    func allFiles() throws {
        let fixture = try LogFixture.random(seed: 51)
        _ = try fixture.files.lock(FileName.lock.text)
        for name in try fixture.fileNames {
            let (isSound, lines) = try Self.inspect(fixture, name)
            #expect(isSound, "\(name)")
            #expect(lines.first?.hasPrefix("file       \(name), ") == true)
            #expect(lines.contains { $0.hasPrefix("not seen") }, "\(name)")
        }
    }

    @Test("A sealed segment shows its blocks, their sections, and the footer's")
    func sealed() throws {
        let fixture = try LogFixture.random(seed: 52)
        let (_, lines) = try Self.inspect(fixture, "0000000001.segment")
        #expect(lines.contains("header     segment 1, shard 0"))
        #expect(lines.contains { $0.hasPrefix("block 3    offset ") && $0.contains("30 rows") })
        #expect(lines.contains { $0.contains("attributes at +") })
        #expect(lines.contains { $0.hasPrefix("sections   event hash: ") })
        #expect(lines.contains { $0.hasPrefix("           section rewardDayPages: ") })
        #expect(
            lines.contains {
                $0.hasPrefix("ledger     sender 9 epoch 4: packets accepted 4, bad_crc 8; events ")
            })
        #expect(lines.contains { $0.hasPrefix("reward-days ") && $0.contains("rows in 1 pages") })
        #expect(lines.contains { $0.hasPrefix("days       ") && $0.contains("rows in 1 pages") })
    }

    @Test("An unsealed segment says that it is one, and where its blocks end")
    func unsealed() throws {
        let fixture = try LogFixture.random(seed: 53)
        let (isSound, lines) = try Self.inspect(fixture, "0000000004.segment")
        #expect(isSound)
        #expect(lines.contains { $0.hasPrefix("unsealed ") })
        #expect(
            lines.contains("end        no block from offset \(fixture.lastBlock.upperBound) on"))
    }

    @Test("A manifest lists its files, and not the key of the hash")
    func manifest() throws {
        let fixture = try LogFixture.random(seed: 54)
        let name = FileName.manifest(fixture.manifest.generation).text
        let (_, lines) = try Self.inspect(fixture, name)
        // Level 0 alone; the run of reward-days lists what it covers.
        #expect(!lines.contains { $0.hasPrefix("sealed ") })
        let run = fixture.manifest.runs(of: .rewardDays)[0].fileName.text
        let (_, linesOfRun) = try Self.inspect(fixture, run)
        #expect(linesOfRun.filter { $0.hasPrefix("sealed ") }.count == 3)
        #expect(
            lines.filter { $0.hasPrefix("run ") }.count == fixture.manifest.runs.count)
        #expect(!lines.contains { $0.contains("7, 7, 7") || $0.contains("0707") })
    }

    @Test("A damaged file is corrupt, and what can be read of it is printed all the same")
    func damaged() throws {
        let fixture = try LogFixture.random(seed: 55)
        for name in try fixture.fileNames where name != FileName.lock.text {
            let middle = min(fixture.byteCount(name), 1_200) / 2
            fixture.flip(name, byte: middle, bit: 3)
            let (isSound, lines) = try Self.inspect(fixture, name)
            fixture.flip(name, byte: middle, bit: 3)
            #expect(!isSound, "\(name)")
            #expect(lines.contains { $0.hasPrefix("CORRUPT") }, "\(name)")
        }
        fixture.flip("0000000001.segment", byte: 4_096 + 60)
        let (_, lines) = try Self.inspect(fixture, "0000000001.segment")
        #expect(lines.contains { $0.hasPrefix("block 1 ") })
        #expect(lines.contains { $0.hasPrefix("footer ") })
    }

    @Test("A file of another name is read itself, and not the one whose name it bears inside")
    func copies() throws {
        let fixture = try LogFixture.random(seed: 57, segmentCount: 4)
        try fixture.expire(1)
        for name in try fixture.fileNames where name.hasSuffix(".run") {
            let bytes = try #require(fixture.files.disk.contents(name))
            for isGood in [true, false] {
                _ = try fixture.files.create("copy.run")
                fixture.files.disk.damage("copy.run") { $0 = bytes }
                // The other of the two is damaged.
                let damaged = isGood ? name : "copy.run"
                fixture.flip(damaged, byte: bytes.count / 2)
                #expect(try Self.inspect(fixture, "copy.run").0 == isGood, "\(name)")
                if isGood { fixture.flip(name, byte: bytes.count / 2) }
                try fixture.files.unlink("copy.run")
            }
        }
    }

    @Test("Bytes behind the end of a file of one record are damage")
    func behindTheEnd() throws {
        let fixture = try LogFixture.random(seed: 58)
        let keys = SessionKeys(directory: fixture.manifest.directory).encode()
        for (name, bytes) in [
            (FileName.durableMark.text, fixture.bytes(.durableMark)),
            (FileName.sessionKeys.text, keys),
        ] {
            for more in [0, 1] {
                if try !fixture.files.names().contains(name) { _ = try fixture.files.create(name) }
                fixture.files.disk.damage(name) { $0 = bytes + [UInt8](repeating: 7, count: more) }
                #expect(try Self.inspect(fixture, name).0 == (more == 0), "\(name)")
                #expect(try fixture.verify().exitCode == (more == 0 ? 0 : 65), "\(name)")
            }
            fixture.files.disk.damage(name) { $0 = bytes }
        }
    }

    @Test("A file that is none of ours, or not there, is said to be so")
    func others() throws {
        let fixture = try LogFixture.random(seed: 56, segmentCount: 0, liveBlockCount: 0)
        _ = try fixture.files.create("notes.txt")
        fixture.files.disk.damage("notes.txt") { $0 = Array("hello\n".utf8) }
        let (isSound, lines) = try Self.inspect(fixture, "notes.txt")
        #expect(!isSound && lines.last?.contains("not a file of ingestd") == true)
        #expect { try Self.inspect(fixture, "gone") } throws: {
            ($0 as? ReaderError)?.kind == .notFound
        }
    }

    @Test("Times are shown in UTC to the microsecond, before 1970 too")
    func times() {
        #expect(TimeText.utc(0) == "1970-01-01T00:00:00.000000Z")
        #expect(TimeText.utc(1_574_553_617_004_000) == "2019-11-24T00:00:17.004000Z")
        #expect(TimeText.utc(-1) == "1969-12-31T23:59:59.999999Z")
        _ = TimeText.utc(.min)
        _ = TimeText.utc(.max)
    }
}
