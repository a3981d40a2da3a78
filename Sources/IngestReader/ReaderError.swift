// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

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

extension ReaderError {
    /// What to do about a file: what is derived from the log is made again from it.
    static func advice(onDamaged path: String) -> String {
        switch path.split(separator: "/").last.flatMap({ FileName(String($0)) }) {
        case .manifest?, .run(.rewards, _)?, .run(.days, _)?, .run(.rewardDays, _)?,
            .run(.names, _)?:
            "stop the daemon and run ingest-reader rebuild, which makes the file again from the log"
        case .durableMark?: "restart the daemon: a start makes the file again"
        default: "run ingest-reader verify, restore the file from a copy"
        }
    }

    /// Bytes of `path` that a decoder refused.
    package init(_ error: FormatError, path: String) {
        let fault = error.fault
        switch error {
        case .newerFormat:
            self.init(
                kind: .newerFormat,
                what: "written by a newer version (\(fault.field) \(fault.got))", path: path,
                offset: UInt64(clamping: fault.offset), advice: "use that version")
        case .torn, .corrupt, .notThisFile:
            self.init(
                kind: .corrupt, what: "corrupt: \(fault.comparison)", path: path,
                offset: UInt64(clamping: fault.offset), advice: Self.advice(onDamaged: path))
        }
    }

    package init(_ error: StorageError) {
        switch error {
        case .notFound(let path):
            self.init(kind: .notFound, what: "no such file", path: path, advice: "check the path")
        case .missingDirectory(let path):
            self.init(
                kind: .notFound, what: "no such directory", path: path.isEmpty ? "''" : path,
                advice: "check the path, and that it is a directory")
        case .foreignDirectory(let path, _):
            self.init(
                kind: .missingManifest, what: "not a data directory of ingestd", path: path,
                advice: "check the path")
        case .missingManifest(let directory, 0):
            self.init(
                kind: .missingManifest, what: "not a data directory of ingestd", path: directory,
                advice: "check the path")
        case .missingManifest(let directory, let fileCount):
            self.init(
                kind: .missingManifest, what: "no manifest beside \(fileCount) log files",
                path: directory,
                advice: "restore the *.manifest files, or run ingest-reader rebuild")
        case .corrupt(let path, let offset, let detail):
            self.init(
                kind: .corrupt, what: "corrupt: \(detail)", path: path, offset: offset,
                advice: Self.advice(onDamaged: path))
        case .overLimit(let path, let detail):
            self.init(
                kind: .corrupt, what: "corrupt: over a limit: \(detail)", path: path,
                advice: Self.advice(onDamaged: path))
        case .removed(let path, let detail):
            self.init(
                kind: .corrupt, what: detail, path: path, advice: Self.advice(onDamaged: path))
        case .newerFormat(let path, let version):
            self.init(
                kind: .newerFormat, what: "written by a newer version (format \(version))",
                path: path, advice: "use that version")
        case .io(let path, let call, let errno), .diskFull(let path, let call, let errno, _),
            .durabilityLost(let path, let call, let errno):
            self.init(
                kind: .io, what: "\(call) failed: \(StorageError.text(errno))", path: path,
                advice: error.remedy)
        case .alreadyExists(let path):
            self.init(
                kind: .io, what: "the file exists already", path: path,
                advice: "it is not overwritten: check what created it")
        case .locked(let path, let holder):
            let daemon = "another daemon" + (holder.map { " (pid \($0))" } ?? "")
            self.init(
                kind: .io, what: "\(daemon) uses this directory", path: path,
                advice: "stop it or use another")
        }
    }
}
