// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → query

/// Up to which epoch each sender is done with: packets of these never count again.
///
/// By the key of the tag under which a window was opened, 0 where there was none. Of each key the newest senders are known
/// one by one, each by its newest epoch; the oldest are folded into a watermark, for all senders of the key that are not known.
/// So the senders of a key shut out none of another.
///
/// What it holds of a key does not depend on the order in which its windows were closed, but for that of more keys than
/// have room for all (`countMax`). **Cost** A look-up and a search; at most 130 bytes an epoch.
package struct ExpiredEpochs: Hashable, Sendable {
    /// Of one key.
    package struct OfKey: Hashable, Sendable {
        /// For senders that are not in `epochs`.
        package fileprivate(set) var watermark: UInt64 = 0
        /// By sender.
        package fileprivate(set) var epochs: [UInt64: UInt64] = [:]
        /// The same, the oldest first.
        fileprivate var ordered: ArraySlice<SenderKey> = []
    }

    package private(set) var ofKeys: [UInt16: OfKey] = [:]
    /// Those that are known one by one, by sender: under which key, and the epoch.
    private var known: [UInt64: [(keyID: UInt16, epoch: UInt64)]] = [:]

    /// For so long after its beginning an epoch is known by itself: none is folded that is younger.
    package static let millisecondsMin: UInt64 = 7 * 86_400_000

    package init() {}

    /// How many a key may have that are known one by one.
    /// - Parameter keyCount: keys that have any.
    package static func countMax(of keyID: UInt16, keyCount: Int) -> Int {
        if keyID == 0 { return Limits.expiredEpochCountMax }
        let part = Limits.expiredEpochOfKeysCountMax / max(1, keyCount)
        return max(
            Limits.expiredEpochOfKeyCountMin, min(Limits.expiredEpochOfKeyCountMax, part))
    }

    /// Whether no packet of this sender epoch, tagged by this key, may open a window.
    ///
    /// - Parameter isSame: whether what was closed under another key is closed for the sender under this one too. Without,
    ///   that very epoch is, but no older one: another tenant's sender may have the same id.
    package func contains(
        _ key: SenderKey, of keyID: UInt16, orUnder isSame: (UInt16) -> Bool = { _ in false }
    ) -> Bool {
        let epoch = key.epoch.rawValue
        let closed = known[key.sender.rawValue] ?? []
        if closed.contains(where: {
            epoch == $0.epoch || epoch < $0.epoch && ($0.keyID == keyID || isSame($0.keyID))
        }) {
            return true
        }
        guard let own = ofKeys[keyID], own.epochs[key.sender.rawValue] == nil else { return false }
        return epoch <= own.watermark
    }

    /// The newest epoch that is known of a sender.
    package func newest(of sender: SenderID, of keyID: UInt16) -> UInt64? {
        ofKeys[keyID]?.epochs[sender.rawValue]
    }

    /// Whether a key has as many as may be known one by one, all too young to be folded.
    ///
    /// - Parameter milliseconds: the wall clock, since 1970.
    package func isFull(_ keyID: UInt16, at milliseconds: UInt64) -> Bool {
        guard let own = ofKeys[keyID],
            own.epochs.count >= Self.countMax(of: keyID, keyCount: ofKeys.count),
            let oldest = own.ordered.first
        else { return false }
        return oldest.epoch.rawValue >> 20 + Self.millisecondsMin > milliseconds
    }

    /// Whether the epoch can be added without one being folded that is too young.
    package func hasRoom(for key: SenderKey, of keyID: UInt16, at milliseconds: UInt64) -> Bool {
        !isFull(keyID, at: milliseconds) || newest(of: key.sender, of: keyID) != nil
    }

    package mutating func add(_ key: SenderKey, of keyID: UInt16) {
        let countMax = Self.countMax(of: keyID, keyCount: ofKeys.count)
        know(key, of: keyID)
        let gone = ofKeys[keyID, default: OfKey()].add(key, countMax: countMax)
        for key in gone {
            known[key.sender.rawValue]?.removeAll {
                $0.keyID == keyID && $0.epoch == key.epoch.rawValue
            }
            if known[key.sender.rawValue]?.isEmpty == true { known[key.sender.rawValue] = nil }
        }
    }

    private mutating func know(_ key: SenderKey, of keyID: UInt16) {
        let new = (keyID, key.epoch.rawValue)
        if known[key.sender.rawValue]?.contains(where: { $0 == new }) != true {
            known[key.sender.rawValue, default: []].append(new)
        }
    }

    package static func == (a: Self, b: Self) -> Bool { a.ofKeys == b.ofKeys }
    package func hash(into hasher: inout Hasher) { hasher.combine(ofKeys) }

    fileprivate static func isOlder(_ a: SenderKey, _ b: SenderKey) -> Bool {
        (a.epoch.rawValue, a.sender.rawValue) < (b.epoch.rawValue, b.sender.rawValue)
    }
}

extension ExpiredEpochs.OfKey {
    /// - Returns: those that are not known one by one any more; perhaps the new one.
    fileprivate mutating func add(_ new: SenderKey, countMax: Int) -> [SenderKey] {
        let (sender, epoch) = (new.sender.rawValue, new.epoch.rawValue)
        var gone: [SenderKey] = []
        if let last = epochs[sender] {
            if last == epoch { return [] }
            if last > epoch { return [new] }
            let old = SenderKey(
                kind: .framed, sender: new.sender, epoch: SenderEpoch(rawValue: last))
            ordered.remove(at: place(of: old))
            gone.append(old)
        } else if epoch <= watermark {
            return [new]
        }
        epochs[sender] = epoch
        ordered.insert(new, at: place(of: new))
        if ordered.count > countMax, let oldest = ordered.popFirst() {
            watermark = max(watermark, oldest.epoch.rawValue)
            epochs[oldest.sender.rawValue] = nil
            gone.append(oldest)
        }
        return gone
    }

    /// Where a sender epoch is, or would be, in `ordered`.
    private func place(of key: SenderKey) -> Int {
        ordered.indices.firstPlace { !ExpiredEpochs.isOlder(ordered[$0], key) }
    }
}

// MARK: Bytes

extension ExpiredEpochs {
    /// **Layout** Nothing where no key has any; else a varint of how many keys have, then for each, ascending by id: key id as
    /// a varint, and what `OfKey.encode` gives.
    func encodeKeys(into writer: inout ByteWriter) {
        let keys = ofKeys.filter { $0.key != 0 }.sorted { $0.key < $1.key }
        if keys.isEmpty { return }
        writer.append(varint: UInt64(keys.count))
        for (keyID, own) in keys {
            writer.append(varint: UInt64(keyID))
            own.encode(into: &writer)
        }
    }

    init(withoutKey source: inout SectionReader) throws(FormatError) {
        let own = try OfKey(&source, countMax: Limits.expiredEpochCountMax)
        if own != OfKey() { set(own, of: 0) }
    }

    mutating func decodeKeys(_ source: inout SectionReader) throws(FormatError) {
        let count = try source.count(
            "expired key count", max: Int(UInt16.max), leastByteCount: 10)
        guard count > 0 else { throw source.fault("expired key count", got: 0) }
        var last: UInt16 = 0
        for _ in 0..<count {
            let keyID = UInt16(try source.varint("key id", max: UInt64(UInt16.max)))
            guard keyID > last else { throw source.fault("order of keys", got: UInt64(keyID)) }
            set(try OfKey(&source, countMax: Limits.expiredEpochOfKeyCountMax), of: keyID)
            last = keyID
        }
    }

    private mutating func set(_ own: OfKey, of keyID: UInt16) {
        ofKeys[keyID] = own
        for key in own.ordered { know(key, of: keyID) }
    }
}

extension ExpiredEpochs.OfKey {
    /// **Layout** Watermark u64; a varint of how many epochs, each sender u64 and epoch u64, ascending by epoch and sender.
    func encode(into writer: inout ByteWriter) {
        writer.append(u64: watermark)
        writer.append(varint: UInt64(ordered.count))
        for key in ordered {
            writer.append(u64: key.sender.rawValue)
            writer.append(u64: key.epoch.rawValue)
        }
    }

    fileprivate init(_ source: inout SectionReader, countMax: Int) throws(FormatError) {
        watermark = try source.u64("watermark")
        let count = try source.count("expired epoch count", max: countMax, leastByteCount: 16)
        ordered.reserveCapacity(count)
        for _ in 0..<count {
            let sender = try source.u64("expired sender")
            let key = SenderKey(
                kind: .framed, sender: SenderID(rawValue: sender),
                epoch: SenderEpoch(rawValue: try source.u64("expired epoch")))
            if let last = ordered.last, !ExpiredEpochs.isOlder(last, key) {
                throw source.fault("order of expired epochs", got: sender)
            }
            guard epochs.updateValue(key.epoch.rawValue, forKey: sender) == nil else {
                throw source.fault("expired sender", got: sender)
            }
            ordered.append(key)
        }
    }
}
