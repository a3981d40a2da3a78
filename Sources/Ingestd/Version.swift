import IngestFormat

/// What `ingestd --version` prints: the release, and the versions of everything it writes and reads.
enum Version {
    static let release = "0.1.0"

    static let text = "ingestd \(release)"
}
