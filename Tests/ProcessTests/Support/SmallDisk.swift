import Foundation
import Glibc
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

    init(
        at path: String, in folder: TemporaryFolder, megabytes: Int, _ kind: Kind = .tmpfs
    ) throws {
        self.path = path
        self.folder = folder
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        switch kind {
        case .tmpfs: try call("mount", "-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", path)
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
        _ = FileManager.default.createFile(atPath: name, contents: nil)
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

    func unmount() { try? call("umount", path) }
}
