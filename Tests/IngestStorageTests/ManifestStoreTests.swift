import Glibc
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Generations of a directory, published over disks that crash, fill up and fail.
@Suite struct ManifestStoreTests {
    /// A directory with one generation published, and a second segment recovered but not yet published.
    private struct Prepared {
        let files: SimulatedFileSystem
        let first: Manifest
        let second: [SealedSegmentFile]
    }

    private func prepare() throws -> Prepared {
        let script = LogScript(blockCounts: [2, 2])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        let segments = report.segments.map(\.file)
        let first = try publish([segments[0]], after: TestLog.manifest(), in: next)
        return Prepared(files: next, first: first, second: [segments[1]])
    }

    /// Every file that a generation names is there and is the one that it means.
    private func check(_ manifest: Manifest, in files: SimulatedFileSystem) throws {
        for run in manifest.runs {
            #expect(
                try RunReader(run, directory: manifest.directory, in: files).index.rowCount
                    == Int(run.rowCount))
        }
        for run in manifest.namesRuns {
            let bytes = try files.open(run.fileName.text, .read).readAll(byteCountMax: 1 << 20)
            let contents = try DecodedNames(
                bytes, directory: manifest.directory, fileNumber: run.fileNumber)
            #expect(contents.header.entry == run)
        }
        for segment in manifest.sealed {
            let reader = try SegmentReader(
                segment.number, directory: manifest.directory, in: files)
            #expect(try reader.readFooter(of: segment).segment == segment.number)
        }
    }

    @Test func `L4: a generation is published whole, and names what can be read`() throws {
        let prepared = try prepare()
        let next = try publish(prepared.second, after: prepared.first, in: prepared.files)
        let found = try ManifestStore(files: prepared.files).readNewest()
        #expect(found == next)
        #expect(found.generation.rawValue == 2)
        try check(found, in: prepared.files)
    }

    @Test func `a crash at any operation leaves the old generation or the new one`() throws {
        let prepared = try prepare()
        let straight = prepared.files.disk.kill()
        let expected = try publish(prepared.second, after: prepared.first, in: straight)
        var newest: Set<UInt64> = []
        for operation in 0...straight.disk.operationCount {
            let files = prepared.files.disk.kill()
            files.disk.crash(beforeOperation: operation)
            let isDone = (try? publish(prepared.second, after: prepared.first, in: files)) != nil
            for seed in 0..<6 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                let directory = try DataDirectory.open(left) { TestLog.manifest() }
                let found = directory.manifest
                #expect(found == prepared.first || found == expected)
                #expect(!isDone || found == expected, "a published generation is gone")
                newest.insert(found.generation.rawValue)
                try check(found, in: left)
                // What the crash left of the other attempt does not stand in the way of the next.
                guard found == prepared.first else { continue }
                try check(
                    try publish(prepared.second, after: prepared.first, in: left), in: left)
            }
        }
        #expect(newest == [1, 2])
    }

    @Test func `a crash at any operation of the first start leaves a directory that opens`() throws
    {
        let straight = SimulatedFileSystem(seed: 1)
        _ = try DataDirectory.open(straight) { TestLog.manifest() }
        for operation in 0...straight.disk.operationCount {
            let files = SimulatedFileSystem(seed: 1)
            files.disk.crash(beforeOperation: operation)
            let isOpen = (try? DataDirectory.open(files) { TestLog.manifest() }) != nil
            for seed in 0..<10 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                var other = TestLog.manifest()
                other.directory = DirectoryID(rawValue: 99)
                let directory = try DataDirectory.open(left) { other }
                #expect(!isOpen || directory.manifest == TestLog.manifest())
                #expect(directory.isNew == (directory.manifest == other))
            }
        }
    }

    @Test func `a full disk leaves the old generation, and the same one can be published later`()
        throws
    {
        let prepared = try prepare()
        let used = try image(prepared.files.disk.kill()).values.reduce(0) { $0 + $1.count }
        var refusals = 0
        for room in stride(from: 0, to: 6_000, by: 61) {
            let files = prepared.files.disk.kill()
            files.disk.limit(byteCount: used + room)
            do {
                _ = try publish(prepared.second, after: prepared.first, in: files)
                continue
            } catch let error as StorageError {
                guard case .diskFull = error else { throw error }
            }
            refusals += 1
            #expect(try ManifestStore(files: files).readNewest() == prepared.first)
            #expect(try !files.names().contains { $0.hasSuffix(".tmp") })
            files.disk.limit(byteCount: 1 << 30)
            let next = try publish(prepared.second, after: prepared.first, in: files)
            try check(next, in: files.disk.powerCut(seed: 1))
        }
        #expect(refusals > 20)
    }

    @Test func `L4: a temporary file that cannot be synced is given up for another`() throws {
        let prepared = try prepare()
        let counting = prepared.files.disk.kill()
        let expected = try publish(prepared.second, after: prepared.first, in: counting)
        let calls = counting.disk.callCount(.sync)
        try #require(calls == 5)
        for call in 1...calls {
            let files = prepared.files.disk.kill()
            files.disk.fail(.sync, onCall: call)
            #expect(try publish(prepared.second, after: prepared.first, in: files) == expected)
            try check(expected, in: files.disk.powerCut(seed: UInt64(call)))
        }
        let files = prepared.files.disk.kill()
        files.disk.fail(.sync, onCall: 1, forever: true)
        let failure = error(of: {
            try publish(prepared.second, after: prepared.first, in: files)
        })
        #expect(failure?.exitCode == 71)
    }

    @Test func `a directory that cannot be synced is durability lost, with either generation left`()
        throws
    {
        let prepared = try prepare()
        for call in 1...2 {
            let files = prepared.files.disk.kill()
            files.disk.fail(.syncDirectory, onCall: call)
            let failure = error(of: {
                try publish(prepared.second, after: prepared.first, in: files)
            })
            #expect(failure?.exitCode == 71)
            for seed in 0..<10 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                try check(try ManifestStore(files: left).readNewest(), in: left)
            }
        }
    }

    @Test func `bytes that the disk gives back changed are never published`() throws {
        let prepared = try prepare()
        let files = prepared.files.disk.kill()
        // A sync that says 0 and has written nothing: the read back shows it.
        files.disk.forgetSyncs()
        let failure = error(of: {
            try publish(prepared.second, after: prepared.first, in: files)
        })
        #expect(failure?.exitCode == 65)
        #expect(try ManifestStore(files: files).readNewest() == prepared.first)
    }

    @Test func `a manifest that no start could read is not written`() throws {
        let prepared = try prepare()
        var wrong = prepared.first
        wrong.generation = wrong.generation.next
        wrong.nextFileNumber = FileNumber(rawValue: 1)
        let failure = error(of: { try ManifestStore(files: prepared.files).publish(wrong) })
        #expect(failure?.exitCode == 74, "no file is corrupt: it is a fault of the program")
        #expect(try ManifestStore(files: prepared.files).readNewest() == prepared.first)
    }

    @Test
    func
        `a newest manifest with any flipped byte is an error, and a start makes it again from the log`()
        throws
    {
        let prepared = try prepare()
        let name = FileName.manifest(prepared.first.generation).text
        let byteCount = try #require(prepared.files.disk.contents(name)).count
        for byte in 0..<byteCount {
            let files = prepared.files.disk.kill()
            files.disk.damage(name) { $0[byte] ^= 0x04 }
            let refusal = error(of: { try ManifestStore(files: files).readNewest() })
            #expect(refusal?.exitCode == 65, "byte \(byte)")
            guard byte % 8 == 0 else { continue }
            let opened = try DataDirectory.open(files) { TestLog.manifest() }
            #expect(opened.rebuiltAfter == refusal && !opened.isNew)
            #expect(opened.manifest.generation == prepared.first.generation.next)
            // The second segment is sealed already, and in no generation yet.
            #expect(opened.manifest.sealed.count == 2)
            #expect(opened.manifest.sealed.first == prepared.first.sealed.first)
        }
    }

    @Test func `a manifest of a later version is told as such`() throws {
        let prepared = try prepare()
        let name = FileName.manifest(prepared.first.generation).text
        prepared.files.disk.damage(name) { bytes in
            bytes[4] = 2
            bytes = bytes.sealed(bytes.count)
        }
        let refusal = error(of: {
            try DataDirectory.open(prepared.files) { TestLog.manifest() }
        })
        guard case .newerFormat(_, 2)? = refusal else {
            Issue.record("\(String(describing: refusal))")
            return
        }
        #expect(refusal?.exitCode == 65)
    }

    @Test func `a reader that loses the race against a newer generation looks again`() throws {
        let prepared = try prepare()
        prepared.files.disk.fail(.open, onCall: 1, errno: ENOENT)
        #expect(try ManifestStore(files: prepared.files).readNewest() == prepared.first)
    }

    @Test func `the last few manifests are kept and the older ones go`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var manifest = try DataDirectory.open(files) { TestLog.manifest() }.manifest
        let store = ManifestStore(files: files)
        for _ in 0..<10 {
            manifest.generation = manifest.generation.next
            try store.publish(manifest)
        }
        #expect(
            try files.names().filter { $0.hasSuffix(".manifest") }
                == (7...10).map { FileName.manifest(Generation(rawValue: $0)).text })
    }
}
