// packet → [decode] → ring → [admit] → [block] → segment → compaction → snapshot → [query]
// The closed sets of the domain: event type, consent, ad format, verdict, rule of invalid traffic, packet result.
// Their raw values are written to disk; their names are the ones that rows, ledger and metrics show.

/// A closed set whose members have a name in output, and are counted by their codes.
public protocol NamedCode: CaseIterable, Hashable, Sendable {
    /// The name in JSON events and in output.
    var name: String { get }
}

/// What happened to the ad. Raw values are those of `ingest.v1.EventType`; 0 is refused.
public enum EventType: UInt8, NamedCode {
    case impression = 1
    case click = 2
    case redemption = 3

    public var name: String {
        switch self {
        case .impression: "impression"
        case .click: "click"
        case .redemption: "redemption"
        }
    }
}

/// The user's choice as the sender knows it. Raw values are those of `ingest.v1.Consent`.
public enum Consent: UInt8, NamedCode {
    case notSet = 0
    case optIn = 1
    case optOut = 2

    public var name: String {
        switch self {
        case .notSet: "notSet"
        case .optIn: "optIn"
        case .optOut: "optOut"
        }
    }
}

/// Which viewability threshold applies. Raw values are those of `ingest.v1.AdFormat`.
public enum AdFormat: UInt8, NamedCode {
    case display = 0
    case largeDisplay = 1
    case video = 2

    public var name: String {
        switch self {
        case .display: "display"
        case .largeDisplay: "largeDisplay"
        case .video: "video"
        }
    }
}

/// What admission decided about one event. Exactly one verdict an event; the raw value is the code in
/// the log's rows (4 bits) and in ledger entries.
public enum Verdict: UInt8, NamedCode {
    case counted = 0
    case notViewable = 1
    /// Only where policy does not count undetermined impressions.
    case undetermined = 2
    case duplicate = 3
    case conflict = 4
    case sessionRepeat = 5
    case invalidTraffic = 6
    case tooOld = 7
    case tooEarly = 8
    case noConsent = 9
    case outsideWindow = 10
    case wrongBusiness = 11
    /// Never a row: only counted in the ledger.
    case malformed = 12

    /// Whether it is a refusal: neither counted nor a repeat of what was. A refused event gives no name and no key, so
    /// that where its names are unknown it is no row.
    @inlinable public var isRefusal: Bool { Self.refusals &>> UInt16(rawValue) & 1 != 0 }

    /// All codes but those of counted, duplicate, conflict and session repeat.
    @inlinable static var refusals: UInt16 { 0b1111_1111_1100_0110 }

    public var name: String {
        switch self {
        case .counted: "counted"
        case .notViewable: "not_viewable"
        case .undetermined: "undetermined"
        case .duplicate: "duplicate"
        case .conflict: "conflict"
        case .sessionRepeat: "session_repeat"
        case .invalidTraffic: "invalid_traffic"
        case .tooOld: "too_old"
        case .tooEarly: "too_early"
        case .noConsent: "no_consent"
        case .outsideWindow: "outside_window"
        case .wrongBusiness: "wrong_business"
        case .malformed: "malformed"
        }
    }
}

/// Why an event is invalid traffic. The raw value is the detail of its row.
public enum InvalidTrafficRule: UInt8, NamedCode {
    /// The sender's own filter marked it.
    case sender = 0
    /// A click on a reward too soon after the last one that was counted in the session.
    case clickInterval = 1
    /// More impressions in a session and minute than the limit.
    case impressionRate = 2
    /// More clicks in a session and minute than the limit.
    case clickRate = 3

    public var name: String {
        switch self {
        case .sender: "sender"
        case .clickInterval: "click_interval"
        case .impressionRate: "impressions_per_minute"
        case .clickRate: "clicks_per_minute"
        }
    }
}

/// What became of one datagram. The raw value is the code in ledger entries.
public enum PacketResult: UInt8, NamedCode {
    case accepted = 0
    case resend = 1
    case badLength = 2
    case badMagic = 3
    case badCRC = 4
    case badTag = 5
    case unauthenticated = 6
    case truncated = 7
    case malformed = 8
    case badKind = 9
    case oldEpoch = 10
    case belowFloor = 11
    case farJump = 12
    case sequenceConflict = 13
    case shed = 14

    public var name: String {
        switch self {
        case .accepted: "accepted"
        case .resend: "resend"
        case .badLength: "bad_length"
        case .badMagic: "bad_magic"
        case .badCRC: "bad_crc"
        case .badTag: "bad_tag"
        case .unauthenticated: "unauthenticated"
        case .truncated: "truncated"
        case .malformed: "malformed"
        case .badKind: "bad_kind"
        case .oldEpoch: "old_epoch"
        case .belowFloor: "below_floor"
        case .farJump: "far_jump"
        case .sequenceConflict: "sequence_conflict"
        case .shed: "shed"
        }
    }
}
