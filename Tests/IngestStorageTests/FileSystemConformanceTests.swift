import Glibc
import IngestStorage
import TestSupport
import Testing

/// The promises of the seam, held against both conformers by the same code.
@Suite struct FileSystemConformanceTests {
    enum Conformer: CaseIterable { case linux, simulated }

    private func check(_ conformer: Conformer, _ suite: some Body) throws {
        switch conformer {
        case .linux: try withTemporaryDirectory { try suite.run($0) }
        case .simulated: try suite.run(SimulatedFileSystem(seed: 1))
        }
    }

    protocol Body { func run<Files: FileSystem>(_ files: Files) throws }

    @Test(arguments: Conformer.allCases)
    func `what is written at an offset is read back, with zeros before it`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                let file = try files.create("a")
                let bytes = pattern(5_000)
                try file.write(bytes, at: 1_000)
                try file.syncData()
                #expect(try file.byteCount() == 6_000)
                #expect(
                    try files.open("a", .read).contents()
                        == [UInt8](repeating: 0, count: 1_000) + bytes)
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `a read past the end gives what there is`(_ conformer: Conformer) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                let file = try files.create("a")
                try file.write([1, 2, 3], at: 0)
                var bytes = [UInt8](repeating: 9, count: 4)
                var span = bytes.mutableSpan
                var raw = span.mutableBytes
                #expect(try file.read(into: &raw, at: 1) == 2)
                #expect(try file.read(into: &raw, at: 3) == 0)
                #expect(try file.read(into: &raw, at: 1 << 40) == 0)
                #expect(bytes == [2, 3, 9, 9])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `create takes no name that is taken, open none that is not`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                _ = try files.create("a")
                guard case .alreadyExists? = error(of: { try files.create("a") }) else {
                    Issue.record("created twice")
                    return
                }
                guard case .notFound? = error(of: { try files.open("b", .read) }) else {
                    Issue.record("opened nothing")
                    return
                }
                guard case .notFound? = error(of: { try files.unlink("b") }) else {
                    Issue.record("unlinked nothing")
                    return
                }
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `names come in bytewise order, without dots`(_ conformer: Conformer) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                for name in ["b", "a", "B", "a.tmp"] { _ = try files.create(name) }
                _ = try files.subdirectory("aside", create: true)
                #expect(try files.names() == ["B", "a", "a.tmp", "aside", "b"])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `rename replaces, and readers keep the file that they have open`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                try files.create("old").write([1], at: 0)
                try files.create("new").write([2], at: 0)
                let open = try files.open("old", .read)
                try files.rename("new", to: "old")
                #expect(try files.names() == ["old"])
                #expect(try files.open("old", .read).contents() == [2])
                #expect(try open.contents() == [1])
                try files.unlink("old")
                try files.syncDirectory()
                #expect(try open.contents() == [1])
                #expect(try files.names() == [])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `move goes into another directory and never over a file`(_ conformer: Conformer) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                #expect(throws: StorageError.self) {
                    try files.subdirectory("aside", create: false)
                }
                let aside = try files.subdirectory("aside", create: true)
                try files.create("a").write([1], at: 0)
                try files.move("a", to: "b", in: aside)
                #expect(try aside.open("b", .read).contents() == [1])
                try files.create("c").write([2], at: 0)
                guard case .alreadyExists? = error(of: { try files.move("c", to: "b", in: aside) })
                else {
                    Issue.record("moved over a file")
                    return
                }
                #expect(try files.subdirectory("aside", create: false).names() == ["b"])
                #expect(try files.names() == ["aside", "c"])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `link gives a file another name, which stays when the first goes`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                let aside = try files.subdirectory("aside", create: true)
                try files.create("a").write([1], at: 0)
                try files.link("a", to: "b", in: aside)
                try files.create("c").write([2], at: 0)
                guard case .alreadyExists? = error(of: { try files.link("c", to: "b", in: aside) })
                else {
                    Issue.record("linked over a file")
                    return
                }
                #expect(throws: StorageError.self) { try files.link("d", to: "d", in: aside) }
                try files.unlink("a")
                #expect(try aside.open("b", .read).contents() == [1])
                #expect(try files.names() == ["aside", "c"] && aside.names() == ["b"])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `allocate extends with zeros and never shortens, truncate does both`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                let file = try files.create("a")
                try file.write([7], at: 0)
                try file.allocate(to: 10_000)
                #expect(try file.contents() == [7] + [UInt8](repeating: 0, count: 9_999))
                try file.allocate(to: 5)
                #expect(try file.byteCount() == 10_000)
                try file.truncate(to: 1)
                try file.truncate(to: 3)
                try file.sync()
                #expect(try file.contents() == [7, 0, 0])
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `the lock is held until its file goes, and a second handle is refused with 69`(
        _ conformer: Conformer
    ) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                var first: Files.File? = try files.lock("LOCK")
                #expect(first != nil)
                let refusal = error(of: { try files.lock("LOCK") })
                guard case .locked(_, let holder)? = refusal else {
                    Issue.record("locked twice")
                    return
                }
                #expect(holder != nil)
                #expect(refusal?.exitCode == 69)
                // Who takes a lock file for a stale one and removes it lets nobody in.
                try files.unlink("LOCK")
                #expect(error(of: { try files.lock("LOCK") })?.exitCode == 69)
                first = nil
                _ = try files.lock("LOCK")
            }
        }
        try check(conformer, Suite())
    }

    @Test(arguments: Conformer.allCases)
    func `space is told`(_ conformer: Conformer) throws {
        struct Suite: Body {
            func run<Files: FileSystem>(_ files: Files) throws {
                let space = try files.space()
                #expect(space.freeByteCount > 0 && space.freeByteCount <= space.totalByteCount)
            }
        }
        try check(conformer, Suite())
    }
}

@Suite struct LinuxFileSystemTests {
    @Test func `a missing directory is told apart from a missing file`() {
        let refusal = error(of: { try LinuxFileSystem(path: "/nowhere/at/all", create: false) })
        #expect(refusal == .missingDirectory(path: "/nowhere/at/all"))
        #expect(refusal?.exitCode == 66)
        #expect(
            error(of: { try LinuxFileSystem(path: "/nowhere/at/all", create: true) })
                == .missingDirectory(path: "/nowhere/at/all"))
    }

    @Test(arguments: [FileAccess.read, .readWrite])
    func `a pipe and a directory are refused at once, and not waited for`(
        _ access: FileAccess
    ) throws {
        try withTemporaryDirectory { files in
            try #require(mkfifo(files.path + "/pipe", 0o600) == 0)
            _ = try files.subdirectory("folder", create: true)
            let device = try LinuxFileSystem(path: "/dev", create: false)
            #expect(error(of: { try device.open("full", access) })?.exitCode == 65)
            for name in ["pipe", "folder"] {
                let refusal = error(of: { try files.open(name, access) })
                #expect(refusal?.description.contains("not a regular file") == true)
            }
        }
    }

    @Test func `what is no regular file is put aside like others`() throws {
        try withTemporaryDirectory { files in
            try #require(mkfifo(files.path + "/pipe", 0o600) == 0)
            for _ in 0..<2 { try AsideDirectory(of: files).keep("pipe") }
            let aside = try files.subdirectory("aside", create: false).names()
            #expect(Set(aside) == ["pipe", "pipe.1"])
        }
    }

    @Test(arguments: [true, false])
    func `a start syncs the parent of its directory, whoever made it`(_ isNew: Bool) throws {
        try withTemporaryDirectory { files in
            let path = files.path + "/data"
            if !isNew { try #require(mkdir(path, 0o700) == 0) }
            var parent = stat()
            var synced = stat()
            try #require(stat(files.path, &parent) == 0)
            _ = try LinuxFileSystem(path: path, create: true) { descriptor in
                fstat(descriptor, &synced)
            }
            #expect(synced.st_ino == parent.st_ino)
            let refusal = error(of: {
                try LinuxFileSystem(path: path, create: true) { _ in
                    errno = EIO
                    return -1
                }
            })
            #expect(refusal?.exitCode == 71)
            #expect(throws: Never.self) { try LinuxFileSystem(path: path, create: false) }
        }
    }

    @Test func `symbolic links are not followed`() throws {
        try withTemporaryDirectory { files in
            try #require(symlink("/etc/passwd", files.path + "/link") == 0)
            #expect(error(of: { try files.open("link", .read) })?.exitCode == 65)
        }
    }

    @Test(arguments: [ENOSPC, EDQUOT])
    func `no space and no quota are told as such, with exit code 74`(_ errno: Int32) {
        let refusal = StorageError(path: "/d/f", call: "pwrite", errno: errno)
        #expect(refusal == .diskFull(path: "/d/f", call: "pwrite", errno: errno))
        #expect(refusal.exitCode == 74)
    }

    @Test(arguments: [
        StorageError.io(path: "/d/f", call: "pread", errno: 5),
        .diskFull(path: "/d/f", call: "pwrite", errno: 28),
        .durabilityLost(path: "/d/f", call: "fdatasync", errno: 5), .notFound(path: "/d/f"),
        .alreadyExists(path: "/d/f"), .locked(path: "/d/f", holder: 7),
        .locked(path: "/d/f", holder: nil), .missingDirectory(path: "/d/f"),
        .missingManifest(directory: "/d/f", fileCount: 3),
        .corrupt(path: "/d/f", offset: 4, detail: "checksum"),
        .newerFormat(path: "/d/f", version: 9), .overLimit(path: "/d/f", detail: "x"),
    ])
    func `every error is one line that names the path`(_ error: StorageError) {
        #expect(error.description.contains("/d/f"))
        #expect(!error.description.contains("\n"))
    }
}
