// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query
import IngestFormat
import IngestRing

/// Takes packets from the ring, admits their events into the open block, closes blocks and hands them to
/// the sync stage. Owned by the commit queue; `step` is one turn of its loop.
///
/// `@unchecked Sendable`: it is moved whole to its queue and shares nothing but its links, which are.
///
/// A packet's rows, its ledger entry and its sequence are always in one block. A block closes when it is full; when it is older
/// than the commit interval and the sync stage has not two blocks waiting; and at once when the ring is empty, nothing is being
/// synced and no block was closed for a commit interval. A block of ledger entries alone waits up to a second.
///
/// While a block gathers rows the stage sleeps, a millisecond at most, and is not woken by each packet: what
/// it takes then, it takes in one go with warm caches, and the receive stage need not wake it.
package struct CommitStage<Clock: IngestClock>: ~Copyable, @unchecked Sendable {
    private var consumer: RingConsumer
    private var admission: Admission
    private var windows: AdmittedWindows
    private var ledger = BlockLedger()
    private var cursor: LogCursor
    private let zones: InForce<BusinessZones>
    private let owners: InForce<RewardOwners>
    /// Replacements of them that are taken in.
    private var changeCounts = (zones: 0, owners: 0)
    private let encoder = BlockEncoder()
    private let clock: Clock
    /// Dates blocks, and judges events.
    private var time: AdmissionClock<Clock>
    private let links: StageLinks
    private let counters: PipelineCounters
    /// Sends what waits for no block; `nil`: nothing does.
    private var answers: AckSender?
    private var answerList = AckList()
    private var pace: BlockPace
    private var slot: BlockSlot?
    /// Rows after which the open block is closed, so that it fits its segment.
    private var rowCountMax = 0
    /// What the next new name may be at most once the open block is closed: it bounds the names in the block.
    private var nameEnd = 0
    /// Events of the turn before those of the next record.
    private var eventIndex = 0

    /// Records taken before the clock is read again and the ring's space is given back.
    private static var recordCountMax: Int { 32 }
    /// About the bytes of a row on disk, names apart; only bounds how far a block may overshoot its segment.
    private static var rowByteCountEstimate: Int { 24 }

    /// - Parameters:
    ///   - hash: the directory's.
    ///   - zones, owners: in the place of the configuration's, once they are replaced.
    ///   - keyRing: which keys there are, for the ends of epochs; `nil`: senders are not authenticated.
    ///   - warn: takes a line for the log, and never blocks.
    package init(
        consumer: consuming RingConsumer, hash: KeyedHash,
        dictionary: consuming NameDictionary,
        attributions: consuming KnownAttributions = KnownAttributions(),
        repeats: consuming RepeatRule, sessions: consuming SessionRule, clock: Clock,
        start: LogStart, configuration: PipelineConfiguration,
        zones: InForce<BusinessZones> = InForce(.utc),
        owners: InForce<RewardOwners> = InForce(RewardOwners()),
        acks: consuming AckSender? = nil, keyRing: KeyRing? = nil, links: StageLinks,
        counters: PipelineCounters, warn: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.consumer = consumer
        admission = Admission(
            hash: hash, dictionary: dictionary, attributions: attributions, repeats: repeats,
            sessions: sessions, policy: start.policy, configuration)
        self.zones = zones
        self.owners = owners
        time = AdmissionClock(clock, counters: counters, state: links.state, warn: warn)
        windows = AdmittedWindows(
            start.windows, creditByteCount: configuration.creditByteCount,
            quotas: configuration.quotas, keyRing: keyRing, now: time.now())
        cursor = LogCursor(
            start: start, bounds: .init(byteCountMax: configuration.segmentByteCountMax))
        windows.commitEpoch = start.commitEpoch
        answers = acks
        self.clock = clock
        self.links = links
        self.counters = counters
        pace = BlockPace(intervalNanoseconds: configuration.commitIntervalNanoseconds)
    }

    /// One turn: takes what the ring holds, closes the block if it is due.
    ///
    /// - Parameter mayWait: whether to sleep when there is nothing to do; a simulation never waits.
    /// - Returns: `.finished` once the ring is closed, empty, and its last block handed over.
    package mutating func step(mayWait: Bool) -> StageOutcome {
        // While the disk takes nothing no sender can be heard.
        if links.state.shortage != nil { windows.idle.restart(at: time.now()) }
        let taken = takeRecords(mayWait: mayWait)
        let isDue = isDue(ringIsEmpty: taken == 0)
        if isDue && (slot != nil || openBlock(mayWait: mayWait)) { closeBlock() }
        if taken > 0 { return .worked }
        let gathers = mayWait && isGathering
        switch consumer.wait(timeoutNanoseconds: mayWait && !gathers ? waitNanoseconds() : 0) {
        case .records, .woken: return .worked
        case .timedOut:
            _ = time.now()  // It may step while nothing comes.
            if gathers { clock.pause(nanoseconds: gatherNanoseconds()) }
            return gathers ? .worked : .idle
        case .closed:
            while slot == nil && !ledger.isEmpty && !openBlock(mayWait: mayWait) {
                if !mayWait { return .idle }
            }
            closeBlock(isLast: true)
            links.toSync.close()
            return .finished
        }
    }

    // MARK: Records

    private mutating func takeRecords(mayWait: Bool) -> Int {
        guard var next = consumer.peek() else { return 0 }
        let now = time.now()
        var taken = 0
        while taken < Self.recordCountMax {
            let isOpen = slot != nil
            guard isOpen || openBlock(mayWait: mayWait), let slot else { break }
            if taken == 0 { loadAhead() }
            // A block that was just opened takes any record.
            let (count, left) = takeRecords(
                from: next, into: slot, now, isRoomy: !isOpen, Self.recordCountMax - taken)
            taken += count
            guard let left else { break }
            next = left
            if taken < Self.recordCountMax { closeBlock() }
        }
        if taken > 0 {
            consumer.release()
            windows.credit.note(waitingByteCount: consumer.waitingByteCount())
            admission.goOnGrowing()
            flushTally()
        }
        return taken
    }

    /// Loads the lines of tables that the turn will look at, all together, so that their misses overlap.
    private mutating func loadAhead() {
        eventIndex = 0
        admission.beginTurn()
        // SAFETY: as in `takeEvents`.
        consumer.lookAhead(Self.recordCountMax) { unsafe admission.lookAhead(PacketEvents($0)) }
        admission.loadAhead()
    }

    /// Takes records as long as the open block has room for all of their events.
    ///
    /// - Parameters:
    ///   - isRoomy: whether the first one is known to fit.
    ///   - countMax: records to be taken at most.
    /// - Returns: how many it took, and the next one, if there is one.
    private mutating func takeRecords(
        from first: RingRecord, into slot: BlockSlot, _ now: StageTime, isRoomy: Bool,
        _ countMax: Int
    ) -> (count: Int, next: RingRecord?) {
        var count = 0
        var next: RingRecord? = first
        while count < countMax, let record = next {
            guard count == 0 && isRoomy || hasRoom(slot, for: record) else { break }
            // The record's bytes stay until `release`.
            consumer.advance(past: record)
            next = consumer.peek()
            take(record, into: slot, now)
            count += 1
        }
        return (count, next)
    }

    /// Whether the open block has room for all that a record can hold.
    private func hasRoom(_ slot: BlockSlot, for record: RingRecord) -> Bool {
        let mark = slot.rows.mark
        let byteCount = Int(record.header.packetByteCount)
        let hasRows = mark.row == 0 || mark.row + Int(record.header.eventCount) <= rowCountMax
        // A name takes at least 3 bytes of a packet: tag, length, a byte.
        let nextNameMax = Int(admission.nextName) + byteCount / 3
        let moneyMax =
            UInt64(byteCount / Limits.moneyByteCountMin) * UInt64(Limits.moneyMicrosMax)
        // A key is given for a row, so that of these there are never too many.
        return hasRows && nextNameMax <= nameEnd && ledger.hasRoom
            && mark.moneyMicros <= Limits.blockMoneyMicrosMax - moneyMax
    }

    private mutating func take(_ record: RingRecord, into slot: BlockSlot, _ now: StageTime) {
        if ledger.isEmpty { pace.ledgerAt = now.monotonicNanoseconds }
        defer { eventIndex += Int(record.header.eventCount) }
        switch record.header.kind {
        case RingRecordKind.framed: takeFramed(record, into: slot, now)
        case RingRecordKind.plain:
            takeEvents(of: record, sequence: nil, from: .plain, into: slot, now)
        case RingRecordKind.refusals:
            record.forEachRefusal { ledger.addPackets($1, $0, from: .unidentified) }
        case RingRecordKind.heartbeat: takeHeartbeat(record, now)
        default: break
        }
    }

    /// A new packet is consumed, even if nothing of its payload could be used.
    private mutating func takeFramed(_ record: RingRecord, into slot: BlockSlot, _ now: StageTime) {
        let packet = SequencedPacket(record.header)
        // SAFETY: as in `takeEvents`.
        let lacksNames =
            unsafe windows.lacksNames(packet, now) && admission.hasNewPairs(PacketEvents(record))
        if lacksNames && windows.shedUnknown(packet, now) {
            return addRefused(.shed, from: .unidentified)
        }
        let place: AdmittedWindows.Place
        switch windows.consider(batch: packet, now, &ledger) {
        case .new(let found): place = found
        case .refused(let result, let place):
            return addRefused(result, from: place == nil ? .unidentified : packet.key)
        }
        let sequence = ArrivedSequence(
            sequence: PacketSequence(rawValue: packet.sequence), check: packet.check)
        if record.header.flags & RingRecordHeader.Flags.isMalformed != 0 {
            ledger.addMalformed(from: packet.key, sequence)
            counters.packetsOfCommit.add(.malformed)
        } else if lacksNames {
            windows.shed(packet, at: place)
            return addRefused(.shed, from: packet.key)
        } else {
            let (name, key) = (admission.nextName, admission.nextKey)
            takeEvents(of: record, sequence: sequence, from: packet.key, into: slot, now)
            let given = max(admission.nextName - name, admission.nextKey - key)
            windows.take(names: given, of: packet, now)
        }
        windows.accept(packet, at: place)
    }

    /// A heartbeat brings no events, and is a packet of the ledger only if it is refused.
    private mutating func takeHeartbeat(_ record: RingRecord, _ now: StageTime) {
        let byteCount = Int(record.header.packetByteCount)
        // SAFETY: the record holds so many bytes of the packet.
        let bytes = unsafe UnsafeRawBufferPointer(start: record.packet, count: byteCount)
        guard let told = unsafe Heartbeat(ofPacket: bytes) else { return }
        let packet = SequencedPacket(record.header, told)
        // Read behind the heartbeat: its sender has heard of no later commit.
        let durable = links.state.durableEpoch
        switch windows.consider(heartbeat: packet, told, now, &ledger) {
        case .taken: return
        case .asks(let place):
            windows.answer(
                packet, told, at: place, into: &answerList, durable: durable, now, &ledger)
        case .asksUnopened(let floor):
            windows.answer(packet, unopenedAt: floor, into: &answerList, durable: durable)
        case .refused(let result): addRefused(result, from: .unidentified)
        }
    }

    private mutating func addRefused(_ result: PacketResult, from key: SenderKey) {
        ledger.addPackets(1, result, from: key)
        counters.packetsOfCommit.add(result)
    }

    private mutating func takeEvents(
        of record: RingRecord, sequence: ArrivedSequence?, from key: SenderKey,
        into slot: BlockSlot, _ now: StageTime
    ) {
        // "Now", zones and owners of a block's rows are those when the first of them comes, however long it was open.
        let isFirst = slot.rows.rowCount == 0
        if isFirst {
            // The turn may have begun before the block.
            slot.context.admissionTime = max(slot.admissionTime, now.wallMicroseconds)
            takeReplacements()
            admission.open(admissionTime: slot.admissionTime)
        }
        ledger.continueRun(of: key)
        // SAFETY: the receive stage wrote `eventCount` rows and their side records, whose places lie in
        // the record's packet bytes; `hasRoom` made room for as many rows.
        unsafe admission.admit(
            PacketEvents(record, preparedIndex: eventIndex), into: slot, tally: &ledger.tally)
        ledger.tally.add(.malformed, UInt32(record.header.malformedCount))
        ledger.addAccepted(sequence)
        if isFirst && slot.rows.rowCount > 0 { pace.openedAt = clock.monotonicNanoseconds() }
        counters.packetsOfCommit.add(.accepted)
    }

    private mutating func takeReplacements() {
        if let new = zones.taken(since: &changeCounts.zones) { admission.replaceZones(by: new) }
        if let new = owners.taken(since: &changeCounts.owners) { admission.replaceOwners(by: new) }
    }

    /// Counts what the turn has brought, and sends its answers, in one call.
    private mutating func flushTally() {
        if !answerList.isEmpty {
            counters.commit.add(.answers, UInt64(answers?.send(answerList) ?? 0))
            answerList.removeAll()
        }
        windows.flush(to: counters.commit, links.state)
        let tally = ledger.takeTally()
        for verdict in Verdict.allCases where tally.counts[Int(verdict.rawValue)] != 0 {
            counters.events.add(verdict, UInt64(tally.counts[Int(verdict.rawValue)]))
        }
        admission.takeRefusals().add(to: counters.commit)
    }

    // MARK: Blocks

    private mutating func openBlock(mayWait: Bool) -> Bool {
        // While the disk takes nothing all slots are behind it, and for longer than a moment.
        let patience: UInt64 = links.state.shortage == nil ? 1_000_000 : 50_000_000
        guard let free = links.free.pop(waitNanoseconds: mayWait ? patience : 0) else {
            links.state.foundNoBlock(at: clock.monotonicNanoseconds())
            return false
        }
        links.state.foundBlock()
        let now = time.now()
        let (context, startsSegment) = cursor.next(
            admissionTime: now.wallMicroseconds, nextName: admission.nextName,
            nextKey: admission.nextKey)
        free.open(context, startsSegment: startsSegment)
        windows.commitEpoch = context.commitEpoch
        pace.openedAt = now.monotonicNanoseconds
        let room = startsSegment ? cursor.bounds.byteCountMax : cursor.remainingByteCount
        rowCountMax = min(
            Limits.blockEventCountMax, max(1, room / Self.rowByteCountEstimate))
        nameEnd = Int(admission.nextName) + Limits.blockNameCountMax
        slot = free
        if ledger.isEmpty { pace.ledgerAt = now.monotonicNanoseconds }
        windows.expire(now, &ledger)
        return true
    }

    private mutating func closeBlock(isLast: Bool = false) {
        guard let slot else { return }
        let now = time.now()
        // Events come with sequences, and a ledger with these goes into this block.
        if ledger.movesWindows { windows.add(eventsOf: ledger.completeEntries()) }
        windows.takeAcks(into: &slot.acks, durable: links.state.durableEpoch, now)
        if slot.rows.rowCount == 0 { slot.context.admissionTime = now.wallMicroseconds }
        slot.context.zoneVersion = admission.zoneVersion
        if hasNews(slot, now, isLast: isLast) {
            encode(slot)
        } else {
            slot.isAcksOnly = true
        }
        let epoch = slot.context.commitEpoch
        slot.acks.commitEpoch = slot.isAcksOnly ? epoch - min(epoch, 1) : epoch
        links.state.willSync()
        links.toSync.push(slot)
        (pace.closedAt, self.slot) = (now.monotonicNanoseconds, nil)
    }

    /// Whether there is anything to write. Counts of what was refused can wait for rows, but no longer than their
    /// interval; what moved a window must be durable before it is acked.
    private func hasNews(_ slot: BlockSlot, _ now: StageTime, isLast: Bool) -> Bool {
        if slot.rows.rowCount > 0 || slot.names.count > 0 { return true }
        return ledger.movesWindows || !ledger.hasRoom
            || !ledger.isEmpty && (isLast || pace.isLedgerDue(now.monotonicNanoseconds))
    }

    private mutating func encode(_ slot: BlockSlot) {
        slot.ledger = ledger.take()
        slot.idsCompleteSince = max(0, admission.completeSinceMicroseconds)
        let summary = encoder.encode(
            rows: slot.rows, names: slot.names, keys: slot.keys, ledger: slot.ledger,
            context: slot.context, into: slot.buffer)
        slot.summary = summary
        counters.commit.add(.rows, UInt64(summary.rowCount))
        cursor.advance(past: slot, summary)
    }

    /// Whether the open block holds something that its senders wait for.
    private var isGathering: Bool {
        guard let slot else { return false }
        return slot.rows.rowCount > 0 || windows.owesAcks
    }

    private func isDue(ringIsEmpty: Bool) -> Bool {
        let now = clock.monotonicNanoseconds()
        let waiting = links.state.syncingCount
        guard let slot, isGathering
        else { return !ledger.isEmpty && pace.isLedgerDue(now) && waiting < 2 }
        return slot.rows.rowCount >= rowCountMax
            || pace.isDue(now, ringIsEmpty: ringIsEmpty, waiting: waiting)
    }

    /// How long the stage may sleep without rows: until the open block is due.
    private func waitNanoseconds() -> UInt64 {
        ledger.isEmpty
            ? pace.idleWait
            : pace.ledgerWait(
                clock.monotonicNanoseconds(), waiting: links.state.syncingCount)
    }

    private func gatherNanoseconds() -> UInt64 {
        pace.gatherWait(clock.monotonicNanoseconds(), waiting: links.state.syncingCount)
    }
}

extension CommitStage: PipelineStage {
    /// Runs until the ring is closed and empty: what was received before the stop is committed.
    package mutating func run(stop: StopFlag) {
        while true {
            if case .finished = step(mayWait: true) { return }
        }
    }
}
