// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
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

    /// Leases every segment: before a reader looks which there are, so that none goes between the two.
    package func takeAll() { take(from: LogPosition.start.segment) }

    /// Leases a segment and all behind it, and lets go of those before.
    package func take(from first: SegmentNumber) { try? file?.lease(from: UInt64(first.rawValue)) }

    /// Whether a reader is on a segment.
    package func isHeld(_ number: SegmentNumber) -> Bool {
        (try? file?.isLeased(at: UInt64(number.rawValue))) ?? false
    }
}
