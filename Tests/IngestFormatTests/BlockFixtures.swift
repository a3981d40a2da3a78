import IngestFormat

/// One row as a value, so that tests compare rows and not columns.
struct Row: Equatable {
    var key: UInt32 = 0
    var timestamp: Int64 = 0
    var day: Int32 = 0
    var type: EventType = .impression
    var verdict: Verdict = .counted
    var consent: Consent = .optIn
    var format: AdFormat = .display
    var bits: UInt16 = 0
    var platform: UInt32 = 0
    var campaign: UInt32 = 0
    var source: UInt32 = 0
    var eventHash: UInt64?
    var viewability: Viewability?
    var money: Money?

    struct Viewability: Equatable { var visible: UInt32, duration: UInt32 }
    struct Money: Equatable { var revenue: Int64, spend: Int64 }

    var attributes: RowAttributes {
        RowAttributes(
            type: type.rawValue, verdict: verdict, consent: consent.rawValue,
            format: format.rawValue,
            bits: bits | (eventHash == nil ? 0 : RowAttributes.eventID)
                | (viewability == nil ? 0 : RowAttributes.measured)
                | (money == nil ? 0 : RowAttributes.money))
    }
}

extension BlockRows {
    convenience init(_ rows: [Row]) {
        self.init()
        for row in rows { append(row) }
    }

    func append(_ row: Row) {
        key[rowCount] = row.key
        timestamp[rowCount] = row.timestamp
        day[rowCount] = row.day
        attributes[rowCount] = row.attributes.rawValue
        platform[rowCount] = row.platform
        campaign[rowCount] = row.campaign
        source[rowCount] = row.source
        rowCount += 1
        if let hash = row.eventHash {
            eventHash[eventHashCount] = hash
            eventHashCount += 1
        }
        if let viewability = row.viewability {
            visible[measuredCount] = viewability.visible
            duration[measuredCount] = viewability.duration
            measuredCount += 1
        }
        if let money = row.money {
            revenue[moneyCount] = money.revenue
            spend[moneyCount] = money.spend
            moneyCount += 1
        }
    }

    /// The rows as values again.
    var values: [Row] {
        var (hashes, measured, monies) = (0, 0, 0)
        return (0..<rowCount).map { i in
            let bits = RowAttributes(rawValue: attributes[i])
            let named = RowAttributes.eventID | RowAttributes.measured | RowAttributes.money
            var row = Row(
                key: key[i], timestamp: timestamp[i], day: day[i], type: bits.type!,
                verdict: bits.verdict!, consent: bits.consent!, format: bits.format!,
                bits: bits.rawValue & 0xfc00 & ~named, platform: platform[i],
                campaign: campaign[i], source: source[i])
            if bits.hasEventID {
                row.eventHash = eventHash[hashes]
                hashes += 1
            }
            if bits.isMeasured {
                row.viewability = .init(visible: visible[measured], duration: duration[measured])
                measured += 1
            }
            if bits.hasMoney {
                row.money = .init(revenue: revenue[monies], spend: spend[monies])
                monies += 1
            }
            return row
        }
    }
}

/// All that goes into a block, as values.
struct BlockContent: Equatable {
    var rows: [Row] = []
    var names: [String] = []
    var keys: [RewardKey] = []
    var ledger: [LedgerEntry] = []
    var context = BlockContext.example

    var newNames: NewNames {
        var list = NewNames()
        for name in names { list.append(Array(name.utf8).span.bytes) }
        return list
    }

    func encoded(by encoder: BlockEncoder = BlockEncoder()) -> [UInt8] {
        let buffer = BlockBuffer()
        _ = encoder.encode(
            rows: BlockRows(rows), names: newNames, keys: keys, ledger: ledger, context: context,
            into: buffer)
        return buffer.copy
    }

    init() {}

    init(_ block: DecodedBlock, _ rows: BlockRows) {
        self.rows = rows.values
        names = (0..<block.names.count).map { String(decoding: block.names.name($0), as: UTF8.self) }
        keys = block.keys
        ledger = block.ledger
        context = block.header.context
    }
}

extension BlockContext {
    static let example = BlockContext(
        directory: DirectoryID(rawValue: 0x0123_4567_89ab_cdef), shard: 1,
        segment: SegmentNumber(rawValue: 7), blockOrdinal: 3, commitEpoch: 1_000_001,
        previousChecksum: 0xdead_beef, admissionTime: 1_795_000_000_123_456, policyVersion: 2,
        firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0))
}

extension BlockDecoder {
    func decode(
        _ bytes: [UInt8], at place: BlockPlace = .anywhere, wanted: BlockSections = .all,
        into rows: BlockRows = BlockRows()
    ) throws(FormatError) -> BlockContent {
        BlockContent(try decode(bytes.span.bytes, at: place, wanted: wanted, into: rows), rows)
    }
}
