// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

/// Why a data directory could not be read: what, where, what to do.
public struct ReaderError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// The directory, or a file asked for by name, is not there.
        case notFound
        /// Log files without a manifest: the directory is damaged, or not one of ours.
        case missingManifest
        /// Bytes on disk fail a check.
        case corrupt
        /// Written by a later release.
        case newerFormat
        /// The system refused a call, or the directory changed under the reader again and again.
        case io
        /// The caller asked to stop.
        case cancelled
    }

    public let kind: Kind
    /// What is wrong, without the path.
    public let what: String
    /// The file or directory.
    public let path: String
    /// Where in the file; `nil` where no place is meant. Bytes.
    public let offset: UInt64?
    /// What to do about it.
    public let advice: String

    public init(kind: Kind, what: String, path: String, offset: UInt64? = nil, advice: String) {
        self.kind = kind
        self.what = what
        self.path = path
        self.offset = offset
        self.advice = advice
    }
}

extension ReaderError: CustomStringConvertible {
    /// One line: `what, path at offset n, advice`.
    public var description: String {
        "\(what), \(path)" + (offset.map { " at offset \($0)" } ?? "") + ", \(advice)"
    }
}
