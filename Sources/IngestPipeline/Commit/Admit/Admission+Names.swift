// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query
import IngestFormat
import IngestRing

// Names of events, and their ordinals.

extension Admission {
    /// Whether a reward is owned by another business.
    @inline(never)
    @unsafe mutating func isOwnedByOther(
        _ reward: UnsafeRawBufferPointer, hash rewardHash: UInt64,
        _ business: UnsafeRawBufferPointer
    ) -> Bool {
        if owners.count > 0, let owner = unsafe owners.owner(of: Array(reward)) {
            return unsafe !owner.elementsEqual(business)
        }
        guard let place = unsafe dictionary.slot(hash: rewardHash, reward),
            let owner = dictionary.owner(of: place)
        else { return false }
        return unsafe !dictionary.holds(business, hash: hash.name(business), as: owner)
    }

    /// What is known of an event's platform, campaign and source.
    /// - Parameter first: the verdict of the rules that look at the event alone.
    @inline(__always)
    mutating func attributions(
        of event: UnsafePointer<PacketRow>, _ key: KeyOrdinal, _ packet: PacketEvents,
        _ first: Verdict
    ) -> AttributedNames {
        var names = AttributedNames()
        let platform = unsafe event.pointee.platform
        if platform.byteCount > 0 {
            names.platform =
                platforms.ordinal(platform.hash)?.rawValue
                ?? lookUpPlatform(platform, packet, first)
        }
        guard let side = unsafe packet.side(of: event) else { return names }
        names.campaign = unsafe knownOrdinal(of: side.pointee.campaign, packet)
        names.source = unsafe knownOrdinal(of: side.pointee.source, packet)
        if names.campaign | names.source != 0, names.areKnown,
            !known.knows(
                Attribution(key: key.rawValue, campaign: names.campaign, source: names.source))
        {
            names.source = AttributedNames.unknown
        }
        return names
    }

    /// The ordinal of a campaign or a source: 0 where the event has none.
    @inline(__always)
    private mutating func knownOrdinal(
        of name: PacketRow.Name, _ packet: PacketEvents
    ) -> UInt32 {
        guard name.byteCount > 0 else { return 0 }
        if let known = attributions.ordinal(name.hash) { return known.rawValue }
        return lookUp(name, packet)
    }

    @inline(never)
    private mutating func lookUp(_ name: PacketRow.Name, _ packet: PacketEvents) -> UInt32 {
        guard let place = unsafe dictionary.slot(hash: name.hash, name.bytes(in: packet.bytes))
        else { return AttributedNames.unknown }
        let ordinal = dictionary.ordinal(of: place)
        attributions.set(name.hash, ordinal)
        return ordinal.rawValue
    }

    @inline(never)
    private mutating func lookUpPlatform(
        _ name: PacketRow.Name, _ packet: PacketEvents, _ first: Verdict
    ) -> UInt32 {
        guard let place = unsafe dictionary.slot(hash: name.hash, name.bytes(in: packet.bytes))
        else { return AttributedNames.unknown }
        let ordinal = dictionary.ordinal(of: place)
        // What is refused takes no room.
        guard case .counted = first else { return known.platform(ordinal.rawValue) }
        // None beyond the bound, which costs a look each time.
        let platform = known.admit(platform: ordinal.rawValue)
        if platform != 0 { platforms.set(name.hash, ordinal) }
        return platform
    }

    /// What the row of an event gets that is not refused, where some of its names or their combination are not known: these
    /// become known, or are none (of a platform) or `Attribution.other` beyond their bound.
    @inline(never)
    mutating func giveNames(
        _ event: UnsafePointer<PacketRow>, _ key: KeyOrdinal, _ packet: PacketEvents,
        _ slot: BlockSlot
    ) -> AttributedNames {
        var names = AttributedNames()
        let platform = unsafe event.pointee.platform
        if platform.byteCount > 0 {
            let place = place(
                of: platform, packet, slot, mayBeNew: known.hasRoomForPlatform)
            names.platform = known.admit(
                platform: place.map { dictionary.ordinal(of: $0).rawValue })
        }
        guard let side = unsafe packet.side(of: event) else { return names }
        let campaign = unsafe ordinal(giving: side.pointee.campaign, packet, slot)
        let source = unsafe ordinal(giving: side.pointee.source, packet, slot)
        if campaign | source == 0 { return names }
        (names.campaign, names.source) = known.admit(
            Attribution(key: key.rawValue, campaign: campaign, source: source))
        return names
    }

    /// The ordinal of a campaign or a source, `Attribution.other` where there is no room for it.
    private mutating func ordinal(
        giving name: PacketRow.Name, _ packet: PacketEvents, _ slot: BlockSlot
    ) -> UInt32 {
        guard name.byteCount > 0 else { return 0 }
        let isNew = unsafe dictionary.slot(hash: name.hash, name.bytes(in: packet.bytes)) == nil
        guard
            let place = place(of: name, packet, slot, mayBeNew: known.hasRoomForName)
        else { return Attribution.other }
        let ordinal = dictionary.ordinal(of: place).rawValue
        if isNew { known.enter(name: ordinal) }
        return ordinal
    }

    private mutating func place(
        of name: PacketRow.Name, _ packet: PacketEvents, _ slot: BlockSlot, mayBeNew: Bool
    ) -> NameSlot? {
        let bytes = unsafe name.bytes(in: packet.bytes)
        if !mayBeNew { return unsafe dictionary.slot(hash: name.hash, bytes) }
        return unsafe nameSlot(name.hash, bytes, slot)
    }

    /// The place of a name; a new one goes into the block. `nil` at the limit on names.
    mutating func nameSlot(
        _ hash: UInt64, _ name: UnsafeRawBufferPointer, _ slot: BlockSlot
    ) -> NameSlot? {
        if let known = unsafe dictionary.slot(hash: hash, name) { return known }
        guard let new = unsafe dictionary.insert(hash: hash, name) else { return nil }
        // SAFETY: the name lies in the record's packet bytes, which live until the record is released.
        unsafe slot.names.append(name.bytes)
        return new
    }
}

// MARK: Events of unknown keys

extension Admission {
    /// Admits an event whose key is not known: of one that counts, new names and a key go into the block, or it is one of its
    /// business's other rewards. It is no row if it does not count, and malformed at the limits of the directory.
    @inline(never)
    mutating func admitNew(
        _ index: Int, _ verdict: Verdict, _ packet: PacketEvents, _ slot: BlockSlot,
        _ cursor: inout BlockRows.Mark
    ) -> Verdict {
        let event = unsafe packet.rows + index
        let (reward, business) = unsafe (
            event.pointee.reward(in: packet.bytes), event.pointee.business(in: packet.bytes)
        )
        let isOther = unsafe OtherRewards.isName(reward)
        let businessHash = unsafe hash.name(business)
        let known = unsafe dictionary.slot(hash: businessHash, business)
        let isFull = known.map { dictionary.keyCount(of: $0) >= rewardKeyCountMax } ?? false
        if !isOther, !isFull, packet.isBound, verdict.rawValue != Verdict.noConsent.rawValue,
            unsafe isOwnedByOther(reward, hash: rewardHash(ofEvent: index), business)
        {
            return .wrongBusiness
        }
        if let refusal = refusal(ofUnnamed: index, verdict, nil, packet) { return refusal }
        if !isOther, isFull, let known {
            return admitOther(index, verdict, packet, slot, &cursor, of: known)
        }
        // A key is given with a first row that counts, so that it tells whose the reward is.
        if isRepeat(index, packet) { return .conflict }
        // The business first: ordinals are given in this order. Where it is new its reward may have a name already, and the
        // last one of the directory is not given.
        guard dictionary.hasRoomForKey(newNameCount: known == nil ? 2 : 0),
            let place = unsafe known ?? nameSlot(businessHash, business, slot),
            let key = unsafe insertKey(
                event.pointee.pair, rewardHash(ofEvent: index), reward, of: place, slot)
        else { return refuseFull() }
        if !isOther { dictionary.addKey(of: place) }
        return append(index, verdict, key, packet, slot, &cursor, judgedAs: key)
    }

    /// Admits an event of a reward beyond the limit of its business.
    private mutating func admitOther(
        _ index: Int, _ verdict: Verdict, _ packet: PacketEvents, _ slot: BlockSlot,
        _ cursor: inout BlockRows.Mark, of place: NameSlot
    ) -> Verdict {
        let event = unsafe packet.rows + index
        let rewardHash = rewardHash(ofEvent: index)
        let other = unsafe OtherRewards.name
        let pair = unsafe hash.pair(
            reward: other, business: event.pointee.business(in: packet.bytes))
        var key = dictionary.key(of: pair)
        if let key {
            // A click may be too soon after one on the same reward.
            let judgedKey = OtherRewards.judgedKey(rewardHash, of: key)
            if let refusal = refusal(ofUnnamed: index, verdict, judgedKey, packet) {
                return refusal
            }
        } else {
            if isRepeat(index, packet) { return .conflict }
            key = unsafe insertKey(pair, hash.name(other), other, of: place, slot)
        }
        guard let key else { return refuseFull() }
        let row = cursor.row
        let judged = append(
            index, verdict, key, packet, slot, &cursor,
            judgedAs: OtherRewards.judgedKey(rewardHash, of: key))
        guard cursor.row > row else { return judged }
        // SAFETY: `append` has just added the row, and there is at most one hash a row.
        unsafe slot.rows.attributes[row] |= RowAttributes.overflow
        unsafe slot.rows.rewardHash[cursor.rewardHash] = rewardHash
        cursor.rewardHash += 1
        return judged
    }

    private mutating func refuseFull() -> Verdict {
        refused.fullCount += 1
        return .malformed
    }

    /// Gives the pair of a reward and a business the next key, in the block. `nil` at the limits.
    private mutating func insertKey(
        _ pair: PairHash, _ rewardHash: UInt64, _ reward: UnsafeRawBufferPointer,
        of business: NameSlot, _ slot: BlockSlot
    ) -> KeyOrdinal? {
        guard dictionary.hasRoomForKey(), let reward = unsafe nameSlot(rewardHash, reward, slot)
        else { return nil }
        let names = RewardKey(
            reward: dictionary.ordinal(of: reward), business: dictionary.ordinal(of: business))
        guard let key = dictionary.insertKey(pair, of: names) else { return nil }
        dictionary.noteOwner(of: reward, business)
        slot.keys.append(names)
        return key
    }
}

extension NameDictionary {
    /// Whether there is a key left, and so many names: what is asked before a name is given for a key.
    fileprivate borrowing func hasRoomForKey(newNameCount: Int = 0) -> Bool {
        Int(nextKey) < Limits.keyCountMax
            && Int(nextName) + newNameCount <= Limits.nameCountMax + 1
    }
}

/// Ordinals of the names that an event may have beside its key's; 0 where it has none.
struct AttributedNames {
    /// None that a name is given, nor `Attribution.other`, which no event has before.
    static var unknown: UInt32 { .max - 1 }

    var platform: UInt32 = 0
    var campaign: UInt32 = 0
    var source: UInt32 = 0

    var areKnown: Bool {
        @inline(__always) get { max(platform, campaign, source) < Self.unknown }
    }
}
