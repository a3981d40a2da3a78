// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query
import IngestFormat
import IngestKeys
import Synchronization

/// The keys that packets are taken under, replaced as a whole while the daemon runs.
///
/// The receive stage checks tags by it, the sync stage tags acks; both look once a batch whether it is still
/// the same.
package final class KeyRing: Sendable {
    /// The keys at one time.
    struct Keys: Sendable {
        fileprivate let version: Int
        private let file: KeysFile
        /// By key id, of keys that are bound to a business: the hash of its name.
        private let businessHashes: [UInt16: UInt64]

        fileprivate init(_ file: KeysFile, hash: KeyedHash, version: Int) {
            self.version = version
            self.file = file
            businessHashes = Dictionary(
                uniqueKeysWithValues: file.keys.compactMap { key in
                    key.business.map { (key.id, hash.name($0)) }
                })
        }

        subscript(id: UInt16) -> PacketKey? { file[id] }

        /// What the businesses of a packet's events must hash to; `nil` = any.
        func businessHash(of key: PacketKey) -> UInt64? {
            key.business == nil ? nil : businessHashes[key.id]
        }

        /// Checks key and tag of a packet whose frame is sound.
        ///
        /// - Returns: the key, or why the packet is refused. No answer says which of key, tag and sender was wrong.
        @unsafe func check(_ packet: UnsafeRawBufferPointer) -> Result<PacketKey, PacketRefusal> {
            // SAFETY: the caller has checked that a header is there.
            let (flags, id, sender) = unsafe (
                packet[PacketHeader.Offset.flags],
                UInt16(
                    littleEndian: packet.loadUnaligned(
                        fromByteOffset: PacketHeader.Offset.keyID, as: UInt16.self)),
                UInt64(
                    littleEndian: packet.loadUnaligned(
                        fromByteOffset: PacketHeader.Offset.sender, as: UInt64.self))
            )
            guard id != 0, flags & PacketHeader.Flags.hasTag != 0 else {
                return .failure(PacketRefusal(.unauthenticated))
            }
            guard let key = file[id], unsafe key.tag.isTag(of: packet),
                key.isFor(SenderID(rawValue: sender))
            else { return .failure(PacketRefusal(.badTag)) }
            return .success(key)
        }
    }

    private let keys: Mutex<Keys>
    private let version = Atomic<Int>(0)
    private let hash: KeyedHash

    /// - Parameter hash: of the directory, by which names are compared.
    package init(_ file: KeysFile, hash: KeyedHash) {
        self.hash = hash
        keys = Mutex(Keys(file, hash: hash, version: 0))
    }

    /// From the next batch on packets are taken under these.
    package func replace(by file: KeysFile) {
        keys.withLock { keys in
            keys = Keys(file, hash: hash, version: keys.version + 1)
            // Relaxed, partner: `refresh`; the lock orders the keys.
            version.store(keys.version, ordering: .relaxed)
        }
    }

    var current: Keys { keys.withLock { $0 } }

    /// Whether the epochs of a sender that have ended under a key have done so under every key: where the key is bound to the
    /// sender, and once it is no longer in the file. A live one that is for any sender says nothing of whose a sender is: another
    /// tenant could end epochs of this one.
    /// **Cost** A lock. For packets of senders that have no window, and had one.
    func holdsEnds(of keyID: UInt16, for sender: SenderID) -> Bool {
        keys.withLock { $0[keyID].map { $0.sender == sender } ?? true }
    }

    /// Brings a copy up to date.
    /// **Cost** One load while nothing was replaced.
    func refresh(_ copy: inout Keys) {
        if version.load(ordering: .relaxed) != copy.version { copy = current }
    }
}

/// Why a packet is refused, as an error.
struct PacketRefusal: Error {
    let result: PacketResult
    init(_ result: PacketResult) { self.result = result }
}
