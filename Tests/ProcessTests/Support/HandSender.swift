import Foundation
import Glibc
import IngestFormat
import IngestKeys
import TestSupport

/// A sender that asks for acks, written for tests alone, from the published protocol: what it knows of acks it
/// reads from their bytes by itself.
final class HandSender {
    struct Ack {
        let floor: UInt64
        let credit: UInt32
        let status: UInt32
        let words: [UInt64]
        /// Events counted, repeated and refused, and the code of a reason; of an answer to a heartbeat.
        let sums: [UInt64]?

        /// `nil` for anything that is no ack of this sender epoch, or says nothing of its packets yet.
        init?(_ bytes: [UInt8], sender: UInt64, epoch: UInt64) {
            guard bytes.count >= 80, bytes[5] & 4 == 0, bytes[..<4] == Array("IGD1".utf8)[...],
                bytes[4] == 129,
                Self.value(bytes, 8, 8) == sender, Self.value(bytes, 16, 8) == epoch
            else { return nil }
            floor = Self.value(bytes, 24, 8)
            credit = UInt32(Self.value(bytes, 48, 4))
            status = UInt32(Self.value(bytes, 52, 4))
            let isAnswer = bytes[5] & 8 != 0
            sums =
                isAnswer
                ? [80, 88].map { Self.value(bytes, $0, 8) }
                    + [Self.value(bytes, 96, 7), Self.value(bytes, 103, 1)] : nil
            words =
                [Self.value(bytes, 40, 8)]
                + stride(
                    from: isAnswer ? 104 : 80,
                    to: bytes.count - (bytes[5] & 2 == 0 ? 0 : 16) - 7, by: 8
                ).map { Self.value(bytes, $0, 8) }
        }

        func isDone(_ sequence: UInt64) -> Bool {
            guard sequence >= floor else { return true }
            let place = sequence - floor
            return place < UInt64(64 * words.count)
                && words[Int(place / 64)] >> (place % 64) & 1 == 1
        }

        private static func value(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> UInt64 {
            bytes[offset..<offset + count].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// What its packets carry: one form, or several in turn.
    enum Form: UInt8 {
        case protobuf = 1
        case json = 3
    }

    let sender: UInt64
    let epoch: UInt64
    private let forms: [Form]
    private let key: (id: UInt16, bytes: [UInt8])?
    private let socket: Datagrams
    private(set) var acks: [Ack] = []
    /// Sequences that an ack called durable.
    private(set) var done: Set<UInt64> = []
    /// What the event of each packet is of.
    var names: (UInt64) -> (reward: String, business: String) = HandSender.names

    /// - Parameter key: id and bytes of the key that its packets are tagged with.
    init(
        to port: UInt16, sender: UInt64, epoch: UInt64 = (1 << 60) + 1,
        key: (id: UInt16, bytes: [UInt8])? = nil, forms: [Form] = [.protobuf]
    ) {
        self.sender = sender
        self.forms = forms
        self.key = key
        self.epoch = epoch
        socket = Datagrams(to: port)
    }

    deinit { socket.close() }

    /// One event of the reward and business of this number: a click, as its type is by default.
    static func payload(_ number: UInt64, type: UInt8 = 2, isMarked: Bool = false) -> [UInt8] {
        payload(names(number), type: type, isMarked: isMarked)
    }

    private static func names(_ number: UInt64) -> (reward: String, business: String) {
        ("reward-\(number % 7)", "business-\(number % 3)")
    }

    private static func payload(
        _ names: (reward: String, business: String), type: UInt8 = 2, isMarked: Bool = false
    ) -> [UInt8] {
        func text(_ field: UInt8, _ value: String) -> [UInt8] {
            [field << 3 | 2, UInt8(value.utf8.count)] + Array(value.utf8)
        }
        let event =
            [0x08, type] + text(2, names.reward) + text(3, names.business)
            + [0x20, 0x80, 0x80, 0xe0, 0xd5, 0x99, 0xe5, 0x90, 0x03]
            + (isMarked ? [0x70, 0x01] : [])
        return [0x0A, UInt8(event.count)] + event
    }

    /// The click of this number as a line.
    static func line(_ number: UInt64) -> String {
        """
        {"eventType":"click","rewardId":"reward-\(number % 7)",\
        "businessId":"business-\(number % 3)","timestamp":1762695828733}
        """
    }

    /// Padded, so that it is acked.
    func packet(_ sequence: UInt64, acks: Bool = true) -> [UInt8] {
        let form = forms[Int(sequence % UInt64(forms.count))]
        var packet = FramedPacket(
            kind: form.rawValue, flags: (acks ? 1 : 0) | (key == nil ? 0 : 2), sender: sender,
            epoch: epoch, sequence: sequence,
            payload: form == .json
                ? Array(Self.line(sequence).utf8)
                : Self.payload(names(sequence)) + [0x7A, 16] + [UInt8](repeating: 0, count: 16))
        guard let key else { return packet.bytes }
        packet.keyID = key.id
        return packet.bytes + Self.tag(packet.bytes, key.bytes)
    }

    static func tag(_ bytes: [UInt8], _ key: [UInt8]) -> [UInt8] {
        var tagged = bytes
        TagKey(key).append(to: &tagged)
        return Array(tagged.suffix(16))
    }

    func send(_ sequence: UInt64) { socket.send(packet(sequence)) }
    func send(_ bytes: [UInt8]) { socket.send(bytes) }

    /// - Parameter ends: whether it says that no more comes of the epoch.
    func heartbeat(next: UInt64, base: UInt64, ends: Bool = false) {
        let payload = (0..<64).map { $0 < 8 ? UInt8(truncatingIfNeeded: base >> (8 * $0)) : 0 }
        socket.send(
            FramedPacket(
                kind: 2, flags: ends ? 5 : 1, sender: sender, epoch: epoch, sequence: next,
                payload: payload
            ).bytes)
    }

    /// Takes the acks that have come; `true` if there was one.
    @discardableResult
    func listen(withinMilliseconds limit: Int32 = 200) -> Bool {
        var wait = limit
        var found = false
        while let bytes = socket.receive(withinMilliseconds: wait) {
            wait = 0
            if let key {
                guard bytes.count > 16,
                    Self.tag(Array(bytes.dropLast(16)), key.bytes) == bytes.suffix(16)
                else { continue }
            }
            guard let ack = Ack(bytes, sender: sender, epoch: epoch) else { continue }
            found = true
            acks.append(ack)
        }
        return found
    }

    /// As below, without loss.
    func delivers(_ sequences: Range<UInt64>) -> Bool { (try? deliver(sequences)) == true }

    /// Sends what no ack calls durable again and again, until all of it is.
    /// - Parameter isLost: packets that this says of are not sent this time.
    func deliver(
        _ sequences: Range<UInt64>, isLost: (UInt64) -> Bool = { _ in false },
        round: (Int) throws -> Void = { _ in }
    ) rethrows -> Bool {
        var count = 0
        // Answers that it is busy come at once, however often they are asked for.
        return try eventually {
            while true {
                let open = sequences.filter { !done.contains($0) }
                if open.isEmpty { return true }
                for sequence in open.prefix(64) where !isLost(sequence) { send(sequence) }
                try round(count)
                count += 1
                listen(withinMilliseconds: 50)
                let doneCount = done.count
                if let ack = acks.last(where: { $0.status == 0 }) {
                    for sequence in open where ack.isDone(sequence) { done.insert(sequence) }
                }
                if done.count == doneCount { return false }
            }
        }
    }
}
