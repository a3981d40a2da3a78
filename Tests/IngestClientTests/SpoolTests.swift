import Foundation
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// The directory of packets, on a disk that fails.
struct SpoolTests {
    typealias TestSpool = Spool<SimulatedFileSystem>

    static let identity = SenderIdentity(
        sender: SenderID(rawValue: 77), epoch: SenderEpoch(rawValue: 0x19AA_0B4E_1001_2345))

    /// A packet that is as large as `size` says, of the identity above.
    static func packet(
        _ sequence: UInt64, identity: SenderIdentity = identity, size: Int = 40
    ) -> SpooledPacket {
        var header = PacketHeader(
            kind: .batch, flags: 1, sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: sequence))
        var bytes =
            [UInt8](repeating: 0, count: 40)
            + (0..<size).map {
                UInt8(truncatingIfNeeded: Int(truncatingIfNeeded: sequence) &* 7 &+ $0)
            }
        header.seal(&bytes)
        return SpooledPacket(
            bytes: bytes, eventCount: 3,
            note: SpoolNote(
                position: 100 &* (sequence &+ 1), checksum: UInt32(truncatingIfNeeded: sequence),
                device: 2_049, inode: 131_072 &+ sequence))
    }

    static func open(
        _ files: SimulatedFileSystem, sender: UInt64? = nil, epoch: UInt64 = 5,
        fileByteCountMax: Int = 8 << 20
    ) throws -> OpenedSpool {
        try OpenedSpool(
            TestSpool.open(
                files, sender: sender.map { SenderID(rawValue: $0) },
                random: SenderID(rawValue: 9), epoch: SenderEpoch(rawValue: epoch),
                fileByteCountMax: fileByteCountMax), in: files)
    }

    static func names(_ files: SimulatedFileSystem) throws -> [String] {
        try files.names().filter { $0.hasSuffix(".spool") }
    }

    // MARK: Bytes

    /// The golden file: a head, two packets written at once and one after that.
    private static func golden() throws -> [UInt8] {
        try [UInt8](
            Data(
                contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                    .deletingLastPathComponent().appending(path: "Fixtures/v1/0000000001.spool")))
    }

    @Test func `A spool file is the golden one`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try Self.open(files, sender: 77, epoch: Self.identity.epoch.rawValue)
        try opened.spool.append([Self.packet(0), Self.packet(1, size: 16)])
        try opened.spool.append([Self.packet(2, size: 20)])
        let bytes = try #require(files.disk.contents("0000000001.spool"))
        #expect(bytes == (try Self.golden()))
    }

    @Test func `The page has the code's fields, limits and golden file`() throws {
        let page = try FormatPage("spool")
        #expect(page.hex(under: "Worked example") == (try Self.golden()))
        let head = page.fields(under: "Head")
        #expect(
            head.filter { $0.name != "reserved" }.map { "\($0.name) \($0.offset) \($0.end)" }
                == SpoolHeader.layout.fields.filter { !$0.isReserved }
                .map { "\($0.name) \($0.offset) \($0.end)" })
        let record = page.fields(under: "Record")
        #expect(
            record.map { "\($0.name) \($0.offset)" } == [
                "magic \(SpoolRecord.Offset.magic)",
                "packet byte count \(SpoolRecord.Offset.packetByteCount)",
                "sequence \(SpoolRecord.Offset.sequence)",
                "event count \(SpoolRecord.Offset.eventCount)",
                "input checksum \(SpoolRecord.Offset.inputChecksum)",
                "position \(SpoolRecord.Offset.position)",
                "device \(SpoolRecord.Offset.device)", "inode \(SpoolRecord.Offset.inode)",
                "durable end \(SpoolRecord.Offset.durableEnd)",
                "checksum \(SpoolRecord.Offset.checksum)",
            ])
        for (fields, byteCount) in [
            (head, SpoolHeader.byteCount), (record, SpoolRecord.headerByteCount),
        ] {
            #expect(zip(fields, fields.dropFirst()).allSatisfy { $0.end == $1.offset })
            #expect(fields.last?.end == byteCount)
        }
        #expect(
            page.numbers(under: "Limits", column: "at most") == [
                "all files": "\(Limits.spoolByteCountMax)",
                "one file": "\(Limits.spoolFileByteCountMax)",
            ])
    }

    // MARK: Starts

    @Test func `A start finds what was appended, and goes on with the same epoch and sequence`()
        throws
    {
        var files = SimulatedFileSystem(seed: 1)
        var identities: [SenderIdentity] = []
        for start in 0..<5 as Range<UInt64> {
            let opened = try Self.open(files, epoch: 100 + start)
            identities.append(opened.spool.identity)
            #expect(opened.firstSequence == 0)
            #expect(opened.packets.count == Int(3 * start))
            for (sequence, packet) in opened.packets.enumerated() {
                #expect(packet == Self.packet(UInt64(sequence), identity: identities[0]))
            }
            if start > 0 { #expect(opened.note.position == 100 * 3 * start) }
            #expect(!opened.hasEnded)
            try opened.spool.append(
                (0..<3).map { Self.packet(3 * start + $0, identity: identities[0]) })
            files = files.disk.kill()
        }
        #expect(Set(identities.map(\.epoch)) == [SenderEpoch(rawValue: 100)])
        #expect(Set(identities.map(\.sender)) == [SenderID(rawValue: 9)])
    }

    @Test func `S1: Where all was acked a start takes a new epoch, always a greater one`() throws {
        let files = SimulatedFileSystem(seed: 1)
        // The clock was set back before the third one.
        for (asked, taken) in [(100, 100), (100, 101), (50, 102), (200, 200)]
            as [(UInt64, UInt64)]
        {
            let opened = try Self.open(files, epoch: asked)
            #expect(opened.spool.identity.epoch.rawValue == taken && !opened.left.isContinued)
            try opened.spool.finish(SpoolNote(position: 7, checksum: 8))
        }
        #expect(try Self.open(files, epoch: 100).spool.identity.epoch.rawValue == 201)
        #expect(try Self.open(files, epoch: 100).spool.identity.epoch.rawValue == 202)
        #expect(try Self.names(files).count == 1)
    }

    @Test func `Files are removed when all of them is acked, in their order, and no file before`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try Self.open(files, fileByteCountMax: 300)
        let identity = opened.spool.identity
        for sequence in 0..<20 as Range<UInt64> {
            try opened.spool.append([Self.packet(sequence, identity: identity)])
        }
        let all = try Self.names(files)
        #expect(all.count > 5)
        var left = all.count
        for base in 0...20 as ClosedRange<UInt64> {
            try opened.spool.retire(below: base)
            let names = try Self.names(files)
            #expect(names.count <= left && names == Array(all.suffix(names.count)))
            left = names.count
        }
        #expect(left == 1)
        try opened.spool.finish(SpoolNote(position: 7, checksum: 8))
        #expect(try Self.names(files).count == 1)
    }

    @Test func `A finished spool leaves nothing to the next start`() throws {
        let files = SimulatedFileSystem(seed: 1)
        do {
            let opened = try Self.open(files, sender: 5, epoch: 100)
            try opened.spool.append([Self.packet(0, identity: opened.spool.identity)])
            try opened.spool.retire(below: 1)
            try opened.spool.finish(SpoolNote(position: 7, checksum: 8))
        }
        let next = try Self.open(files, sender: 6, epoch: 101)
        #expect(next.packets.isEmpty)
        #expect(next.firstSequence == 0)
        #expect(next.note == SpoolNote(position: 7, checksum: 8))
        #expect(next.hasEnded)
        #expect(next.spool.identity.sender.rawValue == 6)
    }

    @Test func `Packets of another sender are not sent as this one's`() throws {
        let files = SimulatedFileSystem(seed: 1)
        do {
            let opened = try Self.open(files, sender: 77)
            try opened.spool.append([Self.packet(0, identity: opened.spool.identity)])
        }
        #expect(throws: ClientError.otherSender(path: "/sim", asked: 78, found: 77)) {
            try Self.open(files, sender: 78)
        }
        #expect(try Self.open(files, sender: nil).packets.count == 1)
    }

    @Test func `One sender at a time`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try Self.open(files)
        let error = #expect(throws: ClientError.self) { try Self.open(files) }
        #expect(error?.exitCode == 69)
        #expect("\(try #require(error))".contains("another sender"))
        _ = opened
    }

    // MARK: Crashes

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `What a start finds and sends is durable, though its writer was killed before the sync`(
        seed: UInt64
    ) throws {
        let files = SimulatedFileSystem(seed: seed)
        let first = try Self.open(files, sender: 77)
        let identity = first.spool.identity
        try first.spool.append([Self.packet(0, identity: identity)])
        // The write is done, the sync is not.
        files.disk.crash(beforeOperation: files.disk.operationCount + 1)
        #expect(throws: StorageError.self) {
            try first.spool.append([Self.packet(1, identity: identity, size: 1_500)])
        }
        let killed = files.disk.kill()
        let second = try Self.open(killed)
        #expect(second.packets.count == 2)
        // From here on both may be sent.
        let third = try Self.open(killed.disk.powerCut(seed: seed))
        #expect(third.packets == second.packets)
        #expect(third.spool.identity == identity)
    }

    @Test(arguments: 0..<12 as Range<UInt64>)
    func `A crash before any call leaves a spool with every packet that was appended`(
        seed: UInt64
    ) throws {
        for crashAt in 0..<70 {
            let files = SimulatedFileSystem(seed: seed)
            files.disk.crash(beforeOperation: crashAt)
            files.disk.shortenWrites(oneIn: 3)
            var appended: [SpooledPacket] = []
            var base: UInt64 = 0
            var hasFinished = false
            do {
                let spool = try Self.open(files, sender: 77, epoch: 100, fileByteCountMax: 250)
                    .spool
                for round in 0..<6 as Range<UInt64> {
                    let packets = (0..<2).map {
                        Self.packet(2 * round + $0, identity: spool.identity)
                    }
                    try spool.append(packets)
                    appended += packets
                    if round % 2 == 1 {
                        base = 2 * round - 1
                        try spool.retire(below: base)
                    }
                }
                hasFinished = true
                base = .max
                try spool.finish(SpoolNote(position: 7, checksum: 8))
            } catch let error as ClientError {
                #expect(files.disk.isDown, "\(error)")
            } catch let error as StorageError {
                #expect(files.disk.isDown, "\(error)")
            }
            let after = seed % 2 == 0 ? files.disk.powerCut(seed: seed) : files.disk.kill()
            let opened = try Self.open(after, epoch: 101)
            // What was acked may be there or not.
            if hasFinished { continue }
            let first = opened.firstSequence
            #expect(first <= base, "crash at \(crashAt)")
            #expect(opened.packets.count >= appended.count - Int(first), "crash at \(crashAt)")
            // What was being appended may be there too: whole, and the same.
            for (place, packet) in opened.packets.enumerated() {
                let expected = Self.packet(
                    first + UInt64(place), identity: opened.spool.identity)
                #expect(packet == expected, "crash at \(crashAt)")
            }
        }
    }
}
