import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct DataDirectoryTests {
    private func open(
        _ files: SimulatedFileSystem
    ) throws(StorageError) -> DataDirectory<SimulatedFileSystem> {
        try DataDirectory.open(files) { TestLog.manifest() }
    }

    @Test func `L1: a new directory gets generation 0 and no segment`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let directory = try open(files)
        #expect(directory.isNew)
        #expect(directory.manifest == TestLog.manifest())
        #expect(try files.names() == ["0000000000.manifest", "LOCK"])
        // Durable without anything else being done.
        for seed in 0..<10 as Range<UInt64> {
            let left = files.disk.powerCut(seed: seed)
            #expect(try ManifestStore(files: left).readNewest() == TestLog.manifest())
        }
    }

    @Test func `a second daemon is refused with 69 for as long as the first lives`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var first: DataDirectory<SimulatedFileSystem>? = try open(files)
        #expect(first != nil)
        #expect(error(of: { try open(files) })?.exitCode == 69)
        first = nil
        #expect(try !open(files).isNew)
    }

    @Test func `on a real disk a second handle is refused with 69 and the holder named`() throws {
        try withTemporaryDirectory { files in
            let first = try DataDirectory.open(files) { TestLog.manifest() }
            let second = try LinuxFileSystem(path: files.path, create: false)
            let refusal = error(of: { try DataDirectory.open(second) { TestLog.manifest() } })
            guard case .locked(_, .some)? = refusal else {
                Issue.record("\(String(describing: refusal))")
                return
            }
            #expect(first.isNew)
        }
    }

    @Test(arguments: ["0000000001.segment", "0000000003.rewards.run", "durable-mark"])
    func `files of a log without a manifest are never a fresh directory`(_ name: String) throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try files.create(name)
        let refusal = error(of: { try open(files) })
        #expect(refusal == .missingManifest(directory: "/sim", fileCount: 1))
        #expect(refusal?.exitCode == 66)
        #expect(try Set(files.names()) == ["LOCK", name])
        #expect(error(of: { try ManifestStore(files: files).readNewest() }) == refusal)
    }

    @Test(arguments: ["0000000000.manifest.tmp", "lost+found", "notes.txt", "aside"])
    func `what proves no earlier manifest does not stop a first start`(_ name: String) throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try files.create(name)
        #expect(try open(files).isNew)
    }

    @Test func `a directory that holds other things is refused with 66, and stays as it is`() throws
    {
        for (names, foreign) in [
            (["notes.txt"], "notes.txt"), (["LOCK", "CURRENT"], "CURRENT"),
            (["lost+found", "src"], "src"), (["lost+found"], nil), ([], nil),
            (["LOCK", "reserve"], nil),
            (["0000000000.manifest", "notes.txt"], nil),
        ] as [([String], String?)] {
            let files = SimulatedFileSystem(seed: 1)
            for name in names { _ = try files.create(name) }
            let refusal = error(of: { try DataDirectory.checkIsOurs(files) })
            #expect(
                refusal == foreign.map { .foreignDirectory(path: "/sim", name: $0) }, "\(names)")
            #expect(refusal == nil || refusal?.exitCode == 66)
            #expect(try files.names() == names.sorted())
        }
    }

    @Test
    func `leftovers go: unfinished ones are removed, unknown ones put aside, foreign ones stay`()
        throws
    {
        let script = LogScript(blockCounts: [1, 1])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        let first = try publish(
            [report.segments[0].file], after: TestLog.manifest(), in: next)
        var second = first
        second.generation = first.generation.next
        // The footers stand for them.
        second.runs = []
        try ManifestStore(files: next).publish(second)
        for name in [
            "0000000001.days.run", "0000000002.segment.tmp", "0000000004.manifest.tmp", "keep.me",
            "0000000042.rewards.run.tmp", "0000000005.names.run",
        ] { _ = try next.create(name) }
        let opened = try open(next.disk.kill())
        // Runs that only generation 1 names wait for their readers.
        #expect(opened.retired == first.runs.map(\.fileName) && opened.retired.count == 3)
        // What is none of ours by its header has nothing that can be made again.
        #expect(
            opened.movedAside == ["aside/0000000001.days.run", "aside/0000000005.names.run"])
        let names = try opened.files.names()
        // A number that is still to be given.
        #expect(second.nextFileNumber.rawValue == 5 && !names.contains("0000000005.names.run"))
        #expect(!names.contains { $0.hasSuffix(".tmp") })
        #expect(names.contains("keep.me"))
        #expect(names.contains("0000000001.segment") && names.contains("0000000002.segment"))
    }

    @Test func `a manifest that leaves out a segment does not become the newest`() throws {
        let script = LogScript(blockCounts: [1, 1])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        let manifest = try publish(
            report.segments.map(\.file), after: TestLog.manifest(), in: next)
        var other = manifest
        other.generation = manifest.generation.next
        other.runs = []
        other.sealed.removeFirst()
        #expect(error(of: { try ManifestStore(files: next).publish(other) })?.exitCode == 74)
        #expect(try open(next.disk.kill()).manifest == manifest)
    }

    @Test func `a copy of a segment that is not there is put aside, it may be all there is`() throws
    {
        let files = SimulatedFileSystem(seed: 1)
        _ = try open(files)
        try files.create("0000000009.segment.tmp").write([1, 2, 3], at: 0)
        let opened = try open(files.disk.kill())
        #expect(opened.movedAside == ["aside/0000000009.segment.tmp"])
        #expect(opened.files.disk.contents("aside/0000000009.segment.tmp") == [1, 2, 3])
    }

    @Test func `an older manifest that is damaged is put aside and does not stop the start`() throws
    {
        let files = SimulatedFileSystem(seed: 1)
        var manifest = try open(files).manifest
        manifest.generation = manifest.generation.next
        try ManifestStore(files: files).publish(manifest)
        files.disk.damage("0000000000.manifest") { $0[40] ^= 1 }
        let opened = try open(files.disk.kill())
        #expect(opened.manifest == manifest)
        #expect(opened.movedAside == ["aside/0000000000.manifest"])
    }

    @Test func `an older manifest of a newer format stops the start and stays`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var manifest = try open(files).manifest
        manifest.generation = manifest.generation.next
        try ManifestStore(files: files).publish(manifest)
        files.disk.damage("0000000000.manifest") { bytes in
            bytes[4] = 2
            bytes = bytes.sealed(bytes.count)
        }
        let left = files.disk.kill()
        #expect(
            error(of: { try open(left) })
                == .newerFormat(path: "/sim/0000000000.manifest", version: 2))
        #expect(try left.names().contains("0000000000.manifest"))
    }

    @Test
    func `runs of counters and of names that are not there, or not themselves, are made again`()
        throws
    {
        let script = LogScript(blockCounts: [2])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        let manifest = try publish(
            report.segments.map(\.file), after: TestLog.manifest(), in: next)
        let runs = manifest.runs.map(\.fileName) + manifest.namesRuns.map(\.fileName)
        #expect(runs.count == 4)
        for name in runs where manifest.runs.contains(where: { $0.fileName == name }) {
            let missing = next.disk.kill()
            try missing.unlink(name.text)
            let flipped = next.disk.kill()
            flipped.disk.damage(name.text) { $0[40] ^= 1 }
            for (files, isThere) in [(missing, false), (flipped, true)] {
                let opened = try open(files)
                #expect(opened.rebuiltAfter?.exitCode == 65)
                #expect(opened.manifest.generation == manifest.generation.next)
                #expect(opened.manifest.runs.map(\.span) == manifest.runs.map(\.span))
                #expect(opened.manifest.runs[2].rowCount > 0)
                #expect(try files.names().contains("aside") == isThere)
            }
        }
        for name in manifest.namesRuns.map(\.fileName.text) {
            let good = next.disk.contents(name)
            for byte in [nil, 0, 40, 127] as [Int?] {
                let left = next.disk.kill()
                if let byte {
                    left.disk.damage(name) { $0[byte] ^= 1 }
                } else {
                    try left.unlink(name)
                }
                let opened = try open(left)
                #expect(opened.rebuiltAfter.map { "\($0)".contains(name) } == true)
                let made = try #require(opened.manifest.namesRuns.first)
                // The same names in the same pages; another number, generation and checksum in the header.
                let bytes = try #require(left.disk.contents(made.fileName.text))
                #expect(bytes.dropFirst(128) == good?.dropFirst(128))
            }
        }
    }

    @Test
    func `a run of which a later one has everything goes, at once where no manifest names it`()
        throws
    {
        let script = LogScript(blockCounts: [2])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        let segments = report.segments.map(\.file)
        let first = try publish(segments, after: TestLog.manifest(), in: next)
        // The same rows in runs with newer numbers, and no manifest left that names the old ones.
        var base = TestLog.manifest()
        base.generation = first.generation
        base.nextFileNumber = first.nextFileNumber
        _ = try publish(segments, after: base, in: next)
        try next.unlink("0000000001.manifest")
        let opened = try open(next.disk.kill())
        #expect(opened.movedAside == [])
        #expect(opened.retired == [])
        let old = first.fileNames.map(\.text).filter { $0.hasSuffix(".run") }
        #expect(!old.isEmpty)
        let left = Set(try opened.files.names())
        #expect(left.isDisjoint(with: old))
    }

    @Test func `sealed segments that are missing are told in one line`() throws {
        let script = LogScript(blockCounts: [1, 1, 1])
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        let next = files.disk.kill()
        let report = try recover(next)
        _ = try publish(report.segments.map(\.file), after: TestLog.manifest(), in: next)
        let whole = next.disk.kill()
        #expect(try open(whole).warnings == [])
        let left = whole.disk.kill()
        for index in [0, 2] { try left.unlink(script.name(index)) }
        let opened = try open(left)
        #expect(opened.missingSegments.map(\.rawValue) == [1, 3])
        #expect(opened.warnings.count == 1)
        #expect(opened.warnings[0].hasPrefix("2 sealed segments are missing, the first is "))
    }

    @Test func `files put aside never replace each other`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let aside = try AsideDirectory(of: files)
        for byte in [UInt8(1), 2, 3] {
            try files.create("a").write([byte], at: 0)
            _ = try aside.take("a")
        }
        let names = try files.subdirectory("aside", create: false).names()
        #expect(names == ["a", "a.1", "a.2"])
        #expect(files.disk.contents("aside/a.1") == [2])
    }

    @Test func `a directory in the place of a file is moved aside, having one name alone`() throws {
        try withTemporaryDirectory { files in
            _ = try files.subdirectory("0000000001.days.run", create: true)
            try AsideDirectory(of: files).keep("0000000001.days.run")
            #expect(try files.names() == ["aside"])
            let aside = try files.subdirectory("aside", create: false)
            #expect(try aside.names() == ["0000000001.days.run"])
        }
    }

    @Test
    func `a file that is kept aside stays there when it goes, once, whatever a power cut undoes`()
        throws
    {
        let store = ManifestStore(files: SimulatedFileSystem(seed: 1))
        let files = store.files
        let name = FileName.run(.days, FileNumber(rawValue: 1))
        let file = try files.create(name.text)
        try file.write([1, 2, 3], at: 0)
        try file.sync()
        try files.syncDirectory()
        for _ in 0..<2 { try store.keepAside([name, .durableMark]) }
        #expect(files.disk.contents(name.text) == [1, 2, 3])
        try store.unlink(name)
        for seed in 0..<20 as Range<UInt64> {
            let left = files.disk.copy().disk.powerCut(seed: seed)
            #expect(try left.subdirectory("aside", create: false).names() == [name.text])
            #expect(left.disk.contents("aside/\(name.text)") == [1, 2, 3])
        }
        // What was kept before is not moved beside it; what is another is.
        try files.create(name.text).write([1, 2, 3], at: 0)
        #expect(try AsideDirectory(of: files).take(name.text) == "aside/\(name.text)")
        try files.create(name.text).write([4], at: 0)
        #expect(try AsideDirectory(of: files).take(name.text) == "aside/\(name.text).1")
    }

    @Test func `a copy that was put aside before is not made twice`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let file = try files.create("f")
        try file.write(pattern(3_000_000), at: 0)
        let aside = try AsideDirectory(of: files)
        #expect(try aside.copy(5..<2_500_000, of: file, as: "x") == "aside/x")
        #expect(try aside.copy(5..<2_500_000, of: file, as: "x") == "aside/x")
        #expect(files.disk.contents("aside/x") == Array(pattern(3_000_000)[5..<2_500_000]))
        #expect(try aside.copy(6..<2_500_001, of: file, as: "x") == "aside/x.1")
    }
}
