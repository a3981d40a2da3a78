import Glibc
import TestSupport
import Testing

/// A pipe that nobody reads, for a program's standard error.
final class FullPipe {
    private let path: String
    private let descriptor: Int32
    private let folder: TemporaryFolder

    init(in folder: TemporaryFolder) throws {
        self.folder = folder
        path = "\(folder.path)/pipe"
        try #require(mkfifo(path, 0o600) == 0)
        // A reader that reads nothing, and never waits itself.
        descriptor = open(path, O_RDWR | O_NONBLOCK)
        try #require(descriptor >= 0)
    }

    deinit { _ = close(descriptor) }

    /// Starts a program whose standard error it is.
    func start(_ program: String, _ arguments: [String]) throws -> Running {
        try Running(
            "/bin/bash",
            ["-c", "exec \"$@\" 2>\"$0\"", path, Programs.path(program)] + arguments, in: folder)
    }

    func fill() {
        for count in [4_096, 1] {
            let filler = [UInt8](repeating: 0x78, count: count)
            while write(descriptor, filler, filler.count) > 0 {}
        }
    }
}
