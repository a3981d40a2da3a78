// packet → decode → ring → admit → block → segment → compaction → snapshot → query
import IngestFormat

/// What an operator may choose, already judged. Defaults are those of `ingestd --help`.
package struct PipelineConfiguration: Sendable {
    package var policy = AdmissionPolicy()
    package var calendar = BusinessCalendar.utc
    /// A power of two within `RingLayout`'s bounds.
    package var ringByteCount = Limits.ringByteCount
    /// `Limits.segmentByteCountMin` … `Limits.segmentByteCountMax`.
    package var segmentByteCountMax = Limits.segmentByteCountDefault
    /// How old a block may get before it is closed, while there is something else to do.
    package var commitIntervalNanoseconds: UInt64 = 5_000_000
    /// How often a generation may be published.
    package var compactIntervalNanoseconds: UInt64 = 1_000_000_000

    package init() {}
}
