// packet → decode → ring → admit → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// What an operator may choose, already judged. Defaults are those of `ingestd --help`.
package struct PipelineConfiguration: Sendable {
    package var zones = BusinessZones.utc
    package var owners = RewardOwners()
    /// Reward keys of one business; what is beyond is counted under its `(other)`.
    package var rewardKeyCountMax = 1_000_000
    /// The greatest revenue and the greatest spend of one event, micros, at most `Limits.moneyMicrosMax`: what has more is
    /// malformed.
    package var moneyMicrosMax: Int64 = 1_000_000_000_000
    package var quotas = KeyQuotas.Bounds()
    /// A power of two within `RingLayout`'s bounds.
    package var ringByteCount = Limits.ringByteCount
    /// `Limits.segmentByteCountMin` … `Limits.segmentByteCountMax`.
    package var segmentByteCountMax = Limits.segmentByteCountDefault
    /// How old a block may get before it is closed, while there is something else to do.
    package var commitIntervalNanoseconds: UInt64 = 5_000_000
    /// How often a generation of sealed segments may be published.
    package var compactIntervalNanoseconds: UInt64 = 1_000_000_000
    /// Which rows are removed; their counters stay.
    package var retention = RetentionPolicy()
    /// Sealed segments that wait for a generation are kept in memory with their counters and names; at so many, or
    /// so many bytes of these, one is published before its time.
    package var unpublishedSegmentCountMax = 16
    package var unpublishedByteCountMax: UInt64 = 64 << 20

    package init() {}

    /// What all senders together may have on its way here: nearly what the ring holds, for a packet that finds it full is
    /// shed. An eighth is for those that are beyond a grant.
    package var creditByteCount: Int { ringByteCount / 8 * 7 }

    /// Segments of at most an eighth of the file system, as far as they may be so small: a start copies what a
    /// crash left unsealed, and must find room for that.
    /// - Returns: whether that is less than what was chosen.
    package mutating func limitSegments(to space: FileSystemSpace) -> Bool {
        // A file system that does not say how large it is.
        guard space.totalByteCount > 0 else { return false }
        let eighth = Int(clamping: space.totalByteCount / 8)
        let byteCountMax = max(eighth, Limits.segmentByteCountMin)
        guard byteCountMax < segmentByteCountMax else { return false }
        segmentByteCountMax = byteCountMax
        return true
    }
}

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
