// packet → [spool] → socket

import IngestStorage

/// A little room on the spool's disk, held back by a file of zeros: packets may fill the disk, and the file that takes
/// their place when all of them are acked still fits (docs/format/spool.md).
///
/// Never synced and never read. Where a file system cannot preallocate, or has no room, it holds nothing back.
struct SpoolReserve<Files: FileSystem> {
    static var name: String { "reserve" }
    /// A head and its directory entry, whatever the size of the file system's blocks.
    static var byteCount: UInt64 { 65_536 }

    let files: Files

    /// Makes it whole, as far as there is room: to be called where there may be some again.
    ///
    /// **Errors** None: what is wrong with the disk, the next write of a packet says.
    func hold() {
        guard let file = try? files.open(Self.name, .readWrite) else {
            try? files.create(Self.name).allocate(to: Self.byteCount)
            return
        }
        try? file.allocate(to: Self.byteCount)
    }

    /// Frees it.
    ///
    /// - Returns: whether that gave any room.
    func spend() -> Bool {
        guard let file = try? files.open(Self.name, .readWrite), let count = try? file.byteCount(),
            count > 0
        else { return false }
        return (try? file.truncate(to: 0)) != nil
    }
}
