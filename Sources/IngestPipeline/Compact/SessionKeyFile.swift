// packet → decode → ring → [admit] → block → segment → [compaction] → snapshot → query
import IngestFormat
import IngestRules
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
        /// As in `SessionKeys`.
        fileprivate(set) var destroyedAt: [Int64] = []
    }

    private let keys = Mutex(Keys())
    private let version = Atomic<Int>(-1)

    package init() {}

    var current: Keys { keys.withLock { $0 } }

    package func replace(by keys: SessionKeys?) {
        let all = (keys?.keys ?? []).filter { $0.madeAt != 0 }
        self.keys.withLock {
            $0 = Keys(
                version: $0.version + 1, newest: all.first, older: Array(all.dropFirst()),
                destroyedAt: keys?.destroyedAt ?? [])
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
    private let store: SessionKeyStore<Files>
    /// In use; the file may still have others, where it could not be written.
    private var keys: SessionKeys
    private var durable: SessionKeys?
    package let ring = SessionKeyRing()
    private var nextLookNanoseconds: UInt64 = 0
    private static var lookIntervalNanoseconds: UInt64 { 60_000_000_000 }

    /// Reads the keys, and makes those that are due; destroys all where sessions are not looked at.
    ///
    /// - Parameter now: µs since 1970.
    /// - Returns: beside the keys what is to be told, if something went wrong: that is no reason not to start.
    static func open(
        _ policy: SessionPolicy = SessionPolicy(), in files: Files, directory: DirectoryID,
        now: Int64
    ) -> (file: SessionKeyFile?, warning: String?) {
        let store = SessionKeyStore(files: files, directory: directory)
        guard policy.isOn else {
            do { try store.remove() } catch {
                return (nil, "the keys of sessions could not be destroyed: \(error)")
            }
            return (nil, nil)
        }
        var warning: String?
        let found: SessionKeys?
        do { found = try store.read() } catch {
            // Those of a later release are left alone, also where it was not seen before.
            if case .newerFormat = error { return (nil, "\(error)") }
            warning =
                "\(error.finding); new keys are made, sessions that were going on begin anew"
            found = nil
        }
        var file = SessionKeyFile(
            store: store, keys: found ?? SessionKeys(directory: directory), durable: found)
        file.ring.replace(by: file.keys)
        let refusal = file.renew(now: now)
        return (file, refusal ?? warning)
    }

    private init(store: SessionKeyStore<Files>, keys: SessionKeys, durable: SessionKeys?) {
        (self.store, self.keys, self.durable) = (store, keys, durable)
    }

    /// Makes and destroys keys as time goes on; looks once a minute.
    ///
    /// - Parameter stepSeconds: how far the wall clock is ahead of the time that events are admitted by.
    /// - Returns: what went wrong, if something did.
    mutating func goOn(_ clock: some IngestClock, stepSeconds: Int64 = 0) -> String? {
        let monotonic = clock.monotonicNanoseconds()
        guard monotonic >= nextLookNanoseconds else { return nil }
        nextLookNanoseconds = monotonic &+ Self.lookIntervalNanoseconds
        return renew(now: clock.wallMicroseconds() &- stepSeconds &* 1_000_000)
    }

    private mutating func renew(now: Int64) -> String? {
        var next = keys
        var random = SystemRandomNumberGenerator()
        next.renew(at: now, random: &random)
        if next == durable { return nil }
        do throws(StorageError) {
            try store.write(next)
        } catch {
            // Keys whose time is over are not used any more, whatever the disk still has.
            next.keepKnown(of: keys)
            keys = next
            ring.replace(by: keys)
            return
                "the keys of sessions could not be renewed: \(error); it is tried again in a minute"
        }
        (keys, durable) = (next, next)
        ring.replace(by: keys)
        return nil
    }
}
