import IngestFormat
import IngestStorage

/// A simulated disk that says which file is about to be opened: the moment at which somebody else writes.
package struct WatchedFileSystem: FileSystem {
    private let base: SimulatedFileSystem
    private let onOpen: @Sendable (String) throws(StorageError) -> Void

    /// - Parameter onOpen: what it throws is what opening the file does.
    package init(
        _ base: SimulatedFileSystem,
        onOpen: @escaping @Sendable (String) throws(StorageError) -> Void
    ) {
        self.base = base
        self.onOpen = onOpen
    }

    package var path: String { base.path }

    package func open(
        _ name: String, _ access: FileAccess
    ) throws(StorageError) -> SimulatedFile {
        try onOpen(name)
        return try base.open(name, access)
    }

    package func create(_ name: String) throws(StorageError) -> SimulatedFile {
        try base.create(name)
    }

    package func names() throws(StorageError) -> [String] { try base.names() }

    package func rename(_ name: String, to newName: String) throws(StorageError) {
        try base.rename(name, to: newName)
    }

    package func move(
        _ name: String, to newName: String, in directory: WatchedFileSystem
    ) throws(StorageError) {
        try base.move(name, to: newName, in: directory.base)
    }

    package func link(
        _ name: String, to newName: String, in directory: WatchedFileSystem
    ) throws(StorageError) {
        try base.link(name, to: newName, in: directory.base)
    }

    package func exchange(_ name: String, with other: String) throws(StorageError) {
        try base.exchange(name, with: other)
    }

    package func unlink(_ name: String) throws(StorageError) { try base.unlink(name) }
    package func syncDirectory() throws(StorageError) { try base.syncDirectory() }

    package func subdirectory(
        _ name: String, create: Bool
    ) throws(StorageError) -> WatchedFileSystem {
        WatchedFileSystem(try base.subdirectory(name, create: create), onOpen: onOpen)
    }

    package func lock(_ name: String) throws(StorageError) -> SimulatedFile { try base.lock(name) }
    package func space() throws(StorageError) -> FileSystemSpace { try base.space() }
}
