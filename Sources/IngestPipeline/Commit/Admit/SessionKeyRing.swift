// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage
import Synchronization

/// The durable keys of the pseudonyms of sessions: renewed by the compact stage, used by the commit stage, which looks
/// once a block whether they are still the same.
package final class SessionKeyRing: Sendable {
    /// The keys at one time.
    struct Keys: Sendable {
        fileprivate var version = -1
        /// `nil` if there is none.
        fileprivate(set) var newest: SessionKey?
        /// The newest first.
        fileprivate(set) var older: [SessionKey] = []
    }

    private let keys = Mutex(Keys())
    private let version = Atomic<Int>(-1)

    package init() {}

    var current: Keys { keys.withLock { $0 } }

    func replace(by keys: SessionKeys?) {
        let all = (keys?.keys ?? []).filter { $0.madeAt != 0 }
        self.keys.withLock {
            $0 = Keys(version: $0.version + 1, newest: all.first, older: Array(all.dropFirst()))
            // Relaxed, partner: `refresh`; the lock orders the keys.
            version.store($0.version, ordering: .relaxed)
        }
    }

    /// Brings a copy up to date.
    /// - Returns: whether it was not.
    /// **Cost** One load while nothing was replaced.
    func refresh(_ copy: inout Keys) -> Bool {
        guard version.load(ordering: .relaxed) != copy.version else { return false }
        copy = current
        return true
    }
}

/// The file of the keys of the pseudonyms of sessions. Owned by the compact stage.
///
/// What the disk does not take leaves the keys as they are; without a key sessions are not looked at, and their events are
/// shown as unchecked.
package struct SessionKeyFile<Files: FileSystem>: Sendable {
    private let files: Files
    private var keys: SessionKeys
    package let ring = SessionKeyRing()
    private var nextLookNanoseconds: UInt64 = 0
    private static var lookIntervalNanoseconds: UInt64 { 60_000_000_000 }

    /// Reads the keys, and makes those that are due.
    ///
    /// - Parameter now: µs since 1970.
    /// - Returns: beside the keys what is to be told, if something went wrong: that is no reason not to start.
    static func open(
        in files: Files, directory: DirectoryID, now: Int64
    ) -> (file: SessionKeyFile, warning: String?) {
        var warning: String?
        let found: SessionKeys?
        do { found = try read(in: files, directory) } catch {
            warning = "\(error); new keys are made, sessions that were going on begin anew"
            found = nil
        }
        var file = SessionKeyFile(
            files: files, keys: found ?? SessionKeys(directory: directory))
        file.ring.replace(by: file.keys)
        let refusal = file.renew(now: now)
        return (file, refusal ?? warning)
    }

    private init(files: Files, keys: SessionKeys) { (self.files, self.keys) = (files, keys) }

    private static func read(
        in files: Files, _ directory: DirectoryID
    ) throws(StorageError) -> SessionKeys? {
        let file: Files.File
        do { file = try files.open(FileName.sessionKeys.text, .read) } catch {
            guard case .notFound = error else { throw error }
            return nil
        }
        let bytes = try file.readArray(at: 0, byteCount: SessionKeys.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try SessionKeys.decode(bytes, directory: directory)
        }
    }

    /// Makes and destroys keys as time goes on; looks once a minute.
    /// - Returns: what went wrong, if something did.
    mutating func goOn(_ clock: some IngestClock) -> String? {
        let monotonic = clock.monotonicNanoseconds()
        guard monotonic >= nextLookNanoseconds else { return nil }
        nextLookNanoseconds = monotonic &+ Self.lookIntervalNanoseconds
        return renew(now: clock.wallMicroseconds())
    }

    private mutating func renew(now: Int64) -> String? {
        var next = keys
        var random = SystemRandomNumberGenerator()
        guard next.renew(at: now, random: &random) else { return nil }
        do throws(StorageError) {
            try write(next)
        } catch {
            // Keys whose time is over are not used any more, whatever the disk still has.
            next.keepKnown(of: keys)
            keys = next
            ring.replace(by: keys)
            return
                "the keys of sessions could not be renewed: \(error); it is tried again in a minute"
        }
        keys = next
        ring.replace(by: keys)
        return nil
    }

    /// Replaces the file, and writes zeros over the one that was there: keys are destroyed, not only unlinked.
    private func write(_ keys: SessionKeys) throws(StorageError) {
        let name = FileName.sessionKeys
        let old = try? files.open(name.text, .readWrite)
        let image = keys.encode()
        try DurableFile.write(name, in: files) { (recorder) throws(StorageError) in
            try recorder.append(image)
        }
        try files.syncDirectory()
        guard let old else { return }
        try old.write([UInt8](repeating: 0, count: SessionKeys.byteCount), at: 0)
        try old.syncData()
    }
}
