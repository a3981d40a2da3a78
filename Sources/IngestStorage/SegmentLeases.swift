// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import Glibc
import IngestFormat

/// The file `leases`, as one reader or as the daemon has it open: a reader locks the bytes of the numbers of the segments
/// that it may still read, and the daemon removes no segment whose byte is locked (docs/format/directory.md).
///
/// A lease is a courtesy and no condition: where the file is missing (a copy of a directory) or cannot be locked there is
/// none, and who comes too late for a segment is told so.
///
/// **Cost** A system call or two; a descriptor for as long as this value lives.
package struct SegmentLeases<Files: FileSystem>: Sendable {
    private let file: Files.File?

    /// For a reader.
    package init(in files: Files) { file = try? files.open(FileName.leases.text, .read) }

    /// For the daemon, which makes the file if it is not there.
    package init(makingIn files: Files) {
        let name = FileName.leases.text
        file = (try? files.open(name, .readWrite)) ?? (try? files.create(name))
    }

    /// Leases a segment and all behind it, and lets go of those before.
    private func take(from first: SegmentNumber) { try? file?.lease(from: UInt64(first.rawValue)) }

    /// Leases what a generation has of the log.
    package func take(of manifest: Manifest) { take(from: manifest.lastExpired.next) }

    /// Opens the newest generation under a lease: that of every segment before the manifest is read, so that none goes between
    /// the two, then of those that it has. A file that is gone, or a log that does not fit, means that a newer generation has
    /// come, or that a start has just recovered the log: then all is read again. What fails twice with the same newest
    /// generation is damage.
    ///
    /// - Parameter open: opens what the caller needs; the lease is its to keep. `nil`, which it must not return where
    ///   `isLast`, for what may be due to a newer generation.
    /// **Errors** Those of `ManifestStore.readNewest` and of `open`; `io` (EAGAIN) where each attempt met a newer generation.
    package static func newest<Value>(
        of files: Files,
        _ open: (_ manifest: Manifest, _ leases: SegmentLeases, _ isLast: Bool)
            throws(StorageError) -> Value?
    ) throws(StorageError) -> Value {
        let leases = SegmentLeases(in: files)
        let store = ManifestStore(files: files)
        var failed: Generation?
        for _ in 0..<attemptCount {
            leases.take(from: LogPosition.start.segment)
            let manifest = try store.readNewest(isWhole: false)
            leases.take(of: manifest)
            let isLast = failed == manifest.generation
            do throws(StorageError) {
                if let value = try open(manifest, leases, isLast) { return value }
            } catch {
                switch error {
                case .notFound where !isLast, .corrupt where !isLast: break
                default: throw error
                }
            }
            failed = manifest.generation
        }
        throw .io(
            path: files.path, call: "reading a manifest that changed during every attempt",
            errno: EAGAIN)
    }

    /// Generations come by the second, and an attempt takes some milliseconds: as many mean something else.
    private static var attemptCount: Int { 1_000 }

    /// Whether a reader is on a segment.
    package func isHeld(_ number: SegmentNumber) -> Bool {
        (try? file?.isLeased(at: UInt64(number.rawValue))) ?? false
    }
}
