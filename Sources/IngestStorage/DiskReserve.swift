// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import Glibc
import IngestFormat
import Synchronization

/// Room that is held back on the disk by a file of zeros, so that a full disk stops neither a start nor the compact
/// stage (docs/decisions/0035-reserve.md). Shared by the sync stage, which holds it, and the compact stage, which
/// borrows of it; a start spends all of it before either is there.
///
/// The log is written to only while the reserve is whole: half as much again as the largest segment that is not
/// sealed, and 256 KiB. Of that a quarter of the segment and 128 KiB are lent to the compact stage; what stays is
/// what a start needs for the copy of that segment with its footer.
///
/// The file is never synced: after a power cut it may be smaller, and the room is free instead. Where a file
/// system cannot preallocate, the file holds nothing back.
///
/// **Cost** A lock a block; an `fallocate` for every 16 MiB by which the largest segment grows.
package final class DiskReserve<Files: FileSystem>: Sendable {
    private struct State {
        var file: Files.File?
        var byteCount: UInt64
        /// Of the largest segment that it was held for.
        var segmentByteCount: UInt64 = 0
        var isLent = false
    }

    private let files: Files
    /// How much of what an earlier start had left was no room on the disk; it is allocated again.
    package let missingByteCount: UInt64
    private let state: Mutex<State>

    /// Takes over what an earlier start has left; makes nothing.
    package init(in files: Files) throws(StorageError) {
        let file = try Self.open(in: files)
        var byteCount = try file?.byteCount() ?? 0
        // A copy, or a restore, that left out the zeros.
        missingByteCount = byteCount - min(byteCount, try file?.allocatedByteCount() ?? 0)
        if missingByteCount > 0 {
            try file?.truncate(to: 0)
            byteCount = 0
        }
        self.files = files
        state = Mutex(State(file: file, byteCount: byteCount))
    }

    private static func open(in files: Files) throws(StorageError) -> Files.File? {
        do { return try files.open(FileName.reserve.text, .readWrite) } catch {
            guard case .notFound = error else { throw error }
            return nil
        }
    }

    /// The whole reserve while there is an unsealed segment of so many bytes.
    package static func byteCount(forSegmentOf count: UInt64) -> UInt64 {
        keptByteCount(forSegmentOf: count) + count / 4 + floorByteCount
    }

    /// What of it is never lent.
    static func keptByteCount(forSegmentOf count: UInt64) -> UInt64 {
        count + count / 4 + floorByteCount
    }

    /// What a log takes of the disk when its segment grows by a step, with what the reserve grows by then.
    package static func stepByteCount(forSegmentsOf byteCountMax: UInt64) -> UInt64 {
        let step = min(UInt64(Limits.preallocationByteCountMax), byteCountMax)
        return 2 * step + step / 2
    }

    private static var floorByteCount: UInt64 { UInt64(Limits.reserveFloorByteCount) }

    /// How much the file holds back now.
    package var byteCount: UInt64 { state.withLock { $0.byteCount } }

    /// Makes sure that the reserve is whole; to be called before a segment takes more of the disk.
    ///
    /// - Parameter count: the segment's bytes on disk from then on.
    /// **Errors** A `Shortage`, also while the compact stage has a part of it: the log has to wait.
    package func hold(forSegmentOf count: UInt64) throws(StorageError) {
        try state.withLock { (state) throws(StorageError) in
            let segment = max(state.segmentByteCount, count)
            let wanted = Self.byteCount(forSegmentOf: segment)
            if !state.isLent && state.byteCount >= wanted {
                state.segmentByteCount = segment
                return
            }
            let path = "\(files.path)/\(FileName.reserve.text)"
            let call = "fallocate, \(state.byteCount) of \(wanted) bytes are held"
            if state.isLent { throw .diskFull(path: path, call: call, errno: ENOSPC) }
            let file =
                if let file = state.file { file } else { try files.create(FileName.reserve.text) }
            state.file = file
            do throws(StorageError) { try file.allocate(to: wanted) } catch {
                // A part may have been had.
                state.byteCount = (try? file.byteCount()) ?? state.byteCount
                if case .diskFull(_, _, let errno, _) = error {
                    throw .diskFull(path: path, call: call, errno: errno)
                }
                throw error
            }
            state.segmentByteCount = segment
            state.byteCount = wanted
        }
    }

    /// Lends the compact stage its part; the log waits from now on.
    ///
    /// - Parameter wanted: what has to be free for it to help: where it does not, nothing is lent.
    /// - Returns: `false` if there is nothing more to give.
    package func lend(for wanted: UInt64? = nil) -> Bool {
        state.withLock { state in
            let kept = Self.keptByteCount(forSegmentOf: state.segmentByteCount)
            guard let file = state.file, state.byteCount > kept else { return false }
            if let wanted {
                let free = (try? files.space().freeByteCount) ?? 0
                if free.saturatingSum(state.byteCount - kept) < wanted { return false }
            }
            guard (try? file.truncate(to: kept)) != nil else { return false }
            state.byteCount = kept
            state.isLent = true
            return true
        }
    }

    /// The compact stage needs no more of it: the log goes on once the reserve is whole again.
    package func giveBack() { state.withLock { $0.isLent = false } }

    /// Whether there is a file with room in it.
    package static func isHeld(in files: Files) throws(StorageError) -> Bool {
        guard let file = try open(in: files) else { return false }
        return try file.allocatedByteCount() > 0
    }

    /// Frees all of it, for a start: the directory is locked, and nothing is written to the log before the reserve is
    /// whole again.
    /// - Returns: whether that gave any room.
    package static func spend(in files: Files) throws(StorageError) -> Bool {
        guard let file = try open(in: files), try file.byteCount() > 0 else { return false }
        try file.truncate(to: 0)
        return true
    }
}
