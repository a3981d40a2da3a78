import IngestFormat

/// What `ingestd --version` prints: the release, and the versions of what it reads and writes.
enum Version {
    static let text =
        "ingestd \(Release.version), packets \(Release.packetVersion), files \(FileEnvelope.version)"
}
