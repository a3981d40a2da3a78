// [event] → encode → packet → socket

import IngestFormat

/// One ad event, as an ad server hands it to `EventSender`. Amounts are micros of a currency unit
/// (1.50 = 1,500,000), times are microseconds since 1970 UTC.
public struct AdEvent: Equatable, Sendable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        case impression = 1
        case click = 2
        case redemption = 3
    }

    /// The user's choice. Events of users who opted out are counted in the ledger and never stored.
    public enum Consent: UInt8, Sendable, CaseIterable {
        case notSet = 0
        case optIn = 1
        case optOut = 2
    }

    /// What was measured of an impression. Leave it out if either number is not known.
    public struct Viewability: Equatable, Sendable {
        public enum Format: UInt8, Sendable, CaseIterable {
            case display = 0
            case largeDisplay = 1
            case video = 2
        }
        /// The visible share of the ad's pixels, parts per million: 0 … 1,000,000.
        public var visiblePartsPerMillion: UInt32
        /// The longest continuous time at or above the threshold.
        public var durationMilliseconds: UInt32
        public var format: Format

        public init(
            visiblePartsPerMillion: UInt32, durationMilliseconds: UInt32, format: Format = .display
        ) {
            self.visiblePartsPerMillion = visiblePartsPerMillion
            self.durationMilliseconds = durationMilliseconds
            self.format = format
        }
    }

    public var kind: Kind
    /// 1 … 128 bytes of UTF-8.
    public var rewardID: String
    /// 1 … 128 bytes of UTF-8.
    public var businessID: String
    /// Since 1970 UTC, 0 … 2262-01-01: what is more than 7 days old or 5 minutes ahead is refused by default.
    public var timestampMicroseconds: Int64
    /// Up to 64 bytes, unique per event within its business: what recognises a repeat. Empty = none.
    public var eventID: [UInt8] = []
    /// Up to 64 bytes of UTF-8; empty = none.
    public var sessionID = ""
    public var consent = Consent.notSet
    public var viewability: Viewability?
    /// Up to 64 bytes of UTF-8 without `@` (it might be a person's address) each, for this and the two below; empty =
    /// none. Any other value is dropped, and the event stays.
    public var platform = ""
    public var campaign = ""
    public var source = ""
    /// 0 … 10^15, as `spendMicros`; else `ClientError.refused`.
    public var revenueMicros: Int64 = 0
    public var spendMicros: Int64 = 0
    /// The sender's own filter says so: a known bot, test traffic.
    public var isInvalidTraffic = false

    public init(
        _ kind: Kind, rewardID: String, businessID: String, timestampMicroseconds: Int64
    ) {
        self.kind = kind
        self.rewardID = rewardID
        self.businessID = businessID
        self.timestampMicroseconds = timestampMicroseconds
    }
}

/// Why an event was not sent. Nothing of it left; the others are not affected.
public enum EventRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The line is not one valid JSON event; the reason names the key that is wrong.
    case malformed(reason: String)
    /// The line is longer than the largest datagram.
    case lineTooLong(byteCountMax: Int)
    /// A text or id of an `AdEvent` is outside its bounds.
    case byteCount(field: String, got: Int, allowed: ClosedRange<Int>)
    /// A number of an `AdEvent` is outside its bounds.
    case number(field: String, got: Int64, allowed: ClosedRange<Int64>)

    public var description: String {
        switch self {
        case .malformed(let reason): "not a valid event: \(reason)"
        case .lineTooLong(let max): "longer than \(max) bytes"
        case .byteCount(let field, let got, let allowed):
            "\(field) has \(got) bytes, allowed are \(allowed.lowerBound) to \(allowed.upperBound)"
        case .number(let field, let got, let allowed):
            "\(field) is \(got), allowed is \(allowed.lowerBound) to \(allowed.upperBound)"
        }
    }
}

extension AdEvent {
    /// Lays the event's texts one behind the other in `bytes` (what was there goes) and describes them.
    package func describe(into bytes: inout [UInt8]) throws(EventRefusal) -> EventDescriptor {
        bytes.removeAll(keepingCapacity: true)
        var event = EventDescriptor()
        event.type = kind.rawValue
        event.consent = consent.rawValue
        let names = 1...Limits.nameByteCountMax
        (event.rewardOffset, event.rewardByteCount) =
            try place(rewardID.utf8, "rewardID", names, &bytes)
        (event.businessOffset, event.businessByteCount) =
            try place(businessID.utf8, "businessID", names, &bytes)
        (event.eventIDOffset, event.eventIDByteCount) =
            try place(eventID, "eventID", 0...Limits.eventIDByteCountMax, &bytes)
        (event.sessionOffset, event.sessionByteCount) =
            try place(sessionID.utf8, "sessionID", 0...Limits.sessionIDByteCountMax, &bytes)
        (event.platformOffset, event.platformByteCount) = placeDecoration(platform, &bytes)
        (event.campaignOffset, event.campaignByteCount) = placeDecoration(campaign, &bytes)
        (event.sourceOffset, event.sourceByteCount) = placeDecoration(source, &bytes)
        event.timestampMicroseconds = try checked(
            timestampMicroseconds, "timestampMicroseconds", Limits.timestampMicrosecondsMax)
        event.revenueMicros = try checked(revenueMicros, "revenueMicros", Limits.moneyMicrosMax)
        event.spendMicros = try checked(spendMicros, "spendMicros", Limits.moneyMicrosMax)
        if isInvalidTraffic { event.flags |= EventDescriptor.Flags.isInvalidTraffic }
        if !eventID.isEmpty { event.flags |= EventDescriptor.Flags.hasEventID }
        if let viewability {
            event.flags |= EventDescriptor.Flags.isMeasured
            let visible = try checked(
                Int64(viewability.visiblePartsPerMillion), "visiblePartsPerMillion",
                Int64(Limits.visiblePartsPerMillionMax))
            event.visiblePartsPerMillion = UInt32(visible)
            event.durationMilliseconds = viewability.durationMilliseconds
            event.format = viewability.format.rawValue
        }
        return event
    }
}

private func place(
    _ text: some Collection<UInt8>, _ field: String, _ allowed: ClosedRange<Int>,
    _ bytes: inout [UInt8]
) throws(EventRefusal) -> (offset: UInt16, byteCount: UInt8) {
    let byteCount = text.count
    guard allowed.contains(byteCount) else {
        throw .byteCount(field: field, got: byteCount, allowed: allowed)
    }
    let offset = UInt16(bytes.count)
    bytes.append(contentsOf: text)
    return (offset, UInt8(byteCount))
}

/// A text that the receiver would drop need not leave this machine.
private func placeDecoration(
    _ text: String, _ bytes: inout [UInt8]
) -> (offset: UInt16, byteCount: UInt8) {
    let isKept =
        text.utf8.count <= Limits.attributionByteCountMax && !text.utf8.contains(UInt8(ascii: "@"))
    let offset = UInt16(bytes.count)
    if isKept { bytes.append(contentsOf: text.utf8) }
    return (offset, isKept ? UInt8(text.utf8.count) : 0)
}

private func checked(
    _ value: Int64, _ field: String, _ max: Int64
) throws(EventRefusal) -> Int64 {
    guard (0...max).contains(value) else {
        throw .number(field: field, got: value, allowed: 0...max)
    }
    return value
}

/// Reads one JSON event from one line, as the daemon would.
struct EventLineParser: ~Copyable {
    /// Hashes are the receiver's to take, under its own key.
    private var decoder = JSONLineDecoder(hash: nil)

    /// A copy of the last line, in which the decoder has unescaped its texts in place.
    var bytes: [UInt8] { decoder.bytes }

    /// The event of the last line that `parse` accepted; its offsets point into `bytes`.
    var event: EventDescriptor { decoder.event }

    /// `nil` if the line is one valid event, which is then in `event` and `bytes`; else why not.
    mutating func parse(_ line: Span<UInt8>) -> EventRefusal? {
        switch decoder.decode(line) {
        case nil: nil
        case .tooLong(let max): .lineTooLong(byteCountMax: max)
        case .malformed(let reason): .malformed(reason: reason)
        }
    }
}

/// White space of JSON.
package func isSpace(_ byte: UInt8) -> Bool {
    byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
}
