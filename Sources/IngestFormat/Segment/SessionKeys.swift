// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// One key of pseudonyms of sessions.
package struct SessionKey: Hashable, Sendable {
    /// Microseconds since 1970 UTC; 0 = no key.
    package var madeAt: Int64 = 0
    /// The first and the last 8 of its 16 bytes, little-endian.
    package var low: UInt64 = 0
    package var high: UInt64 = 0

    package init() {}

    package init(madeAt: Int64, random: inout some RandomNumberGenerator) {
        (self.madeAt, low, high) = (madeAt, random.next(), random.next())
    }

    /// The pseudonyms of sessions: 48 bits of SipHash-2-4 of the id of each. Two of n sessions have the same with a chance of
    /// n² / 2^49: a new one meets one of 16 million that are known with 6e-8.
    ///
    /// **Cost** Of 24 bytes 5 to 17 ns each (`ingest_siphash`).
    @unsafe package func pseudonyms(
        of ids: UnsafePointer<ingest_text>, _ count: Int,
        into pseudonyms: UnsafeMutablePointer<UInt64>
    ) {
        // SAFETY: the caller vouches for the bytes, and for the room.
        unsafe ingest_siphash(low, high, ids, count, pseudonyms)
        for index in 0..<count { unsafe pseudonyms[index] &= 0xFFFF_FFFF_FFFF }
    }

    /// That of one session.
    @unsafe package func pseudonym(of id: ingest_text) -> UInt64 {
        var pseudonym: UInt64 = 0
        unsafe withUnsafePointer(to: id) { id in unsafe pseudonyms(of: id, 1, into: &pseudonym) }
        return pseudonym
    }
}

/// The keys of the pseudonyms of sessions: one a day, each destroyed 48 hours after it was made. The file is no part of the
/// log: without it sessions begin anew, and all counters stay.
///
/// **Layout** docs/format/session-keys.md: 128 bytes.
package struct SessionKeys: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .reserved(2), .id("directory", \.directory),
        .int("first made at", \.keys[0].madeAt), .int("first low", \.keys[0].low),
        .int("first high", \.keys[0].high),
        .int("second made at", \.keys[1].madeAt), .int("second low", \.keys[1].low),
        .int("second high", \.keys[1].high),
        .int("third made at", \.keys[2].madeAt), .int("third low", \.keys[2].low),
        .int("third high", \.keys[2].high),
        .int("destroyed at", \.destroyedAt[0]), .int("one before at", \.destroyedAt[1]),
        .int("two before at", \.destroyedAt[2]), .reserved(12, "reserved end"), .checksum)
    package static let byteCount = layout.byteCount
    /// `IGK1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x314B_4749
    /// Made on different days within 48 hours.
    package static let countMax = 3
    /// How long a key is kept, µs.
    package static let lifeMicroseconds: Int64 = 48 * 3_600_000_000
    private static let dayMicroseconds: Int64 = 86_400_000_000

    package var directory: DirectoryID
    /// The newest first; three of them.
    package private(set) var keys = [SessionKey](repeating: SessionKey(), count: countMax)
    /// When keys were destroyed, microseconds since 1970 UTC, the last time first; 0 = never. Within the life of a key that is
    /// three times at most.
    package private(set) var destroyedAt = [Int64](repeating: 0, count: countMax)

    package init(directory: DirectoryID) { self.directory = directory }

    /// The key that new sessions get; `nil` if there is none.
    package var newest: SessionKey? { keys[0].madeAt == 0 ? nil : keys[0] }

    /// Destroys keys whose time is over, and makes one if there is none of this day (UTC).
    ///
    /// A key that is from the future was made by a clock that was ahead, and is as old as one can be.
    /// What changed has to be durable before the new key is used.
    package mutating func renew(at now: Int64, random: inout some RandomNumberGenerator) {
        var kept = keys.filter {
            $0.madeAt > 0 && $0.madeAt <= now && now &- $0.madeAt < Self.lifeMicroseconds
        }
        let day = now / Self.dayMicroseconds
        if kept.first.map({ $0.madeAt / Self.dayMicroseconds < day }) ?? true {
            kept.insert(SessionKey(madeAt: max(now, 1), random: &random), at: 0)
        }
        if keys.contains(where: { $0.madeAt != 0 && !kept.prefix(Self.countMax).contains($0) }) {
            destroyedAt = [max(now, 1)] + destroyedAt.dropLast()
        }
        let missing = max(0, Self.countMax - kept.count)
        keys = Array((kept + Array(repeating: SessionKey(), count: missing)).prefix(Self.countMax))
    }

    /// Takes those keys out that `known` has not: they are not durable.
    package mutating func keepKnown(of known: SessionKeys) {
        let kept = keys.filter { $0.madeAt != 0 && known.keys.contains($0) }
        let missing = Self.countMax - kept.count
        keys = kept + [SessionKey](repeating: SessionKey(), count: missing)
    }

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory, `nil` = any.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil
    ) throws(FormatError) -> SessionKeys {
        let reader = try layout.open(bytes, magic: magic, of: directory)
        return try layout.load(
            reader, into: SessionKeys(directory: directory ?? DirectoryID(rawValue: 0)))
    }
}
