// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → query
import SystemPackage

/// What a call was refused for want of, although nothing is broken and nothing was lost: the same call can be made
/// again once it is back.
package enum Shortage: UInt8, Sendable, CaseIterable {
    /// No space or no quota is left.
    case space = 1
    /// The file system is mounted read-only.
    case writeAccess
    /// No descriptor, of the process or of the machine, or no memory in the kernel.
    case resources
}

extension StorageError {
    /// What is to come back before the same call can succeed; `nil` for what waiting does not mend.
    package var shortage: Shortage? {
        switch self {
        case .diskFull: .space
        case .io(_, _, let code):
            switch Errno(rawValue: code) {
            case .readOnlyFileSystem: .writeAccess
            case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory: .resources
            default: nil
            }
        default: nil
        }
    }

    /// A sync that failed for want of space, told as `diskFull`: only for a file, or a stretch of one, that is
    /// written anew from memory and of which nothing was relied on. Any other failed sync stays final.
    package var ofUnneededBytes: StorageError {
        guard case .durabilityLost(let path, let call, let code) = self else { return self }
        switch Errno(rawValue: code) {
        case .noSpace, .diskQuotaExceeded: return .diskFull(path: path, call: call, errno: code)
        default: return self
        }
    }
}
