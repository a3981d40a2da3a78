// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

/// A program that is installed beside this one.
enum SiblingProgram {
    /// Replaces this process by the program `name`, with the same arguments, descriptors and environment. Returns
    /// only if that fails, with why.
    ///
    /// *The corresponding C function is execv(3).*
    static func failureToBecome(_ name: String, _ arguments: [String]) -> Ending {
        guard let folder else {
            return Ending(
                code: 74, message: "realpath failed (errno \(errno)), /proc/self/exe, mount /proc")
        }
        let path = "\(folder)/\(name)"
        // SAFETY: C strings of our own, ended by nil, which live until they are freed below.
        var words: [UnsafeMutablePointer<CChar>?] = unsafe ([path] + arguments).map {
            unsafe strdup($0)
        }
        unsafe words.append(nil)
        unsafe execv(path, words)
        let code = errno
        unsafe words.forEach { unsafe free($0) }
        if code == ENOENT {
            return Ending(
                code: 69,
                message:
                    "program not found: \(name), needed for --format sqlite, \(path), install it there"
            )
        }
        return Ending(
            code: 74, message: "execv failed (errno \(code)), \(path), check the program")
    }

    /// Where this program lies.
    private static var folder: String? {
        // SAFETY: realpath gives a C string that is ours to free, or nil.
        guard let path = unsafe realpath("/proc/self/exe", nil) else { return nil }
        defer { unsafe free(path) }
        let text = unsafe String(cString: path)
        return text.lastIndex(of: "/").map { String(text[..<$0]) }
    }
}
