import Foundation
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// A real directory that goes when the value's scope ends.
func withTemporaryDirectory(_ body: (LinuxFileSystem) throws -> Void) throws {
    let folder = try TemporaryFolder()
    try body(LinuxFileSystem(path: folder.path, create: false))
}

extension StorageFile {
    func contents() throws(StorageError) -> [UInt8] {
        try readAll(byteCountMax: 1 << 30)
    }
}

/// A recognisable run of bytes: no zeros, no two neighbours alike.
func pattern(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var random = SeededRandom(seed: seed)
    return (0..<count).map { _ in UInt8(1 + random.below(255)) }
}

func error<Value>(of body: () throws -> Value) -> StorageError? {
    do {
        _ = try body()
        return nil
    } catch { return error as? StorageError }
}
