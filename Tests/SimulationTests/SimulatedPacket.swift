import IngestFormat
import IngestStorage
import PipelineTestSupport
import TestSupport

/// A packet of the simulation: its events follow from its sequence alone, so that a model can be counted
/// for any number of packets without keeping them.
struct SimulatedPacket {
    static let eventCount = 5
    static let start: Int64 = 1_763_600_000_000_000

    struct Event {
        var reward: String
        var business: String
        var type: EventType
        var timestamp: Int64
        var isViewable: Bool?
        var revenueMicros: Int64
        var campaign: String?
        var source: String?
    }

    let sequence: UInt64
    /// How many days after `start` the first of the three days is on which its events fall.
    var day = 0
    /// Whether its events have ids, which follow from the sequence too.
    var hasIDs = false
    /// The session of its events.
    var session: String?
    /// Whether two of three events have a campaign or a source, which follow from the sequence too.
    var isAttributed = false
    /// So many redemptions of the largest amount of one reward, in place of the others.
    var largestCount = 0
    /// One click of these alone, in place of the others.
    var only: (reward: String, business: String)?
    /// Bytes behind its events: an ack is no larger than its packet, and senders pad so that it tells of all on its way.
    var paddingByteCount = 0

    var events: [Event] {
        if largestCount > 0 {
            let largest = Event(
                reward: "reward", business: "business", type: .redemption,
                timestamp: Self.start + Int64(day) * 86_400_000_000,
                revenueMicros: Limits.moneyMicrosMax)
            return Array(repeating: largest, count: largestCount)
        }
        if let only {
            return [
                Event(
                    reward: only.reward, business: only.business, type: .click,
                    timestamp: Self.start, revenueMicros: 0)
            ]
        }
        var generator = SeededRandom(seed: sequence &+ 99)
        var events = (0..<Self.eventCount).map { index in
            let reward = generator.next() % 40
            let type: EventType =
                switch generator.next() % 10 {
                case 0: .click
                case 1: .redemption
                default: .impression
                }
            // Names grow with the packets, so that every block brings some.
            return Event(
                reward: reward < 4 ? "new-\(sequence)-\(index)" : "reward-\(reward)",
                business: "business-\(generator.next() % 5)", type: type,
                timestamp: Self.start + (Int64(day) + Int64(generator.next() % 3)) * 86_400_000_000,
                isViewable: generator.next() % 2 == 0 ? nil : generator.next() % 3 != 0,
                revenueMicros: type == .redemption ? Int64(generator.next() % 9_000_000) : 0,
                campaign: isAttributed && (sequence + UInt64(index)) % 3 == 0
                    ? "campaign-\(sequence % 11)" : nil,
                source: isAttributed && (sequence + UInt64(index)) % 3 < 2
                    ? "source-\(sequence % 4)" : nil)
        }
        // What is refused is a row only where its names are known: here they are, from the packet's first event.
        if events[0].isViewable == false { events[0].isViewable = nil }
        // Nor has it a campaign that no event had before.
        for index in events.indices where events[index].isViewable == false {
            (events[index].campaign, events[index].source) = (nil, nil)
        }
        for index in events.indices where events[index].isViewable == false {
            (events[index].reward, events[index].business) = (events[0].reward, events[0].business)
        }
        return events
    }

    func encoded(hash: KeyedHash) -> ([UInt8], [EventDescriptor]) {
        var bytes: [UInt8] = []
        func put(_ text: String) -> (UInt16, UInt8, UInt64) {
            let name = Array(text.utf8)
            bytes += name
            return (UInt16(bytes.count - name.count), UInt8(name.count), hash.name(name))
        }
        let descriptors = events.enumerated().map { index, event in
            var one = EventDescriptor()
            if hasIDs {
                one.flags = EventDescriptor.Flags.hasEventID
                one.eventHash = SplitMix.finish(sequence * 64 + UInt64(index) + 1)
            }
            (one.rewardOffset, one.rewardByteCount, _) = put(event.reward)
            (one.businessOffset, one.businessByteCount, one.businessHash) = put(event.business)
            one.pair = hash.pair(
                reward: Array(event.reward.utf8), business: Array(event.business.utf8))
            if let session {
                (one.sessionOffset, one.sessionByteCount, _) = put(session)
            }
            if let campaign = event.campaign {
                (one.campaignOffset, one.campaignByteCount, one.campaignHash) = put(campaign)
            }
            if let source = event.source {
                (one.sourceOffset, one.sourceByteCount, one.sourceHash) = put(source)
            }
            one.type = event.type.rawValue
            one.timestampMicroseconds = event.timestamp
            one.revenueMicros = event.revenueMicros
            if let isViewable = event.isViewable {
                one.flags |= EventDescriptor.Flags.isMeasured
                one.visiblePartsPerMillion = isViewable ? 600_000 : 100_000
                one.durationMilliseconds = 1_000
            }
            return one
        }
        return (bytes + [UInt8](repeating: 0, count: paddingByteCount), descriptors)
    }
}

extension SimulatedClock {
    /// Three days after the first event: all events of packets without a `day` lie behind it.
    static func afterEvents() -> SimulatedClock {
        SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
    }
}

/// What the counters must be: counted from the packets by the plainest code there is.
struct ReferenceModel: Equatable {
    struct Key: Hashable {
        var reward: String
        var business: String
        var day: Int32
    }

    struct Counts: Equatable {
        var impressions: UInt64 = 0
        var clicks: UInt64 = 0
        var redemptions: UInt64 = 0
        var viewable: UInt64 = 0
        var notViewable: UInt64 = 0
        var undetermined: UInt64 = 0
        var revenueMicros: UInt128 = 0

        private var all: [UInt128] {
            [impressions, clicks, redemptions, viewable, notViewable, undetermined]
                .map { UInt128($0) } + [revenueMicros]
        }

        /// Whether none of them is more than its counterpart.
        func isWithin(_ other: Counts) -> Bool { zip(all, other.all).allSatisfy { $0 <= $1 } }

        mutating func add(_ other: Counts) {
            impressions += other.impressions
            clicks += other.clicks
            redemptions += other.redemptions
            viewable += other.viewable
            notViewable += other.notViewable
            undetermined += other.undetermined
            revenueMicros += other.revenueMicros
        }
    }

    private(set) var counts: [Key: Counts] = [:]

    init(packetCount: UInt64) {
        for sequence in 0..<packetCount {
            add(SimulatedPacket(sequence: sequence))
        }
    }

    mutating func add(_ packet: SimulatedPacket) {
        for event in packet.events { add(event) }
    }

    private mutating func add(_ event: SimulatedPacket.Event) {
        let day = Int32(event.timestamp / 86_400_000_000)
        let key = Key(reward: event.reward, business: event.business, day: day)
        var row = counts[key] ?? Counts()
        switch (event.type, event.isViewable) {
        case (.impression, false): row.notViewable += 1
        case (.impression, true):
            row.impressions += 1
            row.viewable += 1
        case (.impression, nil):
            row.impressions += 1
            row.undetermined += 1
        case (.click, _): row.clicks += 1
        case (.redemption, _): row.redemptions += 1
        }
        row.revenueMicros += UInt128(event.revenueMicros)
        counts[key] = row
    }

    var eventCount: UInt64 {
        counts.values.reduce(0) {
            $0 + $1.impressions + $1.clicks + $1.redemptions + $1.notViewable
        }
    }
}
