import Foundation
import Glibc
import IngestStorage
import TestSupport
import Testing

/// What is said of a file or directory that this process may not use.
struct AccessMessageTests {
    private func message(_ path: String, _ code: Int32) -> String {
        "\(StorageError(path: path, call: "openat", errno: code))"
    }

    @Test(arguments: [EACCES, EPERM])
    func `it names owner and mode of the file, or of the folder where there is none`(
        errno: Int32
    ) throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("LOCK", "")
        #expect(chmod(file, 0o040) == 0 && chmod(folder.path, 0o710) == 0)
        let user = geteuid()
        let text = message(file, errno)
        #expect(
            text.hasSuffix(
                ", \(file), \(file) belongs to user \(user) with mode 0040, this process is user \(user): "
                    + "run it as that user, or give it access"), "\(text)")
        #expect(
            message("\(folder.path)/absent", errno).contains(
                ", \(folder.path) belongs to user \(user) with mode 0710, "))
        #expect(message("/absent/absent", errno).hasSuffix(", check the disk and the permissions"))
        #expect(message(file, EIO).hasSuffix(", check the disk and the permissions"))
    }
}
