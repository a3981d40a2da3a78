// packet → decode → ring → admit → block → segment → compaction → snapshot → query
import IngestStorage

/// What ends a pipeline. Everything that a packet can cause is a counted refusal and never one of these.
package enum PipelineError: Error, Sendable {
    /// The directory could not be read or written.
    case storage(StorageError)
    /// The socket could not be read.
    case socket(SocketError)
    /// Something that the pipeline itself keeps true was found untrue. Nothing more is written; the log
    /// is whole up to the durable mark, and the next start goes on from there.
    case inconsistent(String)

    /// As `StorageError.shortage`.
    package var shortage: Shortage? {
        if case .storage(let error) = self { error.shortage } else { nil }
    }

    /// What has to be free for what a full disk refused, in bytes, where that is known.
    var wantedByteCount: UInt64? {
        guard case .storage(.diskFull(_, _, _, let wanted)) = self else { return nil }
        return wanted
    }

    /// The exit code; the table is in docs/operations.md.
    package var exitCode: Int32 {
        switch self {
        case .storage(let error): error.exitCode
        case .socket(let error): error.exitCode
        // Not 65, "corrupt data": the directory is intact, the fault is the program's.
        case .inconsistent: 74
        }
    }
}

extension PipelineError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .storage(let error): "\(error)"
        case .socket(let error): "\(error)"
        case .inconsistent(let what):
            "internal state, \(what), keep the directory as it is and report this; "
                + "then start again: the durable log is whole"
        }
    }
}
