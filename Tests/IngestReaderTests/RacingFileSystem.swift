import IngestFormat
import IngestStorage

/// A simulated disk on which runs go before a reader's eyes: when it is about to open one, another generation
/// is published, and the run is not there any more; `dropCountMax` times. Used by one thread.
final class RacingFileSystem: FileSystem, @unchecked Sendable {
    private let fixture: LogFixture
    private let dropCountMax: Int
    private(set) var dropCount = 0

    init(_ fixture: LogFixture, dropCountMax: Int) {
        self.fixture = fixture
        self.dropCountMax = dropCountMax
    }

    private var base: SimulatedFileSystem { fixture.files }
    var path: String { base.path }

    func open(_ name: String, _ access: FileAccess) throws(StorageError) -> SimulatedFile {
        guard dropCount < dropCountMax, name.hasSuffix(".run") else {
            return try base.open(name, access)
        }
        dropCount += 1
        do {
            try fixture.append([FixtureEvent()])
            try fixture.seal()
            try fixture.publish()
            try fixture.beginSegment()
        } catch {
            throw .corrupt(path: name, offset: 0, detail: "the fixture failed: \(error)")
        }
        throw .notFound(path: name)
    }

    func create(_ name: String) throws(StorageError) -> SimulatedFile { try base.create(name) }
    func names() throws(StorageError) -> [String] { try base.names() }
    func rename(_ name: String, to newName: String) throws(StorageError) {
        try base.rename(name, to: newName)
    }
    func move(
        _ name: String, to newName: String, in directory: RacingFileSystem
    ) throws(StorageError) {
        try base.move(name, to: newName, in: directory.base)
    }
    func unlink(_ name: String) throws(StorageError) { try base.unlink(name) }
    func syncDirectory() throws(StorageError) { try base.syncDirectory() }
    func subdirectory(_ name: String, create: Bool) throws(StorageError) -> RacingFileSystem {
        throw .notFound(path: name)
    }
    func lock(_ name: String) throws(StorageError) -> SimulatedFile { try base.lock(name) }
    func space() throws(StorageError) -> FileSystemSpace { try base.space() }
}
