import IngestFormat

/// One row as a value, so that tests compare rows and not columns.
package struct Row: Equatable {
    package var key: UInt32 = 0
    package var timestamp: Int64 = 0
    package var day: Int32 = 0
    package var type: EventType = .impression
    package var verdict: Verdict = .counted
    package var consent: Consent = .optIn
    package var format: AdFormat = .display
    package var bits: UInt16 = 0
    package var platform: UInt32 = 0
    package var campaign: UInt32 = 0
    package var source: UInt32 = 0
    package var eventHash: UInt64?
    package var session: UInt64?
    package var rewardHash: UInt64?
    package var viewability: Viewability?
    package var money: Money?

    /// What may be in `bits`.
    package static let marks =
        RowAttributes.orphan | RowAttributes.unchecked

    package struct Viewability: Equatable {
        package var visible: UInt32, duration: UInt32

        package init(visible: UInt32, duration: UInt32) {
            (self.visible, self.duration) = (visible, duration)
        }
    }
    package struct Money: Equatable {
        package var revenue: Int64, spend: Int64

        package init(revenue: Int64, spend: Int64) {
            (self.revenue, self.spend) = (revenue, spend)
        }
    }

    package init(
        key: UInt32 = 0, timestamp: Int64 = 0, day: Int32 = 0, type: EventType = .impression,
        verdict: Verdict = .counted, consent: Consent = .optIn, format: AdFormat = .display,
        bits: UInt16 = 0, platform: UInt32 = 0, campaign: UInt32 = 0, source: UInt32 = 0,
        eventHash: UInt64? = nil, session: UInt64? = nil, rewardHash: UInt64? = nil,
        viewability: Viewability? = nil, money: Money? = nil
    ) {
        (self.key, self.timestamp, self.day) = (key, timestamp, day)
        (self.type, self.verdict, self.consent) = (type, verdict, consent)
        (self.format, self.bits, self.platform) = (format, bits, platform)
        (self.campaign, self.source, self.eventHash) = (campaign, source, eventHash)
        (self.session, self.rewardHash) = (session, rewardHash)
        (self.viewability, self.money) = (viewability, money)
    }

    package var attributes: RowAttributes {
        RowAttributes(
            type: type.rawValue, verdict: verdict, consent: consent.rawValue,
            format: format.rawValue,
            bits: bits | (eventHash == nil ? 0 : RowAttributes.eventID)
                | (session == nil ? 0 : RowAttributes.session)
                | (rewardHash == nil ? 0 : RowAttributes.overflow)
                | (viewability == nil ? 0 : RowAttributes.measured)
                | (money == nil ? 0 : RowAttributes.money))
    }
}

extension BlockRows {
    package convenience init(_ rows: [Row]) {
        self.init()
        for row in rows { append(row) }
    }

    package func append(_ row: Row) {
        key[rowCount] = row.key
        timestamp[rowCount] = row.timestamp
        day[rowCount] = row.day
        attributes[rowCount] = row.attributes.rawValue
        platform[rowCount] = row.platform
        campaign[rowCount] = row.campaign
        if row.campaign | row.source != 0 { mark.isAttributed = true }
        source[rowCount] = row.source
        mark.row += 1
        if let hash = row.eventHash {
            eventHash[eventHashCount] = hash
            mark.eventHash += 1
        }
        if let pseudonym = row.session {
            session[sessionCount] = pseudonym
            mark.session += 1
        }
        if let hash = row.rewardHash {
            rewardHash[rewardHashCount] = hash
            mark.rewardHash += 1
        }
        if let viewability = row.viewability {
            visible[measuredCount] = viewability.visible
            duration[measuredCount] = viewability.duration
            mark.measured += 1
        }
        if let money = row.money {
            revenue[moneyCount] = money.revenue
            spend[moneyCount] = money.spend
            mark.money += 1
        }
    }

    /// The rows as values again.
    package var values: [Row] {
        var (hashes, sessions, rewards, measured, monies) = (0, 0, 0, 0, 0)
        return (0..<rowCount).map { i in
            let bits = RowAttributes(rawValue: attributes[i])
            var row = Row(
                key: key[i], timestamp: timestamp[i], day: day[i], type: bits.type!,
                verdict: bits.verdict!, consent: bits.consent, format: bits.format!,
                bits: bits.rawValue & Row.marks, platform: platform[i],
                campaign: campaign[i], source: source[i])
            if bits.hasEventID {
                row.eventHash = eventHash[hashes]
                hashes += 1
            }
            if bits.hasSession {
                row.session = session[sessions]
                sessions += 1
            }
            if bits.isOverflow {
                row.rewardHash = rewardHash[rewards]
                rewards += 1
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
