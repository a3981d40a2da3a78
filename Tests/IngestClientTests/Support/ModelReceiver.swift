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
    var directory: UInt64 = 1
    private(set) var commitEpoch: UInt64 = 1
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
        let told = datagram.withUnsafeBytes { Heartbeat(ofPacket: $0) }
        if let shedStatus { return sealed(ack(header, floor: 0, credit: 0, shedStatus, told)) }
        let epoch = header.epoch.rawValue
        if let told, told.seen > epochs[epoch]?.floor ?? 0 {
            return sealed(ack(header, floor: 0, credit: 0, .rolledBack, told))
        }
        var state = epochs[epoch] ?? Epoch()
        defer { epochs[epoch] = state }
        if let told {
            if !state.admitted.isEmpty {
                return sealed(
                    ack(header, floor: state.floor, credit: 0, .ok, told, isPending: true))
            }
            move(&state, to: told.base)
            return answer(header, state, byteCountMax: datagram.count, told)
        }
        let sequence = header.sequence.rawValue
        if !state.isOpen && sequence >= 65_536 {
            return sealed(ack(header, floor: 0, credit: 0, .beyondWindow))
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
        commitEpoch += 1
        return epochs.keys.sorted().compactMap { epoch in
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
        _ header: PacketHeader, _ state: Epoch, byteCountMax: Int, _ told: Heartbeat? = nil
    ) -> [UInt8]? {
        guard
            let further = AckPacket.furtherWordCount(
                fitting: byteCountMax, hasTag: header.hasTag, isAnswer: told != nil)
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
        return sealed(
            ack(header, floor: state.floor, credit: credit, .ok, told), words: words)
    }

    private func ack(
        _ header: PacketHeader, floor: UInt64, credit: UInt32, _ status: AckStatus,
        _ told: Heartbeat? = nil, isPending: Bool = false
    ) -> AckPacket {
        var ack = AckPacket(
            sender: header.sender, epoch: header.epoch, floor: PacketSequence(rawValue: floor),
            keyID: header.keyID, hasTag: header.hasTag, credit: credit, status: status)
        ack.directory = DirectoryID(rawValue: directory)
        ack.commitEpoch = commitEpoch
        ack.echo = told.map { .nonce($0.nonce) } ?? .sequence(header.sequence.rawValue)
        ack.isPending = isPending
        return ack
    }

    private func sealed(_ ack: AckPacket, words: [UInt64] = [0]) -> [UInt8] {
        var bytes = Self.bytes(ack, words: words)
        key?.append(to: &bytes)
        return bytes
    }

    static func ack(
        _ header: PacketHeader, floor: UInt64, credit: UInt32, _ status: AckStatus,
        words: [UInt64] = [0], echo: AckEcho = .sequence(0)
    ) -> [UInt8] {
        var ack = AckPacket(
            sender: header.sender, epoch: header.epoch, floor: PacketSequence(rawValue: floor),
            keyID: header.keyID, hasTag: header.hasTag, credit: credit, status: status)
        ack.echo = echo
        return bytes(ack, words: words)
    }

    /// Without its tag.
    static func bytes(_ ack: AckPacket, words: [UInt64] = [0]) -> [UInt8] {
        var bytes = [UInt8](
            repeating: 0,
            count: AckPacket.byteCount(
                furtherWordCount: words.count - 1, hasTag: false, isAnswer: ack.isAnswer))
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
