// [spool] → person

import IngestFormat
import IngestStorage

/// What lies in a spool: read without its lock and without a change, also while a sender uses it.
///
/// Packets go file by file, so that some of those that are there may be acked already.
///
/// **Cost** All files once, one of them in memory at a time.
package struct SpoolListing: Sendable {
    /// Whose packets they are, or the last ones were; `nil` where there are no files.
    package private(set) var identity: SenderIdentity?
    /// From the first packet to behind the last one.
    package private(set) var sequences: Range<UInt64> = 0..<0
    package private(set) var packetCount: UInt64 = 0
    package private(set) var eventCount: UInt64 = 0
    /// Events whose id is no text, so that their JSON has none.
    package private(set) var nonTextIDCount: UInt64 = 0
    /// Of the files.
    package private(set) var byteCount = 0
    /// Times of the oldest and of the newest event, microseconds since 1970 UTC.
    package private(set) var times: ClosedRange<Int64>?
    package private(set) var damage: [SpoolDamage] = []

    /// - Parameter line: takes each event, in the order in which they were spooled, as one line of JSON that
    ///   `ingest-send` takes, without its end.
    ///
    /// **Errors** `ClientError.spool`: no such directory, files that do not belong together, or the disk.
    package init(
        of directory: String, line: ((_ bytes: [UInt8]) -> Void)? = nil
    ) throws(ClientError) {
        do throws(StorageError) {
            let files = try LinuxFileSystem(path: directory, create: false)
            let reader = PacketEventReader()
            let found = try SpoolScan(files: files, isReadOnly: true).run { record in
                packetCount += 1
                reader.read(record.packet.bytes) { event, bytes in add(event, bytes, line) }
            }
            identity = found.last
            sequences = found.content.packets.start..<found.content.packets.end
            byteCount = found.names.reduce(0) { $0 + $1.byteCount }
            damage = found.content.damage
        } catch {
            throw ClientError(spool: error)
        }
    }

    private mutating func add(
        _ event: EventDescriptor, _ bytes: [UInt8], _ line: ((_ bytes: [UInt8]) -> Void)?
    ) {
        let time = event.timestampMicroseconds
        eventCount += 1
        times = min(time, times?.lowerBound ?? time)...max(time, times?.upperBound ?? time)
        guard let line else { return }
        let text = EventLine(event, bytes)
        if text.lacksID { nonTextIDCount += 1 }
        line(text.bytes)
    }
}

/// Decodes the events of a packet, by the decoder that the daemon has. Of one queue.
private final class PacketEventReader {
    private let decoder = EventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
    private let scratch = EventScratch()

    func read(_ packet: [UInt8], _ body: (EventDescriptor, [UInt8]) -> Void) {
        // SAFETY: the buffer is valid inside the closure.
        let outcome = unsafe packet.withUnsafeBytes { bytes in
            unsafe decoder.decode(
                bytes, payloadOffset: PacketHeader.byteCount,
                payloadByteCount: bytes.count - PacketHeader.byteCount, into: scratch)
        }
        guard case .events(let count, _, _) = outcome else { return }
        for index in 0..<count { body(scratch[index], packet) }
    }
}

/// An event as one JSON object on one line (docs/format/json-event.md), of printable ASCII alone: all else is escaped.
struct EventLine {
    private(set) var bytes: [UInt8] = []
    /// It has an id that is no text, and cannot be written.
    private(set) var lacksID = false

    /// - Parameter source: what the event's offsets point into.
    init(_ event: EventDescriptor, _ source: [UInt8]) {
        func text(_ offset: UInt16, _ byteCount: UInt8) -> ArraySlice<UInt8> {
            source[Int(offset)..<Int(offset) + Int(byteCount)]
        }
        put("{\"eventType\":\"\(EventType(rawValue: event.type)?.name ?? "")\"")
        put("rewardId", text(event.rewardOffset, event.rewardByteCount))
        put("businessId", text(event.businessOffset, event.businessByteCount))
        put(",\"timestamp\":" + Self.decimal(event.timestampMicroseconds, places: 3))
        putID(text(event.eventIDOffset, event.eventIDByteCount))
        put("sessionId", text(event.sessionOffset, event.sessionByteCount))
        if let consent = Consent(rawValue: event.consent), consent != .notSet {
            put(",\"consent\":\"\(consent.name)\"")
        }
        if event.flags & EventDescriptor.Flags.isMeasured != 0 {
            put(",\"viewability\":" + Self.decimal(Int64(event.visiblePartsPerMillion), places: 6))
            put(",\"duration\":" + Self.decimal(Int64(event.durationMilliseconds), places: 3))
            put(",\"format\":\"\((AdFormat(rawValue: event.format) ?? .display).name)\"")
        }
        put("platform", text(event.platformOffset, event.platformByteCount))
        put("campaign", text(event.campaignOffset, event.campaignByteCount))
        put("source", text(event.sourceOffset, event.sourceByteCount))
        if event.revenueMicros > 0 {
            put(",\"revenue\":" + Self.decimal(event.revenueMicros, places: 6))
        }
        if event.spendMicros > 0 {
            put(",\"spend\":" + Self.decimal(event.spendMicros, places: 6))
        }
        if event.flags & EventDescriptor.Flags.isInvalidTraffic != 0 {
            put(",\"invalidTraffic\":true")
        }
        put("}")
    }

    /// A number that is not negative, with the last digits behind the point.
    private static func decimal(_ value: Int64, places: Int) -> String {
        let digits = String(value)
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.utf8.count)) + digits
        return padded.dropLast(places) + "." + padded.suffix(places)
    }

    private mutating func put(_ text: String) { bytes += text.utf8 }

    private mutating func put(_ name: String, _ text: ArraySlice<UInt8>) {
        if text.isEmpty { return }
        put(",\"\(name)\":\"")
        for unit in String(decoding: text, as: UTF8.self).utf16 {
            if (0x20..<0x7F).contains(unit), unit != 0x22, unit != 0x5C {
                bytes.append(UInt8(unit))
            } else {
                let digits = String(unit, radix: 16)
                put("\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits)
            }
        }
        put("\"")
    }

    /// 16 bytes are a UUID, which its text stands for; else an id is text, or is left out.
    private mutating func putID(_ id: ArraySlice<UInt8>) {
        if id.count == 16 {
            let digits = id.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            let ends = [4, 6, 8, 10, 16]
            let parts = zip([0] + ends, ends).map { digits[$0..<$1].joined() }
            return put(",\"eventId\":\"\(parts.joined(separator: "-"))\"")
        }
        lacksID = String(validating: id, as: UTF8.self) == nil
        if !lacksID { put("eventId", id) }
    }
}
