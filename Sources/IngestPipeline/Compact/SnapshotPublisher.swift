// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Turns sealed segments into the next generation: names run, runs of the three tables, manifest, in the
/// order of writes that leaves either the old generation or the new one. Owned by the compact queue.
package struct SnapshotPublisher<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let store: ManifestStore<Files>
    private let clock: Clock
    private let counters: PipelineCounters
    private(set) var manifest: Manifest
    /// The names of every key up to the manifest's cut, by ordinal.
    private(set) var keys: [RewardKey]

    package init(
        store: ManifestStore<Files>, manifest: Manifest, keys: [RewardKey], clock: Clock,
        counters: PipelineCounters
    ) {
        self.store = store
        self.manifest = manifest
        self.keys = keys
        self.clock = clock
        self.counters = counters
    }

    /// Publishes a generation that covers `segments`, sealed one after the other since the last.
    package mutating func publish(_ segments: [SealedSegmentFile]) throws(PipelineError) {
        var next = manifest
        next.generation = manifest.generation.next
        next.createdAt = clock.wallMicroseconds()
    }
}
