import Foundation
import IngestFormat
import IngestKeys
import SwiftProtobuf
import Testing

@testable import IngestBench

/// The packets of a load, read by swift-protobuf.
struct PacketPoolTests {
    private static let seed: UInt64 = 9
    private static let rewardCount = 1_000_000

    @Test(arguments: [EventMix.NameStyle.uuid, .number], [false, true])
    func `Senders take turns, and each event has the reward that is drawn for it`(
        names: EventMix.NameStyle, isTagged: Bool
    ) throws {
        let (first, count): (UInt64, UInt64) = (40, 3)
        let key = isTagged ? PacketKey(id: 1, key: [UInt8](repeating: 7, count: 32)) : nil
        var pool = PacketPool(
            packetCount: 8,
            mix: EventMix.Options(
                rewardCount: Self.rewardCount, names: names, seed: Self.seed),
            senders: LoadSenders(count: Int(count), first: first, epoch: SenderEpoch(rawValue: 1)),
            key: key)
        // The second round of the pool: the packets are the same, and all that is drawn is not.
        for round in 0..<2 {
            pool.prepare(
                first: 0, count: 8, unixMicroseconds: 1_800_000_000_000_000,
                firstEvent: UInt64(round * 8 * pool.packetEventCount))
            try check(pool, key, round: round, first: first, count: count, names)
        }
    }

    @Test(arguments: [EventMix.NameStyle.uuid, .number])
    func `A datagram of JSON is an event with the reward that is drawn for it and an id of its own`(
        names: EventMix.NameStyle
    ) throws {
        let options = EventMix.Options(
            rewardCount: Self.rewardCount, names: names, seed: Self.seed)
        var pool = PacketPool(
            packetCount: 8, jsonOf: options,
            senders: LoadSenders(count: 1, first: 1, epoch: SenderEpoch(rawValue: 1)))
        let popularity = Popularity(.uniform, count: Self.rewardCount)
        let decoder = JSONEventDecoder(hash: KeyedHash(key: .init(repeating: 7)))
        let scratch = EventScratch()
        var ids: Set<String> = []
        for round in 0..<2 as Range<UInt64> {
            pool.prepare(first: 0, count: 8, unixMicroseconds: 0, firstEvent: round * 8)
            let byteCount = pool.packetByteCount
            let texts = pool.withPackets(first: 0, count: 8) { bytes in
                (0..<8).map { place in (0..<byteCount).map { bytes[place * byteCount + $0] } }
            }
            for (place, text) in texts.enumerated() {
                let event = try #require(
                    JSONSerialization.jsonObject(with: Data(text)) as? [String: Any])
                let reward = try #require(
                    popularity.drawn(event: round * 8 + UInt64(place), seed: Self.seed))
                #expect(event["rewardId"] as? String == EventMix.rewardName(reward, names))
                ids.insert(try #require(event["eventId"] as? String))
                var business = Array("b-\(names.form)".utf8)
                business.withUnsafeMutableBytes {
                    names.write(
                        reward % options.businessCount, EventMix.businessKind,
                        to: $0.baseAddress! + 2)
                }
                #expect(event["businessId"] as? String == String(decoding: business, as: UTF8.self))
                // As the daemon reads it, which may change bytes of it.
                var copy = text + [UInt8](repeating: 0, count: 64)
                var rows = PacketRows()
                copy.withUnsafeMutableBytes {
                    _ = decoder.decode(
                        packet: $0.baseAddress!, payloadOffset: 0, payloadByteCount: text.count,
                        onlyOf: nil, into: &rows, by: scratch)
                }
                #expect(rows.count == 1)
            }
        }
        #expect(ids.count == 16 && pool.packetNumber == 16 && pool.heartbeats().isEmpty)
    }

    private func check(
        _ pool: borrowing PacketPool, _ key: PacketKey?, round: Int, first: UInt64, count: UInt64,
        _ names: EventMix.NameStyle
    ) throws {
        let popularity = Popularity(.uniform, count: Self.rewardCount)
        let byteCount = pool.packetByteCount
        try pool.withPackets(first: 0, count: 8) { bytes in
            for place in 0..<8 {
                let packet = (0..<byteCount).map { bytes[place * byteCount + $0] }
                let number = UInt64(round * 8 + place)
                try packet.withUnsafeBytes { packet in
                    guard case .packet(let header) = PacketHeader.parse(packet, for: .daemon)
                    else {
                        Issue.record("packet \(number) is none")
                        return
                    }
                    #expect(header.sender.rawValue == first + number % count)
                    #expect(header.sequence.rawValue == number / count)
                    #expect(key?.tag.isTag(of: packet) != false)
                    let payload = packet[40..<40 + Int(header.payloadByteCount)]
                    let batch = try Ingest_V1_EventBatch(serializedBytes: Array(payload))
                    for (i, event) in batch.events.enumerated() {
                        let reward = try #require(
                            popularity.drawn(
                                event: number * UInt64(pool.packetEventCount) + UInt64(i),
                                seed: Self.seed))
                        #expect(event.rewardID == EventMix.rewardName(reward, names))
                        #expect(Set(event.rewardID.dropFirst(4).filter { $0 != "-" }).count > 1)
                    }
                    #expect(batch.events.count == pool.packetEventCount)
                }
            }
        }
    }
}
