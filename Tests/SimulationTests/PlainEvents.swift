import IngestFormat
import TestSupport

/// Random events of every kind, so that each rule is met from both sides.
struct PlainEvents {
    private var random: SeededRandom
    /// Events with ids, to be repeated.
    private var earlier: [PlainEvent] = []
    private var newCount = 0
    private var lastClick: PlainEvent?

    private static let day: Int64 = 86_400_000_000

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    mutating func next(at now: Int64) -> PlainEvent {
        if random.oneIn(20), var click = lastClick {
            click.id = nil
            let distances: [Int64] = [-999_999, 0, 999_999, 1_000_000]
            click.time = max(0, click.time + distances[random.below(4)])
            return click
        }
        let event = another(at: now)
        if event.type == .click && event.session != nil { lastClick = event }
        return event
    }

    private mutating func another(at now: Int64) -> PlainEvent {
        var event = PlainEvent()
        if !earlier.isEmpty && random.oneIn(6) {
            event = earlier[random.below(earlier.count)]
            // Another reward, amount or type under the same id.
            if random.oneIn(4) { event.reward = "reward \(random.below(20))" }
            if random.oneIn(6) { event.spend += 1 }
            if random.oneIn(6) { event.type = EventType.allCases[random.below(3)] }
        } else {
            let kinds: [EventType] = [.impression, .impression, .impression, .click, .redemption]
            event.type = kinds[random.below(kinds.count)]
            event.business = "business-\(random.below(5))"
            event.reward = "reward \(random.below(20))"
            if random.oneIn(30) {
                newCount += 1
                event.reward = "new \(newCount)"
            }
            if !random.oneIn(3) { event.id = "id \(random.next() >> 40)" }
            if event.type == .redemption || random.oneIn(9) {
                event.revenue = Int64(random.below(5_000_000))
                event.spend = Int64(random.below(3)) * 250_000
            }
        }
        event.time = time(at: now)
        event.session = random.oneIn(3) ? nil : session()
        event.consent = random.oneIn(25) ? .optOut : random.oneIn(6) ? .notSet : .optIn
        event.campaign = random.oneIn(3) ? "campaign \(random.below(4))" : nil
        event.source = random.oneIn(3) ? "source \(random.below(3))" : nil
        event.isMarked = random.oneIn(30)
        event.isOfAnother = random.oneIn(50)
        measure(&event)
        if event.id != nil {
            if earlier.count < 400 {
                earlier.append(event)
            } else {
                earlier[random.below(400)] = event
            }
        }
        return event
    }

    /// A few of them have most of the events.
    private mutating func session() -> String {
        "session \(random.below(1 + random.below(60)))"
    }

    private mutating func time(at now: Int64) -> Int64 {
        let week = 7 * Self.day
        let minutes: Int64 = 60_000_000
        switch random.below(20) {
        case 0: return now - Int64(random.below(UInt64(6 * Self.day)))
        case 1:
            let edges = [
                now - week, now - week - 1, now + 5 * minutes, now + 5 * minutes + 1, 0,
                now - 500 * Self.day, now + 500 * Self.day,
            ]
            return edges[random.below(edges.count)]
        case 2: return now - Int64(random.below(4)) * 500_000
        default: return now - Int64(random.below(UInt64(2 * minutes)))
        }
    }

    private mutating func measure(_ event: inout PlainEvent) {
        event.format = AdFormat.allCases[random.below(3)]
        (event.visible, event.duration) = (nil, nil)
        let shares: [UInt32] = [299_999, 300_000, 499_999, 500_000, 750_000, 1_000_000]
        let times: [UInt32] = [0, 999, 1_000, 1_999, 2_000, 30_000]
        if !random.oneIn(4) { event.visible = shares[random.below(shares.count)] }
        if !random.oneIn(5) { event.duration = times[random.below(times.count)] }
    }
}

extension PlainEvent {
    /// As its sender writes it.
    var line: String {
        var fields = [
            #""eventType":"\#(type.name)","rewardId":"\#(reward)","businessId":"\#(business)""#,
            #""timestamp":\#(time / 1_000).\#(Self.digits(time % 1_000, 3))"#,
        ]
        if let id { fields.append(#""eventId":"\#(id)""#) }
        if let session { fields.append(#""sessionId":"\#(session)""#) }
        if consent != .notSet { fields.append(#""consent":"\#(consent.name)""#) }
        var metadata = [#""format":"\#(format.name)""#]
        // What is behind the last digit that counts is cut.
        if let visible {
            let whole = visible / 1_000_000
            let rest = whole == 1 ? "0" : Self.digits(Int64(visible), 6) + "9"
            metadata.append(#""viewability":"\#(whole).\#(rest)""#)
        }
        if let duration {
            let rest = Self.digits(Int64(duration) % 1_000, 3)
            metadata.append(#""duration":\#(duration / 1_000).\#(rest)9"#)
        }
        if let campaign { metadata.append(#""campaign":"\#(campaign)""#) }
        if let source { metadata.append(#""source":"\#(source)""#) }
        if revenue != 0 { metadata.append(#""revenue":"\#(Self.amount(revenue))""#) }
        if spend != 0 { metadata.append(#""spend":"\#(Self.amount(spend))""#) }
        fields.append("\"metadata\":{\(metadata.joined(separator: ","))}")
        return "{\(fields.joined(separator: ","))}"
    }

    private static func amount(_ micros: Int64) -> String {
        "\(micros / 1_000_000).\(digits(micros % 1_000_000, 6))"
    }

    private static func digits(_ number: Int64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: count - text.count) + text
    }
}
