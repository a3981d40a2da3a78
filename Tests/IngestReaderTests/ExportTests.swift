import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

@testable import IngestReaderTool

@Suite struct ExportTests {
    private static func export(_ bytes: [UInt8], in files: SimulatedFileSystem) throws {
        let file = try ExportFile("out.csv", in: files)
        for piece in [bytes.prefix(3), bytes.dropFirst(3)] { try file.write(Array(piece)) }
        #expect(try file.finish() == UInt64(bytes.count))
    }

    @Test("A file appears whole, in place of what was there, and nothing else is left")
    func appears() throws {
        let files = SimulatedFileSystem(seed: 1)
        try Self.export(Array("first".utf8), in: files)
        try Self.export(Array("second, longer".utf8), in: files)
        #expect(try files.names() == ["out.csv"])
        #expect(files.disk.contents("out.csv") == Array("second, longer".utf8))
    }

    @Test("A call that fails leaves the file of before, and no other")
    func fails() throws {
        for kind in [SimulatedDisk.Kind.create, .write, .sync, .rename] {
            let files = SimulatedFileSystem(seed: 2)
            try Self.export(Array("before".utf8), in: files)
            files.disk.fail(kind, onCall: 1, errno: 28)
            #expect(throws: StorageError.self, "\(kind)") {
                try Self.export(Array("after".utf8), in: files)
            }
            files.disk.clearFailures()
            #expect(try files.names() == ["out.csv"], "\(kind)")
            #expect(files.disk.contents("out.csv") == Array("before".utf8), "\(kind)")
        }
    }

    @Test("A path is a directory and a name in it")
    func paths() {
        for (path, directory, name) in [
            ("a", ".", "a"), ("/a", "/", "a"), ("d/e/a.csv", "d/e", "a.csv"), ("d/", "d", ""),
        ] {
            #expect(ExportCommand.split(path) == (directory, name), "\(path)")
        }
    }
}
