// packet → [decode] → ring → [admit] → block → segment → compaction → snapshot → [query]
import CIngestLinux

/// The keyed 64-bit hash of a data directory: of names for the dictionary, of event ids for the log and
/// the index of repeats. Its key is drawn once, stands in the manifest, and never leaves the directory,
/// so that no sender can choose ids that collide.
///
/// Algorithm 1: AES rounds, at least four for each 16 bytes taken in and four at the end, bound to the
/// byte count. The construction and its reasons are in `keyed_hash.c`. CPUs without AES instructions
/// compute the same values in software.
///
/// **Cost** 2–4 ns for a name or id. What is derived of the key takes 1.3 KB, made once; copies share it.
@safe package struct KeyedHash: Sendable {
    /// The number of the algorithm in the manifest.
    package static let algorithm: UInt8 = 1
    package static let keyByteCount = 32

    private let derived: Derived

    package init(key: InlineArray<32, UInt8>) { derived = Derived(key) }

    /// `nil` unless there are 32 bytes.
    package init?(key: [UInt8]) {
        guard key.count == Self.keyByteCount else { return nil }
        self.init(key: InlineArray { key[$0] })
    }

    /// Hash of a name: reward, business, platform, campaign or source.
    ///
    /// `byteCount` is 0 … 128; what is longer was refused before (a precondition).
    @unsafe package func name(_ bytes: UnsafeRawPointer, _ byteCount: Int) -> UInt64 {
        precondition(byteCount >= 0 && byteCount <= Limits.nameByteCountMax)
        return withExtendedLifetime(derived) { unsafe Self.name(subkeys, bytes, byteCount) }
    }

    /// Hash of an event id within its business, so that equal ids of two businesses differ.
    ///
    /// `byteCount` is 0 … 64. An id of 36 bytes that is a UUID in text is hashed as its 16 bytes.
    @unsafe package func event(
        businessHash: UInt64, id: UnsafeRawPointer, _ byteCount: Int
    ) -> UInt64 {
        precondition(byteCount >= 0 && byteCount <= Limits.eventIDByteCountMax)
        return withExtendedLifetime(derived) {
            unsafe Self.event(subkeys, businessHash, id, byteCount)
        }
    }

    /// What rows and the dedup index know an event by: ad servers give an impression, its click and its redemption the same
    /// id, so that it is one of each type.
    /// - Parameters:
    ///   - hash: of the id within its business.
    ///   - type: raw value of `EventType`.
    @inline(__always)
    package static func event(_ hash: UInt64, ofType type: UInt8) -> UInt64 {
        hash &+ UInt64(type) &* 0x9E37_79B9_7F4A_7C15
    }

    /// Hash of an event id of 1 to 64 bytes within its business.
    package func event(business: [UInt8], id: [UInt8]) -> UInt64 {
        let businessHash = name(business)
        // SAFETY: the buffer is valid inside the closure, and not empty.
        return unsafe id.withUnsafeBytes {
            unsafe event(businessHash: businessHash, id: $0.baseAddress!, $0.count)
        }
    }

    /// Hash of a reward and its business, 1 to 128 bytes each (a precondition).
    @unsafe package func pair(
        reward: UnsafeRawBufferPointer, business: UnsafeRawBufferPointer
    ) -> PairHash {
        let sizes = 1...Limits.nameByteCountMax
        precondition(sizes.contains(reward.count) && sizes.contains(business.count))
        // SAFETY: neither buffer is empty, and the C function reads no more than they have.
        let hash = withExtendedLifetime(derived) {
            unsafe ingest_hash_pair(
                subkeys, reward.baseAddress!, reward.count, business.baseAddress!, business.count)
        }
        return PairHash(low: hash.low, tag: hash.tag)
    }

    /// Hash of two names of 1 to 128 bytes each.
    package func pair(reward: [UInt8], business: [UInt8]) -> PairHash {
        // SAFETY: the buffers are valid inside the closures.
        unsafe reward.withUnsafeBytes { reward in
            unsafe business.withUnsafeBytes { unsafe pair(reward: reward, business: $0) }
        }
    }

    /// Hash of a name of 1 to 128 bytes (a precondition).
    @unsafe package func name(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        unsafe name(bytes.baseAddress!, bytes.count)
    }

    package func name(_ bytes: [UInt8]) -> UInt64 {
        // SAFETY: the buffer is valid inside the closure; an empty one is replaced by a stand-in base.
        unsafe bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else {
                return unsafe withUnsafeBytes(of: 0 as UInt8) {
                    unsafe name($0.baseAddress!, 0)
                }
            }
            return unsafe name(base, buffer.count)
        }
    }
}

// MARK: For decoders, which take the subkeys' address once a packet and have checked the byte counts

extension KeyedHash {
    /// SAFETY (caller): a copy of this hash is kept for as long as they are used.
    @inline(__always)
    @unsafe var subkeys: UnsafePointer<ingest_hash_key> { unsafe derived.subkeys }

    /// What is derived of a key: in one place, since it is too large to be copied for a call.
    ///
    /// `@unchecked Sendable`: written once, by `init`, and only read then.
    @safe fileprivate final class Derived: @unchecked Sendable {
        let subkeys: UnsafePointer<ingest_hash_key>

        init(_ key: InlineArray<32, UInt8>) {
            var key = key
            let made = UnsafeMutablePointer<ingest_hash_key>.allocate(capacity: 1)
            unsafe made.initialize(to: ingest_hash_key())
            // SAFETY: the C function reads 32 bytes of the key and writes to `made`.
            unsafe withUnsafeBytes(of: &key) { bytes in
                let base = unsafe bytes.assumingMemoryBound(to: UInt8.self).baseAddress!
                unsafe ingest_hash_key_derive(made, base)
            }
            unsafe subkeys = UnsafePointer(made)
        }

        deinit { unsafe subkeys.deallocate() }
    }

    @inline(__always)
    @unsafe static func name(
        _ key: UnsafePointer<ingest_hash_key>, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> UInt64 {
        // SAFETY: the caller vouches for `byteCount` ≤ 128 bytes; the C function reads no more.
        unsafe ingest_hash(key, UInt32(INGEST_HASH_NAME), 0, bytes, byteCount)
    }

    @inline(__always)
    @unsafe static func event(
        _ key: UnsafePointer<ingest_hash_key>, _ businessHash: UInt64, _ id: UnsafeRawPointer,
        _ byteCount: Int
    ) -> UInt64 {
        // SAFETY: the caller vouches for `byteCount` ≤ 64 bytes; the C function reads no more.
        if byteCount == UUIDText.byteCount, let uuid = unsafe UUIDText.parse(id) {
            return unsafe withUnsafeBytes(of: uuid) {
                unsafe ingest_hash(
                    key, UInt32(INGEST_HASH_EVENT), businessHash, $0.baseAddress, $0.count)
            }
        }
        return unsafe ingest_hash(key, UInt32(INGEST_HASH_EVENT), businessHash, id, byteCount)
    }
}

/// 96 bits of keyed hash over the names of a reward and its business, each with its length. In memory only.
///
/// That any two of n pairs have the same is n² / 2^97: 1.8e-15 at 16.7 million, the most that a directory can hold.
public struct PairHash: Hashable, Sendable, BitwiseCopyable {
    public let low: UInt64
    public let tag: UInt32
}

/// The finish of SplitMix64.
public enum SplitMix {
    /// Every bit of `bits` reaches every bit of the result; one to one.
    ///
    /// With a secret among the bits (`bits ^ seed`) values cannot be chosen to collide in a table.
    /// **Cost** 2 ns.
    @inline(__always)
    public static func finish(_ bits: UInt64) -> UInt64 {
        var mixed = bits
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
