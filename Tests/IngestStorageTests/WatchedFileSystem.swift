import IngestStorage

/// A simulated disk that says which file is about to be opened: the moment at which somebody else writes.
struct WatchedFileSystem: FileSystem {
    let base: SimulatedFileSystem
    let onOpen: @Sendable (String) -> Void

    var path: String { base.path }

    func create(_ name: String) throws(StorageError) -> SimulatedFile { try base.create(name) }

    func open(_ name: String, _ access: FileAccess) throws(StorageError) -> SimulatedFile {
        onOpen(name)
        return try base.open(name, access)
    }

    func names() throws(StorageError) -> [String] { try base.names() }

    func rename(_ name: String, to newName: String) throws(StorageError) {
        try base.rename(name, to: newName)
    }

    func move(
        _ name: String, to newName: String, in directory: WatchedFileSystem
    ) throws(StorageError) {
        try base.move(name, to: newName, in: directory.base)
    }

    func unlink(_ name: String) throws(StorageError) { try base.unlink(name) }
    func syncDirectory() throws(StorageError) { try base.syncDirectory() }

    func subdirectory(_ name: String, create: Bool) throws(StorageError) -> WatchedFileSystem {
        WatchedFileSystem(base: try base.subdirectory(name, create: create), onOpen: onOpen)
    }

    func lock(_ name: String) throws(StorageError) -> SimulatedFile { try base.lock(name) }
    func space() throws(StorageError) -> FileSystemSpace { try base.space() }
}
