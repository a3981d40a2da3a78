import Foundation
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// What `ingest-send spool` shows of a spool that a sender uses.
struct SpoolListingTests {
    /// Every field, every size of ids, texts that are no ASCII, and controls.
    private static func events() -> [AdEvent] {
        var events = (0..<200).map { SampleEvents.event($0) }
        for (number, text) in ["\u{1B}[2J\n\"\\", "é\u{202E}\u{9B}🙂\u{7F}", "a b"].enumerated() {
            var event = AdEvent(
                .redemption, rewardID: "r" + text, businessID: text,
                timestampMicroseconds: 1_700_000_000_123_456)
            event.eventID = Array("id \(text)".utf8)
            event.sessionID = text
            event.consent = [.notSet, .optIn, .optOut][number]
            event.viewability = AdEvent.Viewability(
                visiblePartsPerMillion: [0, 1, 1_000_000][number],
                durationMilliseconds: [7, .max, 0][number], format: .allCases[number])
            (event.platform, event.campaign, event.source) = (text, text + "c", text + "s")
            (event.revenueMicros, event.spendMicros) = ([1, 12_500_000, 0][number], 3)
            event.isInvalidTraffic = number == 1
            events.append(event)
        }
        return events
    }

    private static func open(_ directory: String) throws -> EventSender {
        var options = EventSender.Options()
        options.senderID = 5
        options.delivery = .spooled(directory: directory)
        return try EventSender.open(to: "127.0.0.1:9", options: options)
    }

    @Test func `Exported lines hold the events that were spooled, in printable ASCII alone`() throws
    {
        let folder = try TemporaryFolder()
        let sender = try Self.open(folder.path)
        let events = Self.events()
        for event in events { #expect(try sender.send(event) == .taken) }
        try sender.flush()
        var lines: [[UInt8]] = []
        let listing = try SpoolListing(of: folder.path) { lines.append($0) }
        #expect(lines.count == events.count && listing.eventCount == UInt64(events.count))
        var withoutID: UInt64 = 0
        for (event, line) in zip(events, lines) {
            #expect(line.allSatisfy { (0x20..<0x7F).contains($0) })
            let found = try #require(DecoderHarness.json(line)?.events.first)
            let isText = String(validating: event.eventID, as: UTF8.self) != nil
            let hasID = isText || event.eventID.count == 16
            if !hasID { withoutID += 1 }
            #expect(found.eventID == (hasID ? event.eventID : []))
            #expect(found.type == event.kind.rawValue && found.consent == event.consent.rawValue)
            #expect(found.reward == Array(event.rewardID.utf8))
            #expect(found.business == Array(event.businessID.utf8))
            #expect(found.session == Array(event.sessionID.utf8))
            #expect(found.timestamp == event.timestampMicroseconds)
            #expect(found.revenue == event.revenueMicros && found.spend == event.spendMicros)
            #expect(found.platform == Array(event.platform.utf8))
            #expect(found.campaign == Array(event.campaign.utf8))
            #expect(found.source == Array(event.source.utf8))
            #expect(found.isInvalidTraffic == event.isInvalidTraffic)
            #expect(
                found.measured
                    == event.viewability.map {
                        DecodedEvent.Measured(
                            visible: $0.visiblePartsPerMillion, duration: $0.durationMilliseconds,
                            format: $0.format.rawValue)
                    })
        }
        #expect(withoutID > 10 && listing.nonTextIDCount == withoutID)
    }

    @Test
    func `A listing says whose packets there are, how many, of what times, and what is damaged`()
        throws
    {
        let folder = try TemporaryFolder()
        let directory = folder.path + "/spool"
        #expect(throws: ClientError.spool(path: directory, .missing)) {
            try SpoolListing(of: directory)
        }
        #expect(try SpoolListing(of: folder.path).identity == nil)
        let sender = try Self.open(directory)
        for number in 0..<10 {
            #expect(try sender.send(SampleEvents.event(number)) == .taken)
            try sender.flush()
        }
        let file = "\(directory)/0000000001.spool"
        var bytes = try [UInt8](#require(FileManager.default.contents(atPath: file)))
        let whole = try SpoolListing(of: directory)
        #expect(
            whole.identity?.sender.rawValue == 5 && whole.identity?.epoch.rawValue == sender.epoch)
        #expect(whole.sequences == 0..<10 && whole.packetCount == 10 && whole.eventCount == 10)
        #expect(whole.times == 1_700_000_000_000_000...1_700_000_000_000_009)
        #expect(whole.byteCount == bytes.count && whole.damage.isEmpty)
        bytes[300] ^= 1
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        let damaged = try SpoolListing(of: directory)
        #expect(damaged.packetCount == 9 && damaged.sequences == 0..<10)
        #expect(damaged.damage.map(\.path) == [file])
        #expect(damaged.damage.map(\.sequences.count) == [1])
        // Nothing was changed by looking: not even what is torn.
        bytes.removeLast(5)
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        #expect(try SpoolListing(of: directory).packetCount == 8)
        #expect(FileManager.default.contents(atPath: file)?.count == bytes.count)
    }

    @Test func `The program lists and exports, with an exit code for damage`() throws {
        let folder = try TemporaryFolder()
        let directory = folder.path + "/spool"
        let sender = try Self.open(directory)
        for number in 0..<3 {
            #expect(try sender.send(SampleEvents.event(number)) == .taken)
            try sender.flush()
        }
        func program(_ arguments: String...) throws -> Ended {
            try TestSupport.run("ingest-send", ["spool"] + arguments, in: folder)
        }
        let list = try program("list", directory)
        let row = try #require(
            JSONSerialization.jsonObject(with: Data(list.output.utf8)) as? [String: Any])
        #expect(list.code == 0 && row["sender"] as? String == "5" && row["events"] as? Int == 3)
        #expect(row["oldestEvent"] as? String == "2023-11-14T22:13:20.000000Z")
        #expect(
            try program("list", directory, "--format", "table").output.contains(
                "lastSequence    2\n"))
        #expect(try program("list", directory, "--format", "json").output.hasPrefix("[{\"sender\""))
        let export = try program("export", directory)
        #expect(export.code == 0)
        #expect(export.output.split(separator: "\n").count == 3)
        let file = "\(directory)/0000000001.spool"
        var bytes = try [UInt8](#require(FileManager.default.contents(atPath: file)))
        bytes[120] ^= 1
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        for command in ["list", "export"] {
            let ended = try program(command, directory)
            #expect(ended.code == 65 && ended.errors.contains("packet 0 of the spool is damaged"))
            #expect(!ended.output.isEmpty)
        }
        #expect(try program("list", folder.path + "/none").code == 66)
        #expect(try program("list").code == 64)
    }
}
