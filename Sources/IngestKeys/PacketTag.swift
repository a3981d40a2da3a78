// packet → [tag] → decode → …

import Crypto
import IngestFormat

/// The tag of a packet: the first 16 bytes of HMAC-SHA-256 over everything before it.
package struct PacketTag: Sendable, BitwiseCopyable {
    package static let byteCount = Limits.packetTagByteCount

    /// Bytes 0–7 and 8–15, as they lie in memory.
    fileprivate let front: UInt64
    fileprivate let back: UInt64

    /// Reads 16 bytes from the front of `bytes`.
    @unsafe package init(_ bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count >= Self.byteCount)
        // SAFETY: 16 bytes are there, checked above.
        unsafe front = bytes.loadUnaligned(as: UInt64.self)
        unsafe back = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }

    /// Writes 16 bytes to the front of `bytes`.
    @unsafe package func store(_ bytes: UnsafeMutableRawBufferPointer) {
        precondition(bytes.count >= Self.byteCount)
        // SAFETY: 16 bytes are there, checked above.
        unsafe bytes.storeBytes(of: front, as: UInt64.self)
        unsafe bytes.storeBytes(of: back, toByteOffset: 8, as: UInt64.self)
    }
}

extension PacketTag: Equatable {
    /// In constant time: all bits are compared before anything depends on one of them.
    package static func == (a: Self, b: Self) -> Bool {
        (a.front ^ b.front) | (a.back ^ b.back) == 0
    }
}

/// A key, prepared to tag packets: SHA-256 over the inner and the outer pad is done once.
///
/// **Cost** A packet of 1,400 bytes takes 24 blocks of SHA-256 and two small allocations, in which
/// swift-crypto keeps the copies of the prepared states (docs/decisions/0030-tags.md has the figures).
/// **Source** RFC 2104; RFC 4231 (test vectors); RFC 4868 for the 128 bits.
package struct TagKey: Sendable {
    private static let blockByteCount = 64

    private let inner: SHA256
    private let outer: SHA256

    /// - Parameter key: any number of bytes; one of a keys file has at least 16.
    package init(_ key: [UInt8]) {
        var block = key
        if key.count > Self.blockByteCount {
            var hash = SHA256()
            Self.update(&hash, key)
            block = Array(hash.finalize())
        }
        block += repeatElement(0, count: Self.blockByteCount - block.count)
        var inner = SHA256()
        Self.update(&inner, block.map { $0 ^ 0x36 })
        var outer = SHA256()
        Self.update(&outer, block.map { $0 ^ 0x5C })
        self.inner = inner
        self.outer = outer
    }

    private static func update(_ hash: inout SHA256, _ bytes: [UInt8]) {
        // SAFETY: the buffer is valid inside the closure.
        unsafe bytes.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
    }

    /// The tag over `bytes`: header and payload.
    @unsafe package func tag(over bytes: UnsafeRawBufferPointer) -> PacketTag {
        var hash = inner
        unsafe hash.update(bufferPointer: bytes)
        let digest = hash.finalize()
        hash = outer
        // SAFETY: the buffer is the digest's own storage, valid inside the closure.
        unsafe digest.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
        return unsafe hash.finalize().withUnsafeBytes { unsafe PacketTag($0) }
    }

    /// Whether the last 16 bytes of `packet` are the tag over those before them.
    @unsafe package func isTag(of packet: UnsafeRawBufferPointer) -> Bool {
        let covered = packet.count - PacketTag.byteCount
        guard covered >= 0 else { return false }
        // SAFETY: both parts lie inside the packet, by the line above.
        let tag = unsafe PacketTag(UnsafeRawBufferPointer(rebasing: packet[covered...]))
        return unsafe self.tag(over: UnsafeRawBufferPointer(rebasing: packet[..<covered])) == tag
    }

    /// Writes the tag into the last 16 bytes of `packet`, which are its room.
    @unsafe package func seal(_ packet: UnsafeMutableRawBufferPointer) {
        let covered = packet.count - PacketTag.byteCount
        precondition(covered >= 0)
        // SAFETY: both parts lie inside the packet, by the check above.
        let tag = unsafe self.tag(
            over: UnsafeRawBufferPointer(
                UnsafeMutableRawBufferPointer(rebasing: packet[..<covered])))
        unsafe tag.store(UnsafeMutableRawBufferPointer(rebasing: packet[covered...]))
    }

    /// Appends the tag to a sealed packet.
    package func append(to packet: inout [UInt8]) {
        packet += repeatElement(0, count: PacketTag.byteCount)
        // SAFETY: the buffer is valid inside the closure.
        unsafe packet.withUnsafeMutableBytes { unsafe seal($0) }
    }
}
