import Foundation
import IngestFormat

// docs/counting.md once more, rule by rule, by dictionaries and sets of texts: slow and obvious, and nothing in here is
// shared with the pipeline but the names of its numbers.

/// An event as its sender has it.
struct PlainEvent {
    var type = EventType.impression
    var reward = ""
    var business = ""
    /// Microseconds since 1970; 0 where it has none.
    var time: Int64 = 0
    var id: String?
    var session: String?
    var consent = Consent.notSet
    var format = AdFormat.display
    /// Parts per million and milliseconds.
    var visible: UInt32?
    var duration: UInt32?
    /// Millionths of a currency unit.
    var revenue: Int64 = 0
    var spend: Int64 = 0
    var campaign: String?
    var source: String?
    var isMarked = false
    /// Whether its sender's key is bound to another business.
    var isOfAnother = false
}

/// A row of the log that an event gives.
struct PlainRow {
    var event: PlainEvent
    var reward: String
    var admittedAt: Int64
    var day: Int32
    var verdict: Verdict
    var rule: InvalidTrafficRule?
    var isUnchecked = false
    var isOrphan = false
    var isOverflow = false
}

struct PlainRules {
    private struct Session {
        var seenAt: Int64
        var impressions: Set<String> = []
        /// By reward: the event time of the last click that was counted.
        var clicks: [String: Int64] = [:]
        /// The newest minute of event time, and how many events of each type it has.
        var minute: Int64 = 0
        var counts: [EventType: Int] = [:]
    }

    private struct Claim {
        let reward: String
        let revenue: Int64
        let spend: Int64
    }

    let policy: CountingPolicy
    /// Rewards of a business.
    let rewardCountMax: Int
    var zones: PlainZones
    /// By business, type and id: what was counted.
    private var claims: [String: Claim] = [:]
    private var sessions: [String: Session] = [:]
    /// By business: rewards that have counters of their own.
    private var known: [String: Set<String>] = [:]
    /// Businesses with rewards beyond that.
    private var overflown: Set<String> = []
    /// Combinations of business, reward, campaign and source.
    private var attributed: Set<String> = []
    /// The newest admission time of an id that was forgotten.
    private var forgottenUpTo: Int64?
    private var lastClaimAt: Int64?

    init(policy: CountingPolicy, zones: PlainZones, rewardCountMax: Int) {
        (self.policy, self.zones, self.rewardCountMax) = (policy, zones, rewardCountMax)
    }

    /// So much time has passed that no id is in the window.
    mutating func forget() {
        (forgottenUpTo, claims) = (lastClaimAt, [:])
    }

    // MARK: The rules, in their order

    /// - Returns: the verdict, which stands in the ledger, and the row, if there is one.
    mutating func admit(_ event: PlainEvent, at now: Int64) -> (Verdict, PlainRow?) {
        let reward = "\(event.business)\n\(event.reward)"
        var row = PlainRow(
            event: event, reward: event.reward, admittedAt: now, day: 0, verdict: .counted)
        var session: Session?
        if let refusal = refusal(of: event, at: now) {
            row.verdict = refusal
            if refusal == .invalidTraffic { row.rule = .sender }
        } else {
            if policy.sessions.isOn, let name = event.session {
                let old = sessions[name]
                let isOver = old.map { now - $0.seenAt > seconds(policy.sessions.timeoutSeconds) }
                session = isOver == false ? old : Session(seenAt: now)
                session?.seenAt = now
            }
            compare(reward, session, &row)
        }
        if event.consent == .optOut || event.isOfAnother { return (row.verdict, nil) }
        guard name(&row) else { return (row.verdict, nil) }
        note(reward, &session, row)
        row.day = day(of: row)
        return (row.verdict, row)
    }

    /// What a row stands under. A refused event makes no name known, and is no row where one is not; no more does a conflict
    /// make a reward known.
    private mutating func name(_ row: inout PlainRow) -> Bool {
        let event = row.event
        let rewards = known[event.business] ?? []
        if !rewards.contains(event.reward) {
            if row.verdict.isRefusal { return false }
            if rewards.count < rewardCountMax {
                if row.verdict == .conflict { return false }
                known[event.business, default: []].insert(event.reward)
            } else {
                if row.verdict == .conflict && !overflown.contains(event.business) { return false }
                overflown.insert(event.business)
                (row.reward, row.isOverflow) = ("(other)", true)
            }
        }
        guard event.campaign != nil || event.source != nil else { return true }
        let names = [event.business, row.reward, event.campaign ?? "", event.source ?? ""]
        let attribution = names.joined(separator: "\n")
        if row.verdict.isRefusal { return attributed.contains(attribution) }
        attributed.insert(attribution)
        return true
    }

    /// Orders 1 to 4: what an event is refused for whatever came before it.
    private func refusal(of event: PlainEvent, at now: Int64) -> Verdict? {
        if event.consent == .optOut { return .noConsent }
        if event.consent == .notSet && !policy.countsConsentNotSet { return .noConsent }
        if event.isOfAnother { return .wrongBusiness }
        if event.time == 0 { return .tooOld }
        if let ageMax = policy.ageMicrosecondsMax, now - event.time > ageMax { return .tooOld }
        if event.time - now > policy.leadMicrosecondsMax { return .tooEarly }
        if event.isMarked { return .invalidTraffic }
        return nil
    }

    /// Orders 4 to 6.
    private func compare(_ reward: String, _ session: Session?, _ row: inout PlainRow) {
        let event = row.event
        let viewability = self.viewability(of: event)
        if viewability == .counted, let claim = event.id.flatMap({ claims[Self.key($0, event)] }) {
            let isSame =
                claim.reward == event.reward && claim.revenue == event.revenue
                && claim.spend == event.spend
            row.verdict = isSame ? .duplicate : .conflict
        } else if let rule = session.flatMap({ brokenRate(by: event, reward, in: $0) }) {
            (row.verdict, row.rule) = (.invalidTraffic, rule)
        } else if viewability != .counted {
            row.verdict = viewability
        } else if event.type == .impression, session?.impressions.contains(reward) == true {
            row.verdict = .sessionRepeat
        } else {
            let isForgotten =
                event.id != nil
                && event.time - policy.leadMicrosecondsMax <= forgottenUpTo ?? .min
            if isForgotten && policy.refusesOutsideWindow {
                row.verdict = .outsideWindow
            } else {
                row.isUnchecked = isForgotten || event.id == nil && session == nil
                row.isOrphan =
                    event.type != .impression && session?.impressions.contains(reward) == false
            }
        }
    }

    private func viewability(of event: PlainEvent) -> Verdict {
        guard event.type == .impression else { return .counted }
        guard let visible = event.visible, let duration = event.duration else {
            return policy.countsUndetermined ? .counted : .undetermined
        }
        let isLarge = event.format == .largeDisplay
        let isVideo = event.format == .video
        let isViewable =
            visible >= (isLarge ? 300_000 : 500_000) && duration >= (isVideo ? 2_000 : 1_000)
        return isViewable ? .counted : .notViewable
    }

    private func brokenRate(
        by event: PlainEvent, _ reward: String, in session: Session
    ) -> InvalidTrafficRule? {
        let numbers = policy.sessions
        // An event of an earlier minute counts for the newest.
        let count = Self.minute(event) > session.minute ? 0 : session.counts[event.type] ?? 0
        switch event.type {
        case .impression:
            let max = Int(numbers.impressionsPerMinuteMax)
            return max > 0 && count >= max ? .impressionRate : nil
        case .click:
            let interval = Int64(numbers.clickIntervalMilliseconds) * 1_000
            if let last = session.clicks[reward], abs(event.time - last) < interval {
                return .clickInterval
            }
            let max = Int(numbers.clicksPerMinuteMax)
            return max > 0 && count >= max ? .clickRate : nil
        case .redemption: return nil
        }
    }

    // MARK: What later events are compared with

    private mutating func note(_ reward: String, _ session: inout Session?, _ row: PlainRow) {
        let event = row.event
        if row.verdict == .counted, let id = event.id {
            claims[Self.key(id, event)] = Claim(
                reward: event.reward, revenue: event.revenue, spend: event.spend)
            lastClaimAt = row.admittedAt
        }
        guard session != nil, let name = event.session else { return }
        if ![.duplicate, .conflict, .invalidTraffic].contains(row.verdict) {
            if Self.minute(event) > session!.minute {
                (session!.minute, session!.counts) = (Self.minute(event), [:])
            }
            session!.counts[event.type, default: 0] += 1
        }
        if row.verdict == .counted {
            if event.type == .impression { session!.impressions.insert(reward) }
            if event.type == .click { session!.clicks[reward] = event.time }
        }
        sessions[name] = session
    }

    private static func key(_ id: String, _ event: PlainEvent) -> String {
        "\(event.business)\n\(event.type)\n\(id)"
    }

    private static func minute(_ event: PlainEvent) -> Int64 { event.time / 60_000_000 }

    private func seconds(_ count: UInt32) -> Int64 { Int64(count) * 1_000_000 }

    // MARK: Days

    private func day(of row: PlainRow) -> Int32 {
        let isFar = abs(row.event.time - row.admittedAt) > 400 * 86_400_000_000
        // Consent is asked before the clock.
        let isOfClock = [.tooOld, .tooEarly, .noConsent].contains(row.verdict)
        return zones.day(
            of: isFar && isOfClock ? row.admittedAt : row.event.time, row.event.business)
    }
}

/// Time zones by the data of Foundation.
struct PlainZones {
    struct Rule {
        /// The first date of it, in days since 1970-01-01; `nil` from the beginning.
        var from: Int32?
        var zone: String
    }

    /// Of businesses without rules.
    var zone = "UTC"
    /// By business, in the order of their dates.
    var rules: [String: [Rule]] = [:]

    func day(of time: Int64, _ business: String) -> Int32 {
        let own = rules[business] ?? []
        var day = Self.date(of: time, own.first { $0.from == nil }?.zone ?? zone)
        for rule in own {
            guard let from = rule.from else { continue }
            if time < Self.start(of: from, rule.zone) { return min(day, from - 1) }
            day = max(Self.date(of: time, rule.zone), from)
        }
        return day
    }

    private static func date(of time: Int64, _ zone: String) -> Int32 {
        let second = Double((time - (time % 1_000_000 + 1_000_000) % 1_000_000) / 1_000_000)
        let offset = TimeZone(identifier: zone)!.secondsFromGMT(
            for: Date(timeIntervalSince1970: second))
        return Int32(((second + Double(offset)) / 86_400).rounded(.down))
    }

    /// The first quarter of an hour that is of this date.
    private static func start(of date: Int32, _ zone: String) -> Int64 {
        let quarter: Int64 = 900_000_000
        var time = Int64(date) * 86_400_000_000 - 100 * quarter
        while self.date(of: time, zone) < date { time += quarter }
        return time
    }
}

extension PlainRow {
    /// The counters that it adds to, by the names that the tables have for them.
    var counters: [String: UInt128] {
        let type = ["Impressions", "Clicks", "Redemptions"][Int(event.type.rawValue) - 1]
        let isMeasured = event.visible != nil && event.duration != nil
        var sums: [String: UInt128] = ["gross" + type: 1]
        switch verdict {
        case .counted: sums["counted" + type] = 1
        case .notViewable: sums["notViewableImpressions"] = 1
        case .invalidTraffic: sums["invalid" + type] = 1
        case .duplicate, .sessionRepeat: sums["duplicate" + type] = 1
        case .conflict: sums["conflict" + type] = 1
        default: sums["refused" + type] = 1
        }
        let isJudged = verdict == .counted || verdict == .undetermined
        if event.type == .impression && isJudged {
            sums[isMeasured ? "viewableImpressions" : "undeterminedImpressions"] = 1
        }
        guard verdict == .counted else { return sums }
        if isUnchecked { sums["uncheckedEvents"] = 1 }
        if isOrphan { sums["orphan" + type] = 1 }
        if isOverflow { sums["overflowEvents"] = 1 }
        sums["revenue"] = UInt128(event.revenue)
        sums["spend"] = UInt128(event.spend)
        return sums
    }
}
