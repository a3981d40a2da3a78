// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// What `--version` prints: the release, and the versions of what it reads.
enum ReaderVersion {
    static let text = "\(ReaderProgram.name) \(Release.version), files \(FileEnvelope.version)"
}
