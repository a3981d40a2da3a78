import Foundation
import Glibc
import Synchronization
import TestSupport

/// A file system of a few megabytes, mounted for one test.
final class SmallDisk {
    enum Kind: CaseIterable {
        case tmpfs
        /// On a loop device: with a journal, delayed allocation and its own idea of what is free.
        case ext4
    }

    struct CannotMount: Error {
        let output: String
    }

    /// Whether this machine lets the tests mount; both kinds need root, and ext4 a free loop device.
    static let canMount: Bool = {
        guard getuid() == 0 else { return false }
        return Kind.allCases.allSatisfy { kind in
            guard let folder = try? TemporaryFolder(),
                let disk = try? SmallDisk(at: folder.data, in: folder, megabytes: 8, kind)
            else { return false }
            disk.unmount()
            return true
        }
    }()

    static let reason = "mounting a small tmpfs, and ext4 on a loop device, needs root"

    private let path: String
    private let folder: TemporaryFolder
    private var fillerCount = 0

    /// - Parameter inodes: how many a tmpfs has; as many as it wants by default.
    init(
        at path: String, in folder: TemporaryFolder, megabytes: Int, _ kind: Kind = .tmpfs,
        inodes: Int? = nil
    ) throws {
        self.path = path
        self.folder = folder
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        switch kind {
        case .tmpfs:
            let count = inodes.map { ",nr_inodes=\($0)" } ?? ""
            try call("mount", "-t", "tmpfs", "-o", "size=\(megabytes)m\(count)", "tmpfs", path)
        case .ext4:
            let image = "\(folder.path)/\(folder.unusedName(for: "disk")).image"
            try call("truncate", "--size=\(megabytes)M", image)
            try call("mkfs.ext4", "-q", "-F", "-m", "0", image)
            try call("mount", "-o", "loop,errors=remount-ro", image, path)
        }
    }

    private func call(_ program: String, _ arguments: String...) throws {
        let ended = try run("/usr/bin/env", [program] + arguments, in: folder)
        if ended.code != 0 { throw CannotMount(output: ended.errors) }
    }

    private var freeByteCount: Int {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: path)
        return (attributes?[.systemFreeSize] as? NSNumber)?.intValue ?? 0
    }

    /// Takes all room there is, however often it becomes free.
    func fill() throws {
        fillerCount += 1
        let name = "\(path)/filler-\(fillerCount)"
        // Without room for a name there is none for bytes.
        guard FileManager.default.createFile(atPath: name, contents: nil) else { return }
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: name))
        defer { try? file.close() }
        for byteCount in [1 << 20, 4 << 10] {
            let bytes = Data(count: byteCount)
            while freeByteCount >= byteCount {
                do { try file.write(contentsOf: bytes) } catch { break }
                guard fsync(file.fileDescriptor) == 0 else { break }
            }
        }
    }

    /// Gives it back.
    func free() throws {
        for number in 1...max(1, fillerCount) {
            try? FileManager.default.removeItem(atPath: "\(path)/filler-\(number)")
        }
        fillerCount = 0
    }

    /// Has the kernel find a fault in the ext4, which makes it read-only under all who use it.
    func failReadOnly() throws {
        let mounts = try String(contentsOfFile: "/proc/mounts", encoding: .utf8)
        let mount = mounts.split(separator: "\n").first { $0.contains(" \(path) ") }
        let device = mount?.split(separator: " ").first?.split(separator: "/").last ?? ""
        try Data("1".utf8).write(
            to: URL(fileURLWithPath: "/sys/fs/ext4/\(device)/trigger_fs_error"))
    }

    /// Also where a program of a test that has failed is still on it: nothing stays mounted.
    func unmount() {
        do { try call("umount", path) } catch { try? call("umount", "--lazy", path) }
    }
}

/// Takes every byte of a file system that becomes free, or every inode, again and again, on a thread of its own, until it is
/// told to give them back.
final class DiskHog: @unchecked Sendable {
    // `@unchecked Sendable`: the thread alone uses what is not atomic until it has ended.
    enum Prey { case bytes, inodes }

    private let folder: String
    private let isStopped = Atomic(false)
    private let turnCount = Atomic(0)
    private let ended = DispatchSemaphore(value: 0)

    /// Begins, and returns when there is nothing left.
    init(on path: String, _ prey: Prey) throws {
        folder = "\(path)/hog"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        let file = open("\(folder)/bytes", O_RDWR | O_CREAT, 0o600)
        Thread { [self] in
            var (size, count) = (0, 0)
            while !isStopped.load(ordering: .acquiring) {
                switch prey {
                case .bytes:
                    for step in [1 << 20, 4 << 10] {
                        while posix_fallocate(file, off_t(size), off_t(step)) == 0 { size += step }
                    }
                case .inodes:
                    while true {
                        let taken = open("\(folder)/\(count)", O_RDWR | O_CREAT, 0o600)
                        if taken < 0 { break }
                        close(taken)
                        count += 1
                    }
                }
                turnCount.wrappingAdd(1, ordering: .releasing)
                usleep(200)
            }
            close(file)
            ended.signal()
        }.start()
        _ = eventually { turnCount.load(ordering: .acquiring) > 1 }
    }

    /// Gives all of it back.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        ended.wait()
        ended.signal()
        try? FileManager.default.removeItem(atPath: folder)
    }
}
