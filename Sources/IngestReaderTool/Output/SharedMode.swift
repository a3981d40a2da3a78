// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

/// The permissions of files that are made for others: those that the process's umask leaves. Files of a data
/// directory have fewer.
enum SharedMode {
    /// Best effort: a file system without permissions takes none.
    static func set(of path: String) {
        let mask = umask(0)
        umask(mask)
        // SAFETY: the path is a temporary C string that outlives the call.
        _ = unsafe chmod(path, 0o666 & ~mask)
    }
}
