// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// An event of a listing as bytes: who formats many of them makes no texts of them.
package struct ListedEvent {
    // Where it lies.
    package var segment: UInt32 = 0
    package var block: UInt32 = 0
    package var row = 0
    /// Microseconds since 1970 UTC.
    package var timestamp: Int64 = 0
    package var day: Int32 = 0
    /// Valid: the decoder refuses a block with others.
    package var attributes = RowAttributes(rawValue: 1)
    // Names as they are shown; those of the last three are empty where there is none.
    package var reward: [UInt8] = []
    package var business: [UInt8] = []
    package var platform: [UInt8] = []
    package var campaign: [UInt8] = []
    package var source: [UInt8] = []
    /// Of what was measured: parts per million, milliseconds.
    package var visible: UInt32 = 0
    package var duration: UInt32 = 0
    /// Of what has money.
    package var revenueMicros: UInt64 = 0
    package var spendMicros: UInt64 = 0

    package init() {}

    /// Takes each event; `false` ends the listing.
    package typealias Body = (ListedEvent) -> Bool

    // The closed sets, in the order of their codes.
    package var kind: EventRow.Kind {
        EventRow.Kind.allCases[Int(attributes.type?.rawValue ?? 1) - 1]
    }
    package var verdict: EventRow.Verdict {
        EventRow.Verdict.allCases[Int(attributes.verdict?.rawValue ?? 0)]
    }
    package var consent: EventRow.Consent { attributes.consent == .optIn ? .optIn : .notSet }
    package var format: EventRow.Format {
        EventRow.Format.allCases[Int(attributes.format?.rawValue ?? 0)]
    }
    package var isMarkedInvalid: Bool { attributes.rawValue & RowAttributes.markedInvalid != 0 }
}
