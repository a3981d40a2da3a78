// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query
import IngestFormat
import IngestRing
import IngestRules

/// Turns the decoded events of one packet into rows of the open block: names to ordinals, the verdict (repeats
/// among it), the business day, the columns. Owned by the commit queue.
///
/// **Cost** 40–80 ns an event by cache; allocates only while the dictionary grows. The pairs and ids of the next packet
/// are prefetched while one is admitted, so that their misses overlap.
@safe struct Admission: ~Copyable {
    private let hash: KeyedHash
    private var dictionary: NameDictionary
    private var attributions = AttributionCache()
    private var platforms = AttributionCache()
    private var known: KnownAttributions
    /// Keys that were found by their pair's hash.
    private var foundCount = 0
    private var refused = NameRefusals()
    private let policy: CountingPolicy
    var repeats: RepeatRule
    var sessions: SessionRule
    private var days: BusinessDays
    /// Of the open block.
    private var admissionTime: Int64 = 0

    var nextName: UInt32 { dictionary.nextName }
    var nextKey: UInt32 { dictionary.nextKey }

    /// - Parameter hash: the directory's.
    init(
        hash: KeyedHash, dictionary: consuming NameDictionary,
        attributions: consuming KnownAttributions, repeats: consuming RepeatRule,
        sessions: consuming SessionRule, policy: CountingPolicy, zones: BusinessZones
    ) {
        self.hash = hash
        known = attributions
        self.dictionary = dictionary
        self.repeats = repeats
        self.sessions = sessions
        self.policy = policy
        days = BusinessDays(zones)
    }

    /// Starts the loads that `admit` of the same events will wait for.
    @inline(__always)
    mutating func prefetch(_ packet: PacketEvents) {
        for index in 0..<packet.count {
            // SAFETY: there are `count` rows.
            dictionary.prefetch(unsafe packet.rows[index].pair)
            if unsafe packet.rows[index].flags & EventDescriptor.Flags.hasEventID != 0 {
                repeats.prefetch(unsafe packet.rows[index].eventHash)
            }
        }
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() {
        dictionary.goOnGrowing()
        known.goOnGrowing()
        repeats.goOn()
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) {
        self.admissionTime = admissionTime
        repeats.open(admissionTime: admissionTime)
        sessions.open(admissionTime: admissionTime)
    }

    /// From the next row on days are those of these zones.
    mutating func replaceZones(by zones: BusinessZones) { days = BusinessDays(zones) }

    /// Of the zones that days are made by.
    var zoneVersion: UInt32 { days.version }

    /// The newest commit time of an id that is no longer known, µs since 1970; `Int64.min` if all are.
    var completeSinceMicroseconds: Int64 { repeats.completeSinceMicroseconds }

    /// Admits the events of a packet into `slot`, which has room for them.
    ///
    /// - Parameter tally: gets one verdict an event.
    mutating func admit(
        _ packet: PacketEvents, into slot: BlockSlot, tally: inout VerdictTally
    ) {
        var cursor = slot.rows.mark
        // The lines of ids were fetched while the packet before was admitted; now what they lead to, all together.
        for index in 0..<packet.count {
            // SAFETY: there are `count` rows.
            if unsafe packet.rows[index].flags & EventDescriptor.Flags.hasEventID != 0 {
                repeats.prefetchFurther(unsafe packet.rows[index].eventHash)
            }
        }
        if sessions.isOn { prepareSessions(packet) }
        for index in 0..<packet.count {
            let event = unsafe packet.rows + index
            var verdict = unsafe policy.verdict(
                on: JudgedEvent(event.pointee), admissionTime: admissionTime)
            if unsafe event.pointee.consent != Consent.optOut.rawValue,
                let key = key(ofEvent: index, packet, slot, &verdict)
            {
                verdict = append(index, verdict, key, packet, slot, &cursor)
            }
            tally.add(verdict)
        }
        slot.rows.mark = cursor
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

    @inline(never)
    private mutating func findDay(
        of time: Int64, _ key: KeyOrdinal, _ event: UnsafePointer<PacketRow>,
        _ bytes: UnsafeRawPointer
    ) -> Int32 {
        days.find(time, of: key) { unsafe Array(event.pointee.business(in: bytes)) }
    }

    /// Adds the row of an event that is stored.
    /// - Returns: its verdict, which is another one if its id was counted before.
    @inline(__always)
    private mutating func append(
        _ index: Int, _ firstVerdict: Verdict, _ key: KeyOrdinal, _ packet: PacketEvents,
        _ slot: BlockSlot, _ cursor: inout BlockRows.Mark
    ) -> Verdict {
        let event = unsafe packet.rows + index
        var (revenue, spend): (Int64, Int64) = (0, 0)
        if unsafe event.pointee.side != 0 {
            // SAFETY: rows give only numbers of side records that are there.
            let side = unsafe packet.sides + (Int(event.pointee.side) &- 1)
            (revenue, spend) = unsafe (side.pointee.revenueMicros, side.pointee.spendMicros)
        }
        let judged = judge(
            index, firstVerdict, key, packet, revenue: revenue, spend: spend)
        let verdict = judged.verdict
        let platform = unsafe platform(event.pointee.platform, packet, slot, verdict)
        let (campaign, source) = unsafe attribution(
            event, key, packet, slot, verdict)
        if campaign | source != 0 { cursor.isAttributed = true }
        let rows = slot.rows
        let row = cursor.row
        // SAFETY: the caller has checked that the block has room for a row for each event, and a sparse
        // column never has more elements than there are rows.
        unsafe rows.key[row] = key.rawValue
        unsafe rows.timestamp[row] = event.pointee.timestampMicroseconds
        let time = unsafe Self.timeOfDay(
            event.pointee.timestampMicroseconds, verdict, admissionTime)
        if let day = days.known(time, of: key) {
            unsafe rows.day[row] = day
        } else {
            unsafe rows.day[row] = findDay(of: time, key, event, packet.bytes)
        }
        unsafe rows.platform[row] = platform
        unsafe rows.campaign[row] = campaign
        unsafe rows.source[row] = source
        var bits = unsafe appendSparse(event, verdict, rows, &cursor)
        if revenue | spend != 0 {
            unsafe rows.revenue[cursor.money] = revenue
            unsafe rows.spend[cursor.money] = spend
            cursor.money += 1
            cursor.moneyMicros &+= UInt64(bitPattern: revenue &+ spend)
            bits |= RowAttributes.money
        }
        bits |= judged.detail
        if let pseudonym = judged.pseudonym {
            unsafe rows.session[cursor.session] = pseudonym
            cursor.session += 1
            bits |= RowAttributes.session
        }
        unsafe rows.attributes[row] =
            RowAttributes(
                type: event.pointee.type, verdict: verdict, consent: event.pointee.consent,
                format: event.pointee.format, bits: bits
            ).rawValue
        cursor.row = row + 1
        return verdict
    }

    /// Fills in the sparse columns of an event's row, but for its amounts.
    /// - Returns: which of them it has, as bits of its attributes.
    @inline(__always)
    private func appendSparse(
        _ event: UnsafePointer<PacketRow>, _ verdict: Verdict, _ rows: BlockRows,
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
        return bits
    }

    /// The key of the event's (reward, business); of an event that is not refused, new names and keys go into the block.
    /// `nil` for an event that is no row, whose verdict is then in `verdict`: it is refused and its key is not known, it is
    /// of another business than its packet's key, or it is malformed since there is no room for its names, or a sample
    /// shows that the key is not of these.
    @inline(__always)
    private mutating func key(
        ofEvent index: Int, _ packet: PacketEvents, _ slot: BlockSlot, _ verdict: inout Verdict
    ) -> KeyOrdinal? {
        let event = unsafe packet.rows + index
        guard let key = unsafe dictionary.key(of: event.pointee.pair) else {
            return newKey(ofEvent: index, packet, slot, &verdict)
        }
        if case .wrongBusiness = verdict { return nil }
        foundCount &+= 1
        if foundCount & (Self.sampleInterval - 1) == 0, unsafe !isKey(key, of: event, packet.bytes)
        {
            verdict = .malformed
            return nil
        }
        return key
    }

    /// One of so many keys that were found by hash has its names compared. A power of two.
    private static var sampleInterval: Int { 4_096 }

    /// What was refused for its names since the last call.
    mutating func takeRefusals() -> NameRefusals {
        defer { refused = NameRefusals() }
        refused.overflowCount = known.takeOverflowCount()
        return refused
    }

    @inline(never)
    private mutating func isKey(
        _ key: KeyOrdinal, of event: UnsafePointer<PacketRow>, _ bytes: UnsafeRawPointer
    ) -> Bool {
        let names = dictionary.names(of: key)
        let (reward, business) = unsafe (
            event.pointee.reward(in: bytes), event.pointee.business(in: bytes)
        )
        if unsafe dictionary.holds(reward, hash: hash.name(reward), as: names.reward),
            unsafe dictionary.holds(business, hash: hash.name(business), as: names.business)
        {
            return true
        }
        refused.mismatchCount += 1
        return false
    }

    @inline(never)
    private mutating func newKey(
        ofEvent index: Int, _ packet: PacketEvents, _ slot: BlockSlot, _ verdict: inout Verdict
    ) -> KeyOrdinal? {
        if verdict.isRefusal { return nil }
        if let refusal = refusalOfNew(index, packet) {
            verdict = refusal
            return nil
        }
        let event = unsafe packet.rows + index
        guard let names = unsafe names(of: event, packet.bytes, slot),
            let key = unsafe dictionary.insertKey(event.pointee.pair, of: names)
        else {
            refused.fullCount += 1
            verdict = .malformed
            return nil
        }
        slot.keys.append(names)
        return key
    }

    /// The ordinals of the event's names, new ones among them. `nil` at their limit.
    private mutating func names(
        of event: UnsafePointer<PacketRow>, _ bytes: UnsafeRawPointer, _ slot: BlockSlot
    ) -> RewardKey? {
        let (reward, business) = unsafe (
            event.pointee.reward(in: bytes), event.pointee.business(in: bytes)
        )
        // The business first: ordinals are given in this order.
        guard let business = unsafe nameSlot(hash.name(business), business, slot),
            let reward = unsafe nameSlot(hash.name(reward), reward, slot)
        else { return nil }
        return RewardKey(
            reward: dictionary.ordinal(of: reward), business: dictionary.ordinal(of: business))
    }

    /// The ordinal of a platform: 0 where the event has none, or is refused and it is new, and beyond the bound.
    @inline(__always)
    private mutating func platform(
        _ name: PacketRow.Name, _ packet: PacketEvents, _ slot: BlockSlot, _ verdict: Verdict
    ) -> UInt32 {
        guard name.byteCount > 0 else { return 0 }
        if let known = platforms.ordinal(name.hash) { return known.rawValue }
        // SAFETY: names lie inside the packet's bytes.
        let bytes = unsafe UnsafeRawBufferPointer(
            start: packet.bytes + Int(name.offset), count: Int(name.byteCount))
        return unsafe lookUpPlatform(name.hash, bytes, slot, verdict)
    }

    @inline(never)
    private mutating func lookUpPlatform(
        _ hash: UInt64, _ name: UnsafeRawBufferPointer, _ slot: BlockSlot, _ verdict: Verdict
    ) -> UInt32 {
        var place = unsafe dictionary.slot(hash: hash, name)
        if verdict.isRefusal {
            return place.map { known.find(platform: dictionary.ordinal(of: $0).rawValue) } ?? 0
        }
        if place == nil, known.hasRoomForPlatform { place = unsafe nameSlot(hash, name, slot) }
        let ordinal = known.admit(platform: place.map { dictionary.ordinal(of: $0).rawValue })
        if ordinal != 0 { platforms.set(hash, NameOrdinal(rawValue: ordinal)) }
        return ordinal
    }

    /// Campaign and source of an event's row.
    @inline(__always)
    private mutating func attribution(
        _ event: UnsafePointer<PacketRow>, _ key: KeyOrdinal, _ packet: PacketEvents,
        _ slot: BlockSlot, _ verdict: Verdict
    ) -> (campaign: UInt32, source: UInt32) {
        guard unsafe event.pointee.side != 0 else { return (0, 0) }
        // SAFETY: rows give only numbers of side records that are there.
        let side = unsafe packet.sides + (Int(event.pointee.side) &- 1)
        let campaign = unsafe ordinal(of: side.pointee.campaign, packet, slot, verdict)
        let source = unsafe ordinal(of: side.pointee.source, packet, slot, verdict)
        if campaign | source == 0 { return (0, 0) }
        return known.admit(
            Attribution(key: key.rawValue, campaign: campaign, source: source),
            isRefused: verdict.isRefusal)
    }

    /// The ordinal of a campaign or a source: 0 where the event has none, or is refused and it is new,
    /// `Attribution.other` beyond the bound.
    @inline(__always)
    private mutating func ordinal(
        of name: PacketRow.Name, _ packet: PacketEvents, _ slot: BlockSlot, _ verdict: Verdict
    ) -> UInt32 {
        guard name.byteCount > 0 else { return 0 }
        if let known = attributions.ordinal(name.hash) { return known.rawValue }
        // SAFETY: names lie inside the packet's bytes.
        let bytes = unsafe UnsafeRawBufferPointer(
            start: packet.bytes + Int(name.offset), count: Int(name.byteCount))
        return unsafe lookUp(name.hash, bytes, slot, verdict)
    }

    @inline(never)
    private mutating func lookUp(
        _ hash: UInt64, _ name: UnsafeRawBufferPointer, _ slot: BlockSlot, _ verdict: Verdict
    ) -> UInt32 {
        var place = unsafe dictionary.slot(hash: hash, name)
        if place == nil {
            if verdict.isRefusal { return 0 }
            if known.hasRoomForName { place = unsafe nameSlot(hash, name, slot) }
            guard let place else { return Attribution.other }
            known.enter(name: dictionary.ordinal(of: place).rawValue)
        }
        guard let place else { return 0 }
        let ordinal = dictionary.ordinal(of: place)
        attributions.set(hash, ordinal)
        return ordinal.rawValue
    }

    private mutating func nameSlot(
        _ hash: UInt64, _ name: UnsafeRawBufferPointer, _ slot: BlockSlot
    ) -> NameSlot? {
        if let known = unsafe dictionary.slot(hash: hash, name) { return known }
        guard let new = unsafe dictionary.insert(hash: hash, name) else { return nil }
        // SAFETY: the name lies in the record's packet bytes, which live until the record is released.
        unsafe slot.names.append(name.bytes)
        return new
    }
}
