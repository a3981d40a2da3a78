// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

/// The payload of a probe: asks whether a daemon is there, takes the key, and what time it has. It opens no window and is
/// not counted.
///
/// **Layout** 64 bytes or more: nonce u64, the sender's time i64 (µs since 1970), then zeros.
package struct Probe: Equatable, Sendable, BitwiseCopyable {
    package static let payloadByteCountMin = 64

    /// What the answer echoes.
    package var nonce: UInt64
    package var unixMicroseconds: Int64

    package init(nonce: UInt64, unixMicroseconds: Int64) {
        (self.nonce, self.unixMicroseconds) = (nonce, unixMicroseconds)
    }

    /// **Errors** `nil` if there are fewer than 64 bytes or a reserved one is not zero: the packet is malformed.
    package init?(_ payload: UnsafeRawBufferPointer) {
        // SAFETY: the reader lives inside this call; the caller's buffer is valid for it.
        var reader = unsafe ByteReader(payload)
        guard payload.count >= Self.payloadByteCountMin, let nonce = reader.readU64(),
            let time = reader.readU64(), reader.skipZeros(reader.remainingByteCount)
        else { return nil }
        self.init(nonce: nonce, unixMicroseconds: Int64(bitPattern: time))
    }

    /// A whole probe packet, without its tag.
    package func packet(_ header: PacketHeader) -> [UInt8] {
        header.packet(
            of: [nonce, UInt64(bitPattern: unixMicroseconds)],
            payloadByteCount: Self.payloadByteCountMin)
    }
}

/// The payload of the answer to a probe.
///
/// **Layout** 32 bytes: nonce u64, the daemon's time i64 (µs since 1970), directory id u64, the lowest and the highest version
/// of packets that it takes u16 each, the largest packet u32.
package struct ProbeAnswer: Equatable, Sendable, BitwiseCopyable {
    package static let payloadByteCount = 32

    /// Within the payload.
    package enum Offset {
        package static let nonce = 0
        package static let time = 8
        package static let directory = 16
        package static let lowestVersion = 24
        package static let highestVersion = 26
        package static let packetByteCountMax = 28
    }

    package var nonce: UInt64
    package var unixMicroseconds: Int64
    package var directory: DirectoryID
    package var lowestVersion: UInt16 = 1
    package var highestVersion: UInt16 = 1
    package var packetByteCountMax = UInt32(Limits.packetByteCountMax)

    package init(nonce: UInt64, unixMicroseconds: Int64, directory: DirectoryID) {
        self.nonce = nonce
        self.unixMicroseconds = unixMicroseconds
        self.directory = directory
    }

    /// - Parameters:
    ///   - header: what `PacketHeader.parse` gave for `packet`.
    ///   - packet: the whole datagram.
    ///
    /// **Errors** `nil` if it is no answer, or its payload is shorter; what a later version has behind these is passed.
    package init?(_ header: PacketHeader, of packet: UnsafeRawBufferPointer) {
        guard header.kind == .probeAnswer, header.payloadByteCount >= Self.payloadByteCount,
            packet.count == header.packetByteCount
        else { return nil }
        // SAFETY: the payload lies inside the packet, checked above; the reader lives inside this call.
        var reader = unsafe ByteReader(
            UnsafeRawBufferPointer(rebasing: packet[PacketHeader.byteCount...]))
        guard let nonce = reader.readU64(), let time = reader.readU64(),
            let directory = reader.readU64(), let bounds = reader.readU64()
        else { return nil }
        self.init(
            nonce: nonce, unixMicroseconds: Int64(bitPattern: time),
            directory: DirectoryID(rawValue: directory))
        lowestVersion = UInt16(truncatingIfNeeded: bounds)
        highestVersion = UInt16(truncatingIfNeeded: bounds >> 16)
        packetByteCountMax = UInt32(truncatingIfNeeded: bounds >> 32)
    }

    /// Bytes of the whole packet.
    package static func byteCount(hasTag: Bool) -> Int {
        PacketHeader.byteCount + payloadByteCount + (hasTag ? Limits.packetTagByteCount : 0)
    }

    /// Writes header and payload into the caller's memory and seals them; the tag is the caller's to append.
    ///
    /// - Parameter packet: at least `byteCount(hasTag: false)` bytes.
    /// - Returns: the bytes written, without tag.
    @unsafe package func encode(
        into packet: UnsafeMutableRawBufferPointer, _ header: PacketHeader
    ) -> Int {
        let byteCount = Self.byteCount(hasTag: false)
        precondition(packet.count >= byteCount)
        func put<Value: FixedWidthInteger & BitwiseCopyable>(_ value: Value, _ offset: Int) {
            // SAFETY: offset + size ≤ byteCount ≤ the buffer's count, checked above.
            unsafe packet.storeBytes(
                of: value.littleEndian, toByteOffset: PacketHeader.byteCount + offset,
                as: Value.self)
        }
        put(nonce, Offset.nonce)
        put(unixMicroseconds, Offset.time)
        put(directory.rawValue, Offset.directory)
        put(lowestVersion, Offset.lowestVersion)
        put(highestVersion, Offset.highestVersion)
        put(packetByteCountMax, Offset.packetByteCountMax)
        var header = header
        // SAFETY: the first `byteCount` bytes of the buffer, which has as many.
        unsafe header.seal(UnsafeMutableRawBufferPointer(rebasing: packet[..<byteCount]))
        return byteCount
    }
}
