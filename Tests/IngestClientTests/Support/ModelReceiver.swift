import IngestFormat
import IngestKeys

/// A receiver of one sender, as docs/protocol.md has it, as plainly as it can be written: what is durable
/// outlives a restart, what is only admitted does not.
struct ModelReceiver {
    private struct Epoch {
        /// Everything that was ever made durable, by sequence.
        var durable: [UInt64: [UInt8]] = [:]
        var admitted: [UInt64: [UInt8]] = [:]
        var floor: UInt64 = 0
        var isOpen = false
    }

    private var epochs: [UInt64: Epoch] = [:]
    var credit: UInt32 = 1_000
    /// With a key only tagged packets are taken, and acks are tagged.
    var key: TagKey?
    /// What is answered while it sheds.
    var shedStatus: AckStatus?
    /// The same sequence came with other bytes, or a base passed a packet that was never durable.
    private(set) var faults: [String] = []
    private(set) var greatestSequence: UInt64?
    private var creditEdge: [UInt64: UInt64] = [:]

    /// Takes a datagram; the answer to give at once, if there is one.
    mutating func receive(_ datagram: [UInt8]) -> [UInt8]? {
        let parsed = datagram.withUnsafeBytes { PacketHeader.parse($0) }
        guard case .packet(let header) = parsed else { return nil }
        if let key, !datagram.withUnsafeBytes({ key.isTag(of: $0) }) { return nil }
        if let shedStatus {
            return Self.ack(header, floor: 0, credit: 0, shedStatus, words: [0])
        }
        let epoch = header.epoch.rawValue
        var state = epochs[epoch] ?? Epoch()
        defer { epochs[epoch] = state }
        if header.kind == .heartbeat {
            let payload = datagram[40..<40 + header.payloadByteCount]
            let base = payload.withUnsafeBytes { Heartbeat.base($0) }?.rawValue ?? 0
            move(&state, to: base)
            return answer(header, state, byteCountMax: datagram.count)
        }
        let sequence = header.sequence.rawValue
        if !state.isOpen && sequence >= 65_536 {
            return Self.ack(header, floor: 0, credit: 0, .beyondWindow, words: [0])
        }
        state.isOpen = true
        greatestSequence = max(greatestSequence ?? 0, sequence)
        if let edge = creditEdge[epoch], sequence >= edge {
            faults.append("packet \(sequence) beyond the credit, which ends at \(edge)")
        }
        if let known = state.durable[sequence] ?? state.admitted[sequence] {
            if known != datagram { faults.append("packet \(sequence) with other bytes") }
            return state.durable[sequence] == nil
                ? nil : answer(header, state, byteCountMax: datagram.count)
        }
        if sequence < state.floor { faults.append("packet \(sequence) below the floor") }
        state.admitted[sequence] = datagram
        return nil
    }

    private mutating func move(_ state: inout Epoch, to base: UInt64) {
        if state.isOpen {
            for sequence in state.floor..<max(base, state.floor)
            where state.durable[sequence] == nil {
                faults.append("the base passes packet \(sequence), which is not durable")
            }
        }
        state.isOpen = true
        state.floor = max(state.floor, base)
    }

    /// Makes durable what was admitted; acks to send, one an epoch.
    mutating func commit() -> [[UInt8]] {
        epochs.keys.sorted().compactMap { epoch in
            guard var state = epochs[epoch], !state.admitted.isEmpty else { return nil }
            let last = state.admitted.values.first
            state.durable.merge(state.admitted) { known, _ in known }
            state.admitted = [:]
            while state.durable[state.floor] != nil { state.floor += 1 }
            epochs[epoch] = state
            guard let last,
                case .packet(let header) = last.withUnsafeBytes({ PacketHeader.parse($0) })
            else { return nil }
            return answer(header, state, byteCountMax: last.count)
        }
    }

    /// A crash: what was only admitted is forgotten.
    mutating func restart() {
        for epoch in epochs.keys { epochs[epoch]?.admitted = [:] }
    }

    private mutating func answer(
        _ header: PacketHeader, _ state: Epoch, byteCountMax: Int
    ) -> [UInt8]? {
        guard
            let further = AckPacket.furtherWordCount(
                fitting: byteCountMax, hasTag: header.hasTag)
        else { return nil }
        var words = [UInt64](repeating: 0, count: 1 + min(further, 4))
        for place in 0..<64 * words.count
        where state.durable[state.floor + UInt64(place)] != nil {
            words[place / 64] |= 1 << UInt64(place % 64)
        }
        let edge = state.floor + UInt64(credit)
        // A greater edge that was granted before may still be used: acks overtake each other.
        creditEdge[header.epoch.rawValue] = max(
            creditEdge[header.epoch.rawValue] ?? state.floor + 64, edge)
        var ack = Self.ack(header, floor: state.floor, credit: credit, .ok, words: words)
        key?.append(to: &ack)
        return ack
    }

    static func ack(
        _ header: PacketHeader, floor: UInt64, credit: UInt32, _ status: AckStatus,
        words: [UInt64] = [0], epoch: UInt64? = nil
    ) -> [UInt8] {
        let ack = AckPacket(
            sender: header.sender,
            epoch: epoch.map { SenderEpoch(rawValue: $0) } ?? header.epoch,
            floor: PacketSequence(rawValue: floor), keyID: header.keyID, hasTag: header.hasTag,
            credit: credit, status: status)
        var bytes = [UInt8](
            repeating: 0,
            count: AckPacket.byteCount(furtherWordCount: words.count - 1, hasTag: false))
        _ = bytes.withUnsafeMutableBytes {
            ack.encode(into: $0, furtherWordCount: words.count - 1) { words[$0] }
        }
        return bytes
    }

    /// The events of everything durable, each packet once.
    func durableEvents() throws -> [Ingest_V1_Event] {
        try decodedEvents(
            epochs.keys.sorted().flatMap { epoch in
                (epochs[epoch]?.durable ?? [:]).sorted { $0.key < $1.key }
                    .map { FramedPacket(bytes: $0.value) }
            })
    }

    var epochCount: Int { epochs.count }
}
