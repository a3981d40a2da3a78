// sender → [probe] → socket

import CIngestLinux
import Glibc
import IngestFormat
import IngestKeys

/// What a receiver answers to a probe: it is there, takes the key, and has this clock. A probe is no event, opens no window
/// and is not counted.
public struct ReceiverProbe: Equatable, Sendable {
    /// Of the receiver's data directory.
    public let directoryID: UInt64
    /// The shortest of some.
    public let roundTripNanoseconds: UInt64
    /// By how much the receiver's clock is ahead of this machine's, exact to half of the round trip.
    public let clockLeadMicroseconds: Int64
    /// Versions of packets that it takes.
    public let versions: ClosedRange<Int>
    /// The largest packet that it takes.
    public let packetByteCountMax: Int

    private static let probeCount = 5
    private static let waitMillisecondsMax: Int32 = 1_000

    /// Asks a receiver, five times at most.
    ///
    /// - Parameters:
    ///   - address: HOST:PORT.
    ///   - sender: whose key it is; `nil` is that of the key, or any.
    ///
    /// **Errors** `ClientError.noAnswer` after 5 s: nobody is there, or the key is none of the receiver's, which does not say
    /// which; `badAddress`, `unresolved`, `notListening`, `socket`.
    /// **Cost** Five round trips; blocks the thread.
    public static func ask(
        _ address: String, sender: UInt64? = nil, key: EventSender.Key? = nil
    ) throws(ClientError) -> ReceiverProbe {
        let transport = try UDPTransport(address: address)
        let identity = SenderIdentity(
            sender: SenderID(rawValue: sender ?? key?.sender ?? .random(in: 1...UInt64.max)),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
        var best: ReceiverProbe?
        for _ in 0..<probeCount {
            guard let answer = try ask(transport, identity, key?.key) else {
                // What was there before has had its chance.
                if best != nil { break }
                continue
            }
            if answer.roundTripNanoseconds < best?.roundTripNanoseconds ?? .max { best = answer }
        }
        guard let best else {
            throw .noAnswer(
                address: address, seconds: UInt64(probeCount) * UInt64(waitMillisecondsMax) / 1_000)
        }
        return best
    }

    /// Sends one probe and waits for its answer; `nil` if none came.
    private static func ask(
        _ transport: UDPTransport, _ identity: SenderIdentity, _ key: PacketKey?
    ) throws(ClientError) -> ReceiverProbe? {
        let sentAt = SenderClock.monotonicNanoseconds()
        let now = Int64(SenderClock.unixNanoseconds() / 1_000)
        let probe = Probe(nonce: .random(in: 0...UInt64.max), unixMicroseconds: now)
        let header = PacketHeader(
            kind: .probe, flags: key == nil ? 0 : PacketHeader.Flags.hasTag, keyID: key?.id ?? 0,
            sender: identity.sender, epoch: identity.epoch, sequence: PacketSequence(rawValue: 0))
        var packet = probe.packet(header)
        key?.tag.append(to: &packet)
        try transport.send(packet.span, segmentByteCount: packet.count)
        let deadline = sentAt + UInt64(waitMillisecondsMax) * 1_000_000
        while true {
            let waited = SenderClock.monotonicNanoseconds()
            guard waited < deadline else { return nil }
            var waiting = pollfd(fd: transport.socket, events: Int16(POLLIN), revents: 0)
            // SAFETY: the kernel writes into one pollfd.
            let count = unsafe poll(&waiting, 1, Int32((deadline - waited) / 1_000_000) + 1)
            try transport.checkNetworkError()
            guard count == 1 else { continue }
            let heardAt = SenderClock.monotonicNanoseconds()
            guard let answer = receive(from: transport, key), answer.nonce == probe.nonce else {
                continue
            }
            let roundTrip = heardAt - sentAt
            // Versions of a hostile answer may be the wrong way round.
            let lowest = min(answer.lowestVersion, answer.highestVersion)
            return ReceiverProbe(
                directoryID: answer.directory.rawValue, roundTripNanoseconds: roundTrip,
                clockLeadMicroseconds: answer.unixMicroseconds &- now
                    &- Int64(roundTrip / 2_000),
                versions: Int(lowest)...Int(max(lowest, answer.highestVersion)),
                packetByteCountMax: Int(answer.packetByteCountMax))
        }
    }

    /// A datagram that is an answer and has the key's tag.
    private static func receive(from transport: UDPTransport, _ key: PacketKey?) -> ProbeAnswer? {
        var bytes = [UInt8](repeating: 0, count: 2_048)
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let count = unsafe recv(transport.socket, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return nil }
        return unsafe bytes.withUnsafeBytes { bytes in
            let packet = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
            guard case .packet(let header) = unsafe PacketHeader.parse(packet, for: .sender)
            else { return nil }
            if let key {
                guard header.hasTag, header.keyID == key.id, unsafe key.tag.isTag(of: packet)
                else { return nil }
            }
            return unsafe ProbeAnswer(header, of: packet)
        }
    }
}
