import IngestPipeline

/// What became of the events behind the log, in numbers: bytes written by kind of file, rows, and what the two
/// queues spent on it. `ingest-bench` reads these lines; docs/performance.md says what they mean.
struct CompactionSummary {
    let lines: [String]

    init(_ counters: PipelineCounters) {
        let (compact, merge) = (counters.compact, counters.merge)
        lines = [
            Self.line(
                "bytes written",
                [
                    ("blocks", counters.sync[.bytes]), ("footers", compact[.footerBytes]),
                    ("sealed runs", compact[.sealedBytes]), ("merged runs", merge[.bytes]),
                    ("live runs", compact[.liveBytes]), ("names", compact[.namesBytes]),
                    ("merged names", merge[.namesBytes]),
                    ("manifests", compact[.manifestBytes]),
                ]),
            Self.line(
                "rows by reward and day",
                [
                    ("in sealed runs", compact[.sealedRows]), ("in live runs", compact[.liveRows]),
                    ("read by merges", merge[.rowsRead]), ("written by merges", merge[.rows]),
                ]),
            Self.line(
                "nanoseconds on a core",
                [
                    ("fold", compact[.foldNanoseconds]), ("seal", compact[.sealNanoseconds]),
                    ("sealed runs", compact[.sealedNanoseconds]),
                    ("live runs", compact[.liveNanoseconds]),
                    ("names", compact[.namesNanoseconds]),
                    ("generations in all", compact[.publishNanoseconds]),
                    ("merges", merge[.nanoseconds]),
                ]),
            Self.line(
                "counted",
                [
                    ("generations", compact[.manifests]), ("merges", merge[.merges]),
                    ("files that could not be removed", compact[.unlinkFailures]),
                    ("waits for the disk", counters.sync[.waits]),
                    ("refused by the disk", compact[.refusals] &+ merge[.refusals]),
                ]),
        ]
    }

    private static func line(_ title: String, _ values: [(String, UInt64)]) -> String {
        "\(title): " + values.map { "\($0) \($1)" }.joined(separator: ", ")
    }
}
