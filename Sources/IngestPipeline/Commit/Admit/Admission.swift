// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query
import IngestFormat
import IngestRing
import IngestRules

/// Turns the decoded events of one packet into rows of the open block: names to ordinals, the verdict (repeats
/// among it), the business day, the columns. Owned by the commit queue.
///
/// **Cost** 40–80 ns an event by cache; allocates only while the dictionary grows. The pairs and ids of some
/// packets are loaded before the first of them is admitted, so that their misses overlap.
@safe struct Admission: ~Copyable {
    let hash: KeyedHash
    var dictionary: NameDictionary
    var attributions = AttributionCache()
    var platforms = AttributionCache()
    var known: KnownAttributions
    /// Keys that were found by their pair's hash.
    private var foundCount = 0
    var refused = NameRefusals()
    private let policy: CountingPolicy
    /// Of one business.
    let rewardKeyCountMax: Int
    private let moneyMicrosMax: Int64
    var repeats: RepeatRule
    var sessions: SessionRule
    private var days: BusinessDays
    var owners: RewardOwners
    /// Of the open block.
    private var admissionTime: Int64 = 0
    /// Events of the turn that were looked at ahead.
    private var aheadCount = 0
    /// Empty but between `lookAhead` and `loadAhead`.
    var lines = LineBatch()
    /// Of the packet's events, each one more than its key; 0 = not known when the packet came.
    private let keyEnds: UnsafeMutablePointer<UInt32>
    /// Of those that were not known then, the hash of the reward's name.
    private let rewardHashes: UnsafeMutablePointer<UInt64>
    private let keyEndCapacity = Limits.packetEventCountMax

    var nextName: UInt32 { dictionary.nextName }
    var nextKey: UInt32 { dictionary.nextKey }

    /// - Parameter hash: the directory's.
    init(
        hash: KeyedHash, dictionary: consuming NameDictionary,
        attributions: consuming KnownAttributions, repeats: consuming RepeatRule,
        sessions: consuming SessionRule, policy: CountingPolicy,
        _ configuration: PipelineConfiguration
    ) {
        self.hash = hash
        known = attributions
        self.dictionary = dictionary
        self.repeats = repeats
        self.sessions = sessions
        self.policy = policy
        rewardKeyCountMax = configuration.rewardKeyCountMax
        moneyMicrosMax = configuration.moneyMicrosMax
        days = BusinessDays(configuration.zones)
        owners = configuration.owners
        unsafe keyEnds = .allocate(capacity: keyEndCapacity)
        unsafe rewardHashes = .allocate(capacity: keyEndCapacity)
    }

    deinit {
        unsafe keyEnds.deallocate()
        unsafe rewardHashes.deallocate()
    }

    /// Events whose lines are loaded ahead, the last packet whole: most fit the second-level cache.
    static var aheadCountMax: Int { 1_024 }

    /// To be called before the packets of a turn are looked at.
    mutating func beginTurn() {
        aheadCount = 0
        sessions.beginTurn()
    }

    /// Notes what `admit` of the same events would wait for.
    @inline(__always)
    mutating func lookAhead(_ packet: PacketEvents) {
        if aheadCount >= Self.aheadCountMax { return }
        aheadCount += packet.count
        for index in 0..<packet.count {
            // SAFETY: there are `count` rows; nothing is inserted before `loadAhead`.
            unsafe lines.add(dictionary.line(of: packet.rows[index].pair))
            if unsafe packet.rows[index].flags & EventDescriptor.Flags.hasEventID != 0 {
                unsafe lines.add(repeats.line(of: packet.rows[index].eventHash))
            }
        }
        if sessions.isOn { prepareSessions(packet) }
    }

    /// Loads it, once all packets of the turn were looked at.
    mutating func loadAhead() {
        // SAFETY: the turn's first packet is admitted after it.
        unsafe lines.load()
        sessions.load(with: &lines)
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() {
        dictionary.goOnGrowing()
        known.goOnGrowing()
        repeats.goOn()
        sessions.goOnGrowing()
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) {
        self.admissionTime = admissionTime
        repeats.open(admissionTime: admissionTime)
        sessions.open(admissionTime: admissionTime)
    }

    /// From the next row on days are those of these zones.
    mutating func replaceZones(by zones: BusinessZones) { days = BusinessDays(zones) }

    /// From the next event on these are the owners that are not those of the log.
    mutating func replaceOwners(by owners: RewardOwners) { self.owners = owners }

    /// Of the zones that days are made by.
    var zoneVersion: UInt32 { days.version }

    /// The newest commit time of an id that is no longer known, µs since 1970; `Int64.min` if all are.
    var completeSinceMicroseconds: Int64 { repeats.completeSinceMicroseconds }

    /// Whether a packet has an event of a reward and business that are not known together.
    mutating func hasNewPairs(_ packet: PacketEvents) -> Bool { !findKeys(packet) }

    /// Looks up the keys of a packet's events.
    /// - Returns: whether all are known.
    @inline(__always)
    private mutating func findKeys(_ packet: PacketEvents) -> Bool {
        precondition(packet.count <= keyEndCapacity)
        // SAFETY: there are `count` rows, and room for as many.
        return unsafe dictionary.findKeyEnds(of: packet.rows, packet.count, into: keyEnds)
    }

    /// Takes the hashes of the names of rewards whose keys are not known, and starts the loads of these names, all together.
    @inline(never)
    private mutating func hashNewRewards(_ packet: PacketEvents) {
        // SAFETY: there are as many keys and hashes as rows, and a reward's name lies in the packet.
        for index in 0..<packet.count where unsafe keyEnds[index] == 0 {
            let rewardHash = unsafe hash.name(packet.rows[index].reward(in: packet.bytes))
            unsafe rewardHashes[index] = rewardHash
            dictionary.prefetch(hash: rewardHash)
        }
    }

    /// The hash of the reward's name of an event of the packet that is being admitted, for which `key` gave none.
    @inline(__always)
    func rewardHash(ofEvent index: Int) -> UInt64 {
        // SAFETY: there are as many as events, and `admit` has taken it where there is no key.
        unsafe precondition(keyEnds[index] == 0)
        return unsafe rewardHashes[index]
    }

    /// Admits the events of a packet into `slot`, which has room for them.
    ///
    /// - Parameter tally: gets one verdict an event.
    mutating func admit(
        _ packet: PacketEvents, into slot: BlockSlot, tally: inout VerdictTally
    ) {
        var cursor = slot.rows.mark
        // The lines of pairs and ids were loaded before; now what is on them, all together.
        if !findKeys(packet) { hashNewRewards(packet) }
        var sessionBytes: UInt8 = 0
        for index in 0..<packet.count {
            // SAFETY: there are `count` rows.
            let event = unsafe packet.rows + index
            unsafe sessionBytes |= event.pointee.sessionByteCount
            if unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0 {
                repeats.prefetchFurther(unsafe event.pointee.eventHash)
            }
        }
        let isPrepared =
            sessionBytes == 0 || !sessions.isOn
            || packet.preparedIndex + packet.count <= sessions.preparedCount
        let packet = isPrepared ? packet : prepareLate(packet)
        if sessionBytes != 0 && sessions.isOn {
            sessions.prefetch(packet.preparedIndex..<packet.preparedIndex + packet.count)
        }
        for index in 0..<packet.count {
            let event = unsafe packet.rows + index
            var verdict = unsafe policy.verdict(
                on: JudgedEvent(event.pointee), admissionTime: admissionTime)
            if unsafe event.pointee.consent != Consent.optOut.rawValue {
                if let side = unsafe packet.side(of: event), unsafe hasTooMuch(side) {
                    verdict = .malformed
                } else if let key = unsafe key(ofEvent: index, event.pointee.pair) {
                    if unsafe isRow(event, of: key, packet.bytes, &verdict) {
                        verdict = append(
                            index, verdict, key, packet, slot, &cursor, judgedAs: key)
                    }
                } else {
                    verdict = admitNew(index, verdict, packet, slot, &cursor)
                }
            }
            tally.add(verdict)
        }
        slot.rows.mark = cursor
    }

    /// The key of an event of the packet; one that was given to an event before it is not among those that were found.
    @inline(__always)
    private func key(ofEvent index: Int, _ pair: PairHash) -> KeyOrdinal? {
        // SAFETY: there are as many as events.
        let keyEnd = unsafe keyEnds[index]
        return keyEnd != 0 ? KeyOrdinal(rawValue: keyEnd &- 1) : dictionary.key(of: pair)
    }

    /// The instant whose day an event belongs to: its own, unless it was refused from far away, by the clock or before that was
    /// asked.
    @inline(__always)
    private static func timeOfDay(
        _ time: Int64, _ verdict: Verdict, _ admissionTime: Int64
    ) -> Int64 {
        switch verdict {
        case .tooOld, .tooEarly, .noConsent: refusedTime(time, admissionTime)
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

    /// Adds the row of an event of a known key, but of a refused one that has other names that are not known.
    /// - Parameter judgedKey: the key, but of one of its business's other rewards what these are told apart by.
    /// - Returns: its verdict, which is another one if its id was counted before.
    @inline(__always)
    mutating func append(
        _ index: Int, _ firstVerdict: Verdict, _ key: KeyOrdinal, _ packet: PacketEvents,
        _ slot: BlockSlot, _ cursor: inout BlockRows.Mark, judgedAs judgedKey: KeyOrdinal
    ) -> Verdict {
        let event = unsafe packet.rows + index
        var (revenue, spend): (Int64, Int64) = (0, 0)
        if let side = unsafe packet.side(of: event) {
            (revenue, spend) = unsafe (side.pointee.revenueMicros, side.pointee.spendMicros)
        }
        var names = unsafe attributions(of: event, key, packet, firstVerdict)
        if !names.areKnown {
            if let refusal = refusal(ofUnnamed: index, firstVerdict, judgedKey, packet) {
                return refusal
            }
            names = unsafe giveNames(event, key, packet, slot)
        }
        let judged = judge(
            index, firstVerdict, judgedKey, packet, revenue: revenue, spend: spend)
        let verdict = judged.verdict
        if names.campaign | names.source != 0 { cursor.isAttributed = true }
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
        unsafe rows.platform[row] = names.platform
        unsafe rows.campaign[row] = names.campaign
        unsafe rows.source[row] = names.source
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

    /// Whether an event of a known key is stored. It is not, and its verdict says so, if it is of another business than its
    /// packet's key, or a sample shows that the key is not of its names.
    @inline(__always)
    private mutating func isRow(
        _ event: UnsafePointer<PacketRow>, of key: KeyOrdinal, _ bytes: UnsafeRawPointer,
        _ verdict: inout Verdict
    ) -> Bool {
        // Its mark and not its verdict: consent comes first.
        if unsafe event.pointee.flags & EventDescriptor.Flags.isWrongBusiness != 0 { return false }
        foundCount &+= 1
        if foundCount & (Self.sampleInterval - 1) == 0, unsafe !isKey(key, of: event, bytes) {
            verdict = .malformed
            return false
        }
        return true
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

    /// Whether an event has an amount that is too great for one event.
    @inline(never)
    private mutating func hasTooMuch(_ side: UnsafePointer<PacketSide>) -> Bool {
        let greatest = unsafe max(side.pointee.revenueMicros, side.pointee.spendMicros)
        if greatest <= moneyMicrosMax { return false }
        refused.moneyCount += 1
        return true
    }
}
