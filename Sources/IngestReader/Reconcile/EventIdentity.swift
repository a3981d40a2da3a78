// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// What a line of a sender's file and a row of the log have in common if they are one event: all that the log keeps of
/// it, names and id as the directory's keyed hashes.
struct EventIdentity {
    /// 128 bits over all fields but id and names: type, consent, format, reward, business, time, viewability, amounts.
    let base: (UInt64, UInt64)
    /// The upper half over the platform, the lower over campaign and source; 0 where there is none.
    let names: UInt64
    /// Whether its sender marked it as invalid traffic; of a row, whether the log says so.
    let isMarked: Bool
    /// `KeyedHash.event`; 0 where the event has no id, and in rows that were refused for their consent, which keep none.
    let id: UInt64
    /// As it is shown: of rows beyond the limit of their business's rewards that of `(other)`.
    let reward: UInt64
    let business: UInt64
    let timestamp: Int64

    /// - Parameter bytes: that the event's offsets point into.
    init(_ event: EventDescriptor, in bytes: [UInt8], _ hash: KeyedHash) {
        let start = Int(event.rewardOffset)
        let isMeasured = event.flags & EventDescriptor.Flags.isMeasured != 0
        let hasID = event.flags & EventDescriptor.Flags.hasEventID != 0
        let reward = hash.name(Array(bytes[start..<start + Int(event.rewardByteCount)]))
        self.init(
            kind: (event.type, event.consent, event.format),
            viewability: isMeasured
                ? (event.visiblePartsPerMillion, event.durationMilliseconds) : nil,
            reward: reward, shownAs: reward, business: event.businessHash,
            timestamp: event.timestampMicroseconds,
            money: (UInt64(event.revenueMicros), UInt64(event.spendMicros)),
            names: (event.platformHash, event.campaignHash, event.sourceHash),
            id: hasID ? PacketRow(event).eventHash : 0,
            isMarked: event.flags & EventDescriptor.Flags.isInvalidTraffic != 0)
    }

    init(_ row: EventRow, _ hash: KeyedHash) {
        func name(_ text: [UInt8]) -> UInt64 { text.isEmpty ? 0 : hash.name(text) }
        let shown = hash.name(row.rewardText)
        self.init(
            kind: (row.kind.rawValue, row.consent.rawValue, row.format.rawValue),
            viewability: row.attributes.isMeasured ? (row.visible, row.duration) : nil,
            reward: row.isOverflow ? row.rewardHash : shown, shownAs: shown,
            business: hash.name(row.businessText),
            timestamp: row.timestampMicroseconds, money: (row.revenueMicros, row.spendMicros),
            names: (name(row.platformText), name(row.campaignText), name(row.sourceText)),
            id: row.eventHash, isMarked: row.invalidTrafficRule == .sender)
    }

    private init(
        kind: (type: UInt8, consent: UInt8, format: UInt8),
        viewability: (visible: UInt32, duration: UInt32)?, reward: UInt64,
        shownAs shownReward: UInt64, business: UInt64, timestamp: Int64,
        money: (revenue: UInt64, spend: UInt64),
        names: (platform: UInt64, campaign: UInt64, source: UInt64), id: UInt64,
        isMarked: Bool
    ) {
        let bits =
            UInt64(kind.type) | UInt64(kind.consent) << 8 | UInt64(kind.format) << 16
            | (viewability == nil ? 0 : 1 << 24)
        let measured = viewability.map { UInt64($0.visible) << 32 | UInt64($0.duration) } ?? 0
        let words: InlineArray<7, UInt64> = [
            reward, business, UInt64(bitPattern: timestamp), bits, measured, money.revenue,
            money.spend,
        ]
        // Names first: their hashes are keyed, so that nobody can choose the numbers behind them to collide.
        var (low, high): (UInt64, UInt64) = (0, 0x9E37_79B9_7F4A_7C15)
        for place in words.indices {
            low = SplitMix.finish(low ^ words[place])
            high = SplitMix.finish((high &+ words[place]) &* 0xD605_1BB3_35AC_5F1D)
        }
        base = (low, high)
        let pair = SplitMix.finish(names.campaign) ^ names.source
        let attribution = names.campaign | names.source == 0 ? 0 : SplitMix.finish(pair)
        self.names = Self.half(names.platform) << 32 | Self.half(attribution)
        self.isMarked = isMarked
        self.id = id
        self.reward = shownReward
        self.business = business
        self.timestamp = timestamp
    }

    /// - Returns: 0 of 0 alone.
    private static func half(_ hash: UInt64) -> UInt64 { hash == 0 ? 0 : max(1, hash >> 32) }

    /// What is kept of it while its part is waiting.
    /// - Parameter place: of the line or row.
    func record(_ place: UInt64) -> InlineArray<8, UInt64> {
        [base.0, base.1, names, id, UInt64(bitPattern: timestamp), business, reward, place]
    }
}
