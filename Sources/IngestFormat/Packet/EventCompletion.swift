// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query
import CIngestLinux

/// The end of every event's decoding, whichever way it came: the rules of the schema, then the hashes.
///
/// **Rules** Type, reward and business are there; names are 1–128 bytes of UTF-8, a session 0–64 of
/// UTF-8, an event id 0–64 of anything; money is 0 … `Limits.moneyMicrosMax`; time is within `Limits`;
/// visible share ≤ 1,000,000 ppm; enums hold known values. What breaks one is malformed. Platform,
/// campaign and source are decoration: one that is over 64 bytes, holds an `@` (it might be a person's
/// address) or is not UTF-8 is dropped, the event stays.
struct EventCompletion: Sendable {
    typealias Key = UnsafePointer<ingest_hash_key>

    private let hash: KeyedHash

    init(hash: KeyedHash) { self.hash = hash }

    /// Takes the key's address once for a whole packet.
    @unsafe func withKey<Result>(_ body: (Key) -> Result) -> Result {
        unsafe hash.withSubkeys { unsafe body($0) }
    }

    /// Checks `event`, whose places all lie in `packet`, and takes its hashes; `false` if malformed.
    @inline(__always)
    func complete(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ packet: UnsafeRawPointer, _ key: Key
    ) -> Bool {
        guard unsafe Self.hasValidNumbers(event.pointee) else { return false }
        let reward = unsafe packet + Int(event.pointee.rewardOffset)
        let rewardByteCount = unsafe Int(event.pointee.rewardByteCount)
        let business = unsafe packet + Int(event.pointee.businessOffset)
        let businessByteCount = unsafe Int(event.pointee.businessByteCount)
        // SAFETY: each place was taken from the packet's own bytes, and its count checked above.
        guard unsafe UTF8Text.isValid(reward, rewardByteCount),
            unsafe UTF8Text.isValid(business, businessByteCount),
            unsafe UTF8Text.isValid(
                packet + Int(event.pointee.sessionOffset), Int(event.pointee.sessionByteCount))
        else { return false }
        unsafe event.pointee.rewardHash = KeyedHash.name(key, reward, rewardByteCount)
        let businessHash = unsafe KeyedHash.name(key, business, businessByteCount)
        unsafe event.pointee.businessHash = businessHash
        let idByteCount = unsafe Int(event.pointee.eventIDByteCount)
        if idByteCount > 0 {
            unsafe event.pointee.flags |= EventDescriptor.Flags.hasEventID
            unsafe event.pointee.eventHash = KeyedHash.event(
                key, businessHash, packet + Int(event.pointee.eventIDOffset), idByteCount)
        }
        if unsafe event.pointee.platformByteCount | event.pointee.campaignByteCount
            | event.pointee.sourceByteCount != 0
        {
            unsafe completeAttribution(event, packet, key)
        }
        return true
    }

    @inline(__always)
    private static func hasValidNumbers(_ event: EventDescriptor) -> Bool {
        event.type &- 1 < 3 && event.consent < 3 && event.format < 3
            && event.rewardByteCount &- 1 < UInt8(Limits.nameByteCountMax)
            && event.businessByteCount &- 1 < UInt8(Limits.nameByteCountMax)
            && event.eventIDByteCount <= UInt8(Limits.eventIDByteCountMax)
            && event.sessionByteCount <= UInt8(Limits.sessionIDByteCountMax)
            && event.visiblePartsPerMillion <= Limits.visiblePartsPerMillionMax
            // A negative number is a great one without its sign.
            && UInt64(bitPattern: event.timestampMicroseconds)
                <= UInt64(Limits.timestampMicrosecondsMax)
            && UInt64(bitPattern: event.revenueMicros) <= UInt64(Limits.moneyMicrosMax)
            && UInt64(bitPattern: event.spendMicros) <= UInt64(Limits.moneyMicrosMax)
    }

    private func completeAttribution(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ packet: UnsafeRawPointer, _ key: Key
    ) {
        unsafe Self.completeName(
            &event.pointee.platformOffset, &event.pointee.platformByteCount,
            &event.pointee.platformHash, packet, key)
        unsafe Self.completeName(
            &event.pointee.campaignOffset, &event.pointee.campaignByteCount,
            &event.pointee.campaignHash, packet, key)
        unsafe Self.completeName(
            &event.pointee.sourceOffset, &event.pointee.sourceByteCount,
            &event.pointee.sourceHash, packet, key)
    }

    @inline(__always)
    private static func completeName(
        _ offset: inout UInt16, _ byteCount: inout UInt8, _ hash: inout UInt64,
        _ packet: UnsafeRawPointer, _ key: Key
    ) {
        guard byteCount != 0 else { return }
        let count = Int(byteCount)
        // SAFETY: the place was taken from the packet's own bytes; a count of 255 may stand for more.
        let name = unsafe packet + Int(offset)
        if count <= Limits.attributionByteCountMax, unsafe UTF8Text.isValid(name, count),
            unsafe !UTF8Text.contains(UInt8(ascii: "@"), name, count)
        {
            hash = unsafe KeyedHash.name(key, name, count)
        } else {
            offset = 0
            byteCount = 0
        }
    }
}
