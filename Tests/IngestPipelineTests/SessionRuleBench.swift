import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

extension SessionRuleTests {
    typealias Packet = (kind: UInt8, sequence: UInt64, events: [EventDescriptor])

    /// What became of an event.
    struct Judged: Equatable, CustomStringConvertible {
        var verdict = Verdict.counted
        var isOrphan = false
        var isUnchecked = false
        var rule: InvalidTrafficRule?
        var description: String {
            "\(verdict)\(isOrphan ? " orphan" : "")\(isUnchecked ? " unchecked" : "")\(rule.map { " \($0)" } ?? "")"
        }

        static let counted = Judged()
        static let orphan = Judged(isOrphan: true)
        static let unchecked = Judged(isUnchecked: true)
        static let sessionRepeat = Judged(verdict: .sessionRepeat)
        static let duplicate = Judged(verdict: .duplicate)
        static func invalid(_ rule: InvalidTrafficRule) -> Judged {
            Judged(verdict: .invalidTraffic, rule: rule)
        }
    }

    final class Bench {
        let bench: CommitBench
        private var sequence: UInt64 = 0
        private(set) var pseudonyms: [UInt64] = []

        init(
            _ sessions: SessionPolicy = SessionPolicy(), keys: SessionKeyRing? = Bench.ring(),
            idsCompleteSince: Int64? = nil, segmentByteCountMax: Int? = nil
        ) {
            bench = CommitBench(
                policy: CountingPolicy(
                    refusesOutsideWindow: idsCompleteSince != nil, sessions: sessions),
                keys: keys, idsCompleteSince: idsCompleteSince ?? .min
            ) {
                $0.segmentByteCountMax = segmentByteCountMax ?? $0.segmentByteCountMax
            }
        }

        static func keys(seed: UInt64 = 1) -> SessionKeys {
            var keys = SessionKeys(directory: DirectoryID(rawValue: 1))
            var random = SeededRandom(seed: seed)
            keys.renew(at: 1_763_600_000_000_000, random: &random)
            return keys
        }

        static func ring() -> SessionKeyRing {
            let ring = SessionKeyRing()
            ring.replace(by: keys())
            return ring
        }

        func event(
            _ type: EventType, session: Int? = 0, reward: UInt64 = 1, id: UInt64? = nil,
            after microseconds: Int64 = 0
        ) -> EventDescriptor {
            var event = bench.click()
            event.type = type.rawValue
            event.pairHash = reward
            event.timestampMicroseconds += microseconds
            if let session {
                (event.sessionOffset, event.sessionByteCount) = (UInt16(session), 1)
            }
            if let id {
                (event.flags, event.eventHash) = (EventDescriptor.Flags.hasEventID, id)
            }
            return event
        }

        func impression(
            session: Int? = 0, reward: UInt64 = 1, id: UInt64? = nil, after: Int64 = 0
        ) -> EventDescriptor {
            event(.impression, session: session, reward: reward, id: id, after: after)
        }

        func click(
            session: Int? = 0, reward: UInt64 = 1, id: UInt64? = nil, after: Int64 = 0
        ) -> EventDescriptor {
            event(.click, session: session, reward: reward, id: id, after: after)
        }

        /// Sends a packet, and says what became of its events.
        func send(_ events: [EventDescriptor]) throws -> [Judged] {
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            bench.offerBatch(sequence: sequence, events)
            sequence += 1
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            let rows = try #require(bench.turn()).rows
            pseudonyms = (0..<rows.sessionCount).map { rows.session[$0] }
            return judged(rows)
        }

        /// Sends packets in one turn, at most as many as a turn takes.
        func send(_ packets: [Packet]) -> [Judged] {
            for packet in packets {
                bench.offer(packet.kind, sequence: packet.sequence, packet.events)
            }
            // The last block is not closed while two are being synced.
            return (0..<2).flatMap { _ in
                bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
                return bench.turns().flatMap { block in
                    pseudonyms += (0..<block.rows.sessionCount).map { block.rows.session[$0] }
                    return judged(block.rows)
                }
            }
        }

        private func judged(_ rows: BlockRows) -> [Judged] {
            (0..<rows.rowCount).map { row in
                let row = RowAttributes(rawValue: rows.attributes[row])
                return Judged(
                    verdict: row.verdict!, isOrphan: row.isOrphan, isUnchecked: row.isUnchecked,
                    rule: row.invalidTrafficRule)
            }
        }

        func advance(milliseconds: Int) { bench.clock.advance(milliseconds: milliseconds) }
    }
}
