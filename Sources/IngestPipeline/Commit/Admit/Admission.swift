// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query
import IngestFormat

/// Turns the decoded events of one packet into rows of the open block: names to ordinals, the verdict (repeats
/// among it), the business day, the columns. Owned by the commit queue.
///
/// **Cost** 40–80 ns an event by cache; allocates only while the dictionary grows. The dictionary
/// entries of the next packet are prefetched while one is admitted, so that their misses overlap.
@safe struct Admission: ~Copyable {
    private var dictionary: NameDictionary
    private let policy: AdmissionPolicy
    private var repeats: RepeatRule
    private var calendar: BusinessCalendar

    var nextName: UInt32 { dictionary.nextName }
    var nextKey: UInt32 { dictionary.nextKey }

    init(
        dictionary: consuming NameDictionary, repeats: consuming RepeatRule,
        policy: AdmissionPolicy, calendar: BusinessCalendar
    ) {
        self.dictionary = dictionary
        self.repeats = repeats
        self.policy = policy
        self.calendar = calendar
    }

    /// Starts the loads that `admit` of the same events will wait for.
    @inline(__always)
    mutating func prefetch(_ events: UnsafePointer<EventDescriptor>, eventCount: Int) {
        for index in 0..<eventCount {
            // SAFETY: `events` holds `eventCount` descriptors.
            dictionary.prefetch(hash: unsafe events[index].rewardHash)
            dictionary.prefetch(hash: unsafe events[index].businessHash)
            if unsafe events[index].flags & EventDescriptor.Flags.hasEventID != 0 {
                repeats.prefetch(unsafe events[index].eventHash)
            }
        }
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() {
        dictionary.goOnGrowing()
        repeats.goOn()
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) { repeats.open(admissionTime: admissionTime) }

    /// The newest commit time of an id that is no longer known, µs since 1970; `Int64.min` if all are.
    var completeSinceMicroseconds: Int64 { repeats.completeSinceMicroseconds }

    /// Admits `eventCount` events into `slot`, which has room for them.
    ///
    /// - Parameters:
    ///   - events: `eventCount` descriptors whose places lie inside `bytes`.
    ///   - tally: gets one verdict an event.
    /// - Returns: how many events are malformed because a name or a key would be over its limit.
    mutating func admit(
        _ events: UnsafePointer<EventDescriptor>, eventCount: Int, bytes: UnsafeRawPointer,
        into slot: BlockSlot, tally: inout VerdictTally
    ) -> Int {
        var cursor = slot.rows.mark
        var namelessCount = 0
        let admissionTime = slot.admissionTime
        // The places of names and ids were fetched while the packet before was admitted; now what they lead to, all together.
        for index in 0..<eventCount {
            // SAFETY: `events` holds `eventCount` descriptors.
            dictionary.prefetchRecord(hash: unsafe events[index].businessHash)
            dictionary.prefetchRecord(hash: unsafe events[index].rewardHash)
            if unsafe events[index].flags & EventDescriptor.Flags.hasEventID != 0 {
                repeats.prefetchFurther(unsafe events[index].eventHash)
            }
        }
        for index in 0..<eventCount {
            let event = unsafe events + index
            var verdict = unsafe policy.verdict(on: event.pointee, admissionTime: admissionTime)
            if unsafe event.pointee.consent != Consent.optOut.rawValue {
                if let key = unsafe key(of: event, bytes, slot) {
                    verdict = unsafe append(
                        event, verdict, key, bytes, slot, admissionTime, &cursor)
                } else {
                    verdict = .malformed
                    namelessCount += 1
                }
            }
            tally.add(verdict)
        }
        slot.rows.mark = cursor
        return namelessCount
    }

    /// The instant whose day an event belongs to: its own, unless it is one that the clock refused from far away.
    @inline(__always)
    private static func timeOfDay(
        _ time: Int64, _ verdict: Verdict, _ admissionTime: Int64
    ) -> Int64 {
        switch verdict {
        case .tooOld, .tooEarly: refusedTime(time, admissionTime)
        default: time
        }
    }

    @inline(never)
    private static func refusedTime(_ time: Int64, _ admissionTime: Int64) -> Int64 {
        let distance = Limits.refusedDayDistanceMicrosecondsMax
        // Wrapping, as in the policy: the clock may be set to nonsense.
        guard time < admissionTime &- distance || time > admissionTime &+ distance else {
            return time
        }
        return min(max(admissionTime, 0), Limits.timestampMicrosecondsMax)
    }

    /// The last rule: whether an event that would count has been counted before.
    @inline(__always)
    private mutating func judgeRepeat(
        _ event: UnsafePointer<EventDescriptor>, _ key: KeyOrdinal
    ) -> RepeatRule.Answer {
        let check = unsafe RepeatRule.check(
            type: event.pointee.type, key: key.rawValue, revenue: event.pointee.revenueMicros,
            spend: event.pointee.spendMicros)
        return unsafe repeats.judge(
            event.pointee.eventHash, check: check, timestamp: event.pointee.timestampMicroseconds)
    }

    /// Adds the row of an event that is stored.
    /// - Returns: its verdict, which is another one if its id was counted before.
    @inline(__always)
    private mutating func append(
        _ event: UnsafePointer<EventDescriptor>, _ firstVerdict: Verdict, _ key: KeyOrdinal,
        _ bytes: UnsafeRawPointer, _ slot: BlockSlot, _ admissionTime: Int64,
        _ cursor: inout BlockRows.Mark
    ) -> Verdict {
        let platform = unsafe ordinal(
            event.pointee.platformHash, bytes, event.pointee.platformOffset,
            event.pointee.platformByteCount, slot)
        let campaign = unsafe ordinal(
            event.pointee.campaignHash, bytes, event.pointee.campaignOffset,
            event.pointee.campaignByteCount, slot)
        let source = unsafe ordinal(
            event.pointee.sourceHash, bytes, event.pointee.sourceOffset,
            event.pointee.sourceByteCount, slot)
        var answer = RepeatRule.Answer(verdict: firstVerdict, isOutsideWindow: false)
        if unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0,
            case .counted = firstVerdict
        {
            answer = unsafe judgeRepeat(event, key)
        }
        let verdict = answer.verdict
        let rows = slot.rows
        let row = cursor.row
        // SAFETY: the caller has checked that the block has room for a row for each event, and a sparse
        // column never has more elements than there are rows.
        unsafe rows.key[row] = key.rawValue
        unsafe rows.timestamp[row] = event.pointee.timestampMicroseconds
        unsafe rows.day[row] = calendar.day(
            of: Self.timeOfDay(event.pointee.timestampMicroseconds, verdict, admissionTime))
        unsafe rows.platform[row] = platform
        unsafe rows.campaign[row] = campaign
        unsafe rows.source[row] = source
        var bits = unsafe appendSparse(event, verdict, rows, &cursor)
        if answer.isOutsideWindow { bits |= RowAttributes.outsideWindow }
        unsafe rows.attributes[row] =
            RowAttributes(
                type: event.pointee.type, verdict: verdict, consent: event.pointee.consent,
                format: event.pointee.format, bits: bits
            ).rawValue
        cursor.row = row + 1
        return verdict
    }

    /// Fills in the sparse columns of an event's row.
    /// - Returns: which of them it has, as bits of its attributes.
    @inline(__always)
    private func appendSparse(
        _ event: UnsafePointer<EventDescriptor>, _ verdict: Verdict, _ rows: BlockRows,
        _ cursor: inout BlockRows.Mark
    ) -> UInt16 {
        var bits: UInt16 = 0
        let flags = unsafe event.pointee.flags
        // SAFETY: as in `append`.
        // Without consent to be counted, nothing that identifies the event is kept.
        if flags & EventDescriptor.Flags.hasEventID != 0
            && verdict.rawValue != Verdict.noConsent.rawValue
        {
            unsafe rows.eventHash[cursor.eventHash] = event.pointee.eventHash
            cursor.eventHash += 1
            bits |= RowAttributes.eventID
        }
        if flags & EventDescriptor.Flags.isMeasured != 0 {
            unsafe rows.visible[cursor.measured] = event.pointee.visiblePartsPerMillion
            unsafe rows.duration[cursor.measured] = event.pointee.durationMilliseconds
            cursor.measured += 1
            bits |= RowAttributes.measured
        }
        let (revenue, spend) = unsafe (event.pointee.revenueMicros, event.pointee.spendMicros)
        if revenue | spend != 0 {
            unsafe rows.revenue[cursor.money] = revenue
            unsafe rows.spend[cursor.money] = spend
            cursor.money += 1
            cursor.moneyMicros &+= UInt64(bitPattern: revenue &+ spend)
            bits |= RowAttributes.money
        }
        if flags & EventDescriptor.Flags.isInvalidTraffic != 0 {
            bits |= RowAttributes.markedInvalid
        }
        return bits
    }

    /// The key of the event's (reward, business); new names and keys go into the block. `nil` at their limits.
    @inline(__always)
    private mutating func key(
        of event: UnsafePointer<EventDescriptor>, _ bytes: UnsafeRawPointer, _ slot: BlockSlot
    ) -> KeyOrdinal? {
        // The business first: ordinals are given in this order.
        guard
            let business = unsafe nameSlot(
                event.pointee.businessHash, bytes + Int(event.pointee.businessOffset),
                Int(event.pointee.businessByteCount), slot)
        else { return nil }
        let businessOrdinal = dictionary.ordinal(of: business)
        guard
            let reward = unsafe nameSlot(
                event.pointee.rewardHash, bytes + Int(event.pointee.rewardOffset),
                Int(event.pointee.rewardByteCount), slot)
        else { return nil }
        if let key = dictionary.key(reward: reward, business: businessOrdinal) { return key }
        guard let key = dictionary.insertKey(reward: reward, business: businessOrdinal) else {
            return nil
        }
        slot.keys.append(
            RewardKey(reward: dictionary.ordinal(of: reward), business: businessOrdinal))
        return key
    }

    /// The ordinal of an optional name: 0 where the event has none, and at the limit on names.
    @inline(__always)
    private mutating func ordinal(
        _ hash: UInt64, _ bytes: UnsafeRawPointer, _ offset: UInt16, _ byteCount: UInt8,
        _ slot: BlockSlot
    ) -> UInt32 {
        guard byteCount > 0,
            let place = unsafe nameSlot(hash, bytes + Int(offset), Int(byteCount), slot)
        else { return 0 }
        return dictionary.ordinal(of: place).rawValue
    }

    @inline(__always)
    private mutating func nameSlot(
        _ hash: UInt64, _ name: UnsafeRawPointer, _ byteCount: Int, _ slot: BlockSlot
    ) -> NameSlot? {
        if let known = unsafe dictionary.slot(hash: hash, bytes: name, byteCount: byteCount) {
            return known
        }
        guard let new = unsafe dictionary.insert(hash: hash, bytes: name, byteCount: byteCount)
        else {
            return nil
        }
        // SAFETY: the name lies in the record's packet bytes, which live until the record is released.
        unsafe slot.names.append(UnsafeRawBufferPointer(start: name, count: byteCount).bytes)
        return new
    }
}

/// The counting rules: a pure function of (event, policy, clock) → verdict.
///
/// The rules apply in a fixed order and the first match wins: consent, the key's business, clock, invalid
/// traffic, viewability, counted. The rule of repeats, which needs an index of what came before, is asked of events
/// that these count (`RepeatRule`); nothing here keeps state.
///
/// **Cost** About 2 ns an event; no memory beyond the value itself.
/// **Source** MRC Viewable Ad Impression Measurement Guidelines (50 % for 1 s; video 2 s; large display
/// 30 %): the thresholds are compared raw, in parts per million and milliseconds, and never rounded.
package struct AdmissionPolicy: Sendable, Equatable {
    /// Stands in each block header. Raised with every change of a rule, so that old rows can be judged
    /// again by the rules of their time.
    package static let version: UInt16 = 2

    /// Oldest accepted event: admission time minus this; `nil` accepts any age. Microseconds, > 0.
    package var ageMicrosecondsMax: Int64?
    /// Furthest accepted future: admission time plus this. Microseconds, ≥ 0.
    package var leadMicrosecondsMax: Int64
    /// Whether impressions without both viewability numbers count (they are shown apart either way).
    package var countsUndetermined: Bool
    /// Whether events whose consent is not set count.
    package var countsConsentNotSet: Bool

    package init(
        ageMicrosecondsMax: Int64? = 604_800_000_000,
        leadMicrosecondsMax: Int64 = 300_000_000,
        countsUndetermined: Bool = true,
        countsConsentNotSet: Bool = true
    ) {
        self.ageMicrosecondsMax = ageMicrosecondsMax
        self.leadMicrosecondsMax = leadMicrosecondsMax
        self.countsUndetermined = countsUndetermined
        self.countsConsentNotSet = countsConsentNotSet
    }

    /// The verdict over one well-formed event.
    ///
    /// An event that opted out gets `noConsent` like one that is refused by policy; only the caller,
    /// which sees the consent field, knows that the first must not be stored.
    /// - Parameter admissionTime: wall clock of the block that will hold the event, µs since 1970 UTC.
    @inline(__always)
    package func verdict(on event: borrowing EventDescriptor, admissionTime: Int64) -> Verdict {
        if event.consent != Consent.optIn.rawValue {
            if event.consent == Consent.optOut.rawValue || !countsConsentNotSet {
                return .noConsent
            }
        }
        if event.flags & EventDescriptor.Flags.isWrongBusiness != 0 { return .wrongBusiness }
        // Event times are within Limits.timestampMicrosecondsMax of 1970, so the difference fits;
        // wrapping operators keep a clock that is set to nonsense from trapping.
        let age = admissionTime &- event.timestampMicroseconds
        // No time at all, or one before 1970: of no day, also where events of any age are taken.
        if event.timestampMicroseconds == 0 { return .tooOld }
        if age < 0 &- leadMicrosecondsMax { return .tooEarly }
        if let ageMicrosecondsMax, age > ageMicrosecondsMax { return .tooOld }
        if event.flags & EventDescriptor.Flags.isInvalidTraffic != 0 { return .invalidTraffic }
        if event.type != EventType.impression.rawValue { return .counted }
        if event.flags & EventDescriptor.Flags.isMeasured == 0 {
            return countsUndetermined ? .counted : .undetermined
        }
        let threshold = Self.threshold(of: event.format)
        if event.visiblePartsPerMillion < threshold.visiblePartsPerMillion { return .notViewable }
        if event.durationMilliseconds < threshold.durationMilliseconds { return .notViewable }
        return .counted
    }

    /// The least share and time at which an impression of this format (`AdFormat` raw value) is viewable.
    package static func threshold(
        of format: UInt8
    ) -> (visiblePartsPerMillion: UInt32, durationMilliseconds: UInt32) {
        switch format {
        case AdFormat.largeDisplay.rawValue: (300_000, 1_000)
        case AdFormat.video.rawValue: (500_000, 2_000)
        default: (500_000, 1_000)
        }
    }
}
