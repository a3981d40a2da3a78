import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// What a start makes of a spool that is torn, damaged, or on a disk without room.
struct SpoolDamageTests {
    /// A disk with one file in which packets 0 and 1 were written at once, and 2 to 4 each by itself.
    private static func filled() throws -> (files: SimulatedFileSystem, packets: [SpooledPacket]) {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try SpoolTests.open(
            files, sender: 77, epoch: SpoolTests.identity.epoch.rawValue)
        let packets = (0..<5).map { SpoolTests.packet($0) }
        try opened.spool.append(Array(packets[..<2]))
        for packet in packets[2...] { try opened.spool.append([packet]) }
        return (files.disk.kill(), packets)
    }

    @Test func `A torn end is cut at every length, and nothing before it is lost`() throws {
        let (whole, packets) = try Self.filled()
        let byteCount = try #require(whole.disk.contents("0000000001.spool")).count
        let record = SpoolRecord.headerByteCount + packets[0].bytes.count
        for length in 0..<byteCount {
            let files = try Self.filled().files
            files.disk.damage("0000000001.spool") { $0.removeLast($0.count - length) }
            let opened = try SpoolTests.open(files, epoch: 9)
            let kept = max(0, length - SpoolHeader.byteCount) / record
            #expect(opened.packets == Array(packets[..<kept]), "\(length) bytes")
            // A head alone has sent nothing: a new epoch.
            let hasMore = length > SpoolHeader.byteCount
            #expect((opened.spool.identity == SpoolTests.identity) == hasMore)
            // Where it leaves nothing, that is said.
            let cut = length - SpoolHeader.byteCount
            let cuts = opened.left.damage.map(\.cutByteCount)
            #expect(cuts == (0 < cut && cut < record ? [cut] : []))
            #expect(opened.damaged.isEmpty)
        }
    }

    @Test
    func
        `A damaged byte costs the packet that it is in, or no packet, and in the last write a cut`()
        throws
    {
        let (whole, packets) = try Self.filled()
        let byteCount = try #require(whole.disk.contents("0000000001.spool")).count
        let record = SpoolRecord.headerByteCount + packets[0].bytes.count
        for place in 0..<byteCount {
            let files = try Self.filled().files
            files.disk.damage("0000000001.spool") { $0[place] ^= 0x10 }
            let opened = try SpoolTests.open(files, epoch: 9)
            #expect(opened.spool.identity == SpoolTests.identity)
            let lost = (place - SpoolHeader.byteCount) / record
            if place >= SpoolHeader.byteCount + 4 * record {
                #expect(opened.packets == Array(packets[..<4]) && opened.left.damage.isEmpty)
                continue
            }
            let part = try #require(opened.left.damage.first, "byte \(place): nobody says so")
            #expect(opened.left.damage.count == 1 && part.path.contains("0000000001.spool"))
            if place < SpoolHeader.byteCount {
                #expect(opened.packets == packets && part.offset == 0 && part.sequences.isEmpty)
            } else {
                #expect(opened.packets == packets.filter { $0 != packets[lost] }, "byte \(place)")
                #expect(part.offset == UInt64(SpoolHeader.byteCount + lost * record))
                #expect(opened.damaged == [UInt64(lost)])
                #expect(opened.left.packets[UInt64(lost)].isDone)
            }
            #expect(opened.left.packets.end == 5)
        }
    }

    @Test func `A cut behind a head keeps the epoch, also where the input before it had ended`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        try SpoolTests.open(files, sender: 77).spool.finish(SpoolNote(position: 7, checksum: 8))
        var killed = files.disk.kill()
        let opened = try SpoolTests.open(killed)
        let identity = opened.spool.identity
        try opened.spool.append([SpoolTests.packet(0, identity: identity)])
        killed = killed.disk.kill()
        let name = try #require(try SpoolTests.names(killed).first)
        killed.disk.damage(name) { $0[SpoolHeader.byteCount + 100] ^= 1 }
        #expect(throws: ClientError.otherSender(path: "/sim", asked: 78, found: 77)) {
            try SpoolTests.open(killed.disk.copy(), sender: 78)
        }
        let next = try SpoolTests.open(killed, epoch: 1_000)
        #expect(next.spool.identity == identity && next.packets.isEmpty && next.left.isContinued)
        let part = try #require(next.left.damage.first)
        #expect(part.path.hasSuffix(name) && part.offset == 80)
        #expect("\(part)".contains("the last 136 bytes of this spool file"))
        // Its packets go where the lost ones were.
        try next.spool.append([SpoolTests.packet(0, identity: identity)])
        #expect(try SpoolTests.open(killed.disk.kill()).packets.count == 1)
    }

    @Test func `Bytes behind a head keep the epoch, also where a file without packets follows`()
        throws
    {
        for hasBytes in [true, false] {
            let files = SimulatedFileSystem(seed: 2)
            let identity = SenderIdentity(
                sender: SenderID(rawValue: 77), epoch: SenderEpoch(rawValue: 500))
            for number in [1, 2] as [UInt64] {
                let header = SpoolHeader(
                    identity: identity, fileNumber: number, firstSequence: 0, note: SpoolNote(),
                    hasEnded: false)
                let file = try files.create(SpoolFileName(number, endSequence: 0).text)
                let rest: [UInt8] = number == 1 && hasBytes ? [0] : []
                try file.write(header.encode() + rest, at: 0)
                try file.sync()
            }
            try files.syncDirectory()
            let opened = try SpoolTests.open(files, epoch: 1_000)
            #expect(opened.packets.isEmpty && opened.left.isContinued == hasBytes)
            #expect((opened.spool.identity == identity) == hasBytes)
        }
    }

    @Test func `A last file without a whole head is removed only where nothing is behind the head`()
        throws
    {
        for byteCount in [0, 79, 80, 81, 200] {
            // Of the only file, and of one behind others, whose epoch goes on.
            let only = SimulatedFileSystem(seed: 3)
            let name = SpoolFileName(1, endSequence: 0).text
            try only.create(name).write([UInt8](repeating: 0, count: byteCount), at: 0)
            let others = try Self.manyFiles()
            let identity = try SpoolTests.open(others.disk.copy(), epoch: 9).spool.identity
            let last = try #require(try SpoolTests.names(others).last)
            others.disk.damage(last) { $0 = [UInt8](repeating: 0, count: byteCount) }
            if byteCount <= SpoolHeader.byteCount {
                #expect(try SpoolTests.open(only).packets.isEmpty)
                #expect(try SpoolTests.open(others, epoch: 9).spool.identity == identity)
                continue
            }
            let error = #expect(throws: ClientError.self) { try SpoolTests.open(only) }
            #expect(error?.exitCode == 65 && "\(error as Any)".contains(name))
            #expect(try SpoolTests.names(only) == [name])
            // Its packets may have been sent: their sequences are given to no others, and the next start knows too.
            var left = others
            for _ in 0..<2 {
                let opened = try SpoolTests.open(left, epoch: 9)
                #expect(opened.spool.identity == identity && opened.left.packets.end > 8)
                #expect(opened.damaged.first == 8)
                #expect(left.disk.contents(last)?.count == byteCount)
                // All is acked: a file stays that says whose epoch it is.
                try opened.spool.retire(below: opened.left.packets.end)
                left = left.disk.kill()
            }
            let opened = try SpoolTests.open(left, epoch: 9)
            let end = opened.left.packets.end
            try opened.spool.append([SpoolTests.packet(end, identity: identity)])
            try opened.spool.retire(below: end)
            let next = try SpoolTests.open(left.disk.kill(), epoch: 9)
            #expect(next.spool.identity == identity && next.left.packets.end == end + 1)
            #expect(next.packets == [SpoolTests.packet(end, identity: identity)])
        }
    }

    /// Nine packets, two a file but for the last one.
    private static func manyFiles() throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try SpoolTests.open(files, sender: 77, fileByteCountMax: 220)
        for sequence in 0..<9 as Range<UInt64> {
            try opened.spool.append([
                SpoolTests.packet(sequence, identity: opened.spool.identity)
            ])
        }
        let killed = files.disk.kill()
        #expect(try SpoolTests.names(killed).count == 5)
        return killed
    }

    @Test
    func
        `Whatever is damaged in a file, all packets of the others are sent, and no sequence twice`()
        throws
    {
        let record = SpoolRecord.headerByteCount + 80
        let table: [(what: String, lost: [UInt64], change: (SimulatedDisk, String) -> Void)] = [
            ("first record", [2], { $0.damage($1) { $0[86] ^= 1 } }),
            (
                "last record", [3],
                { $0.damage($1) { $0[SpoolHeader.byteCount + record + 90] ^= 1 } }
            ),
            ("both", [2, 3], { $0.damage($1) { for i in 60..<250 { $0[i] = 0 } } }),
            ("head", [], { $0.damage($1) { $0[9] ^= 1 } }),
            ("head and record", [2], { $0.damage($1) { for i in 0..<100 { $0[i] = 255 } } }),
            ("all", [2, 3], { $0.damage($1) { for i in $0.indices { $0[i] = 7 } } }),
            ("shorter", [3], { $0.damage($1) { $0.removeLast() } }),
            ("sector", [2, 3], { $0.makeUnreadable($1, 0..<512) }),
        ]
        for (what, lost, change) in table {
            let files = try Self.manyFiles()
            let names = try SpoolTests.names(files)
            change(files.disk, names[1])
            let opened = try SpoolTests.open(files, epoch: 9)
            let all = (0..<9 as Range<UInt64>).filter { !lost.contains($0) }
            let identity = opened.spool.identity
            #expect(
                opened.packets == all.map { SpoolTests.packet($0, identity: identity) }, "\(what)")
            #expect(opened.damaged == lost && opened.left.damage.count == 1, "\(what)")
            try opened.spool.append([SpoolTests.packet(9, identity: identity)])
            let after = files.disk.kill()
            let next = try SpoolTests.open(after)
            #expect(next.packets.count == all.count + 1 && next.left.packets.end == 10)
            try next.spool.retire(below: 4)
            #expect(try SpoolTests.names(after).first == names[2], "\(what)")
        }
    }

    @Test func `Sequences that no sender reaches are damage, and no sum of them traps`() throws {
        for sequence in [1 << 62, .max - 1, .max] as [UInt64] {
            let files = try Self.manyFiles()
            let head = SpoolHeader(
                identity: SampleEvents.identity(), fileNumber: 1, firstSequence: sequence,
                note: SpoolNote())
            var record = ByteWriter()
            SpoolRecord(packet: SpoolTests.packet(sequence), sequence: sequence, durableEnd: 0)
                .encode(into: &record)
            files.disk.damage(try SpoolTests.names(files)[0]) { $0 = head.encode() + record.bytes }
            let opened = try SpoolTests.open(files)
            #expect(opened.packets.count == 7 && opened.left.packets.end == 9)
        }
    }

    @Test func `Damage at the beginning of all files costs what it takes, and claims no acks`()
        throws
    {
        for (byteCount, lost, acked) in [(80, 0, 0), (116, 1, 0), (352, 2, 0)]
            as [(Int, Int, UInt64)]
        {
            let files = try Self.manyFiles()
            files.disk.damage(try SpoolTests.names(files)[0]) { bytes in
                for i in 0..<byteCount { bytes[i] = 0 }
            }
            let opened = try SpoolTests.open(files, epoch: 9)
            #expect(opened.packets.count == 9 - lost && opened.left.packets.end == 9)
            #expect(opened.left.ackedEnd == acked && opened.damaged.contains(0) == (lost > 0))
        }
    }

    @Test func `A file that is gone from the middle is damage, another's an error`() throws {
        let names = try SpoolTests.names(try Self.manyFiles())
        let first = try Self.manyFiles()
        try first.unlink(names[0])
        #expect(try SpoolTests.open(first).packets.count == 7)
        let middle = try Self.manyFiles()
        try middle.unlink(names[1])
        let opened = try SpoolTests.open(middle)
        #expect(opened.packets.count == 7 && opened.damaged == [2, 3])
        #expect("\(opened.left.damage[0])".contains(names[1]))
        let swapped = try Self.manyFiles()
        try swapped.rename(names[1], to: "x")
        try swapped.rename(names[0], to: names[1])
        try swapped.rename("x", to: names[0])
        #expect(throws: ClientError.self) { try SpoolTests.open(swapped) }
    }

    @Test func `Files that are none of a spool's are left alone`() throws {
        let files = SimulatedFileSystem(seed: 1)
        for name in [
            "1.spool", "0000000000.spool", "README", "00000000001.spool",
            "18446744073709551615.spool",
        ] {
            _ = try files.create(name)
        }
        let opened = try SpoolTests.open(files)
        try opened.spool.append([SpoolTests.packet(0, identity: opened.spool.identity)])
        #expect(try files.names().count == 8)
    }

    @Test func `Bytes of an event that look like a later record make no damage of a torn end`()
        throws
    {
        // A head alone, behind which a packet of no bytes follows, in an event id of 64 bytes and at every place of it.
        for (place, isFar) in (0...24).flatMap({ [($0, false), ($0, true)] }) {
            let (whole, packets) = try Self.filled()
            let end = try #require(whole.disk.contents("0000000001.spool")).count
            var forged = ByteWriter()
            SpoolRecord(
                packet: SpooledPacket(bytes: [], eventCount: 0, note: SpoolNote()),
                sequence: UInt64.max, durableEnd: isFar ? Int(UInt32.max) : end + 1
            ).encode(into: &forged)
            var header = PacketHeader(
                kind: .batch, flags: 1, sender: SpoolTests.identity.sender,
                epoch: SpoolTests.identity.epoch,
                sequence: PacketSequence(rawValue: 5))
            var bytes = [UInt8](repeating: 0x55, count: 1_400)
            bytes.replaceSubrange(700 + place..<740 + place, with: forged.bytes)
            header.seal(&bytes)
            var record = ByteWriter()
            SpoolRecord(
                packet: SpooledPacket(bytes: bytes, eventCount: 1, note: SpoolNote()),
                sequence: 5, durableEnd: end
            ).encode(into: &record)
            // Each sector of the write that may be missing.
            for start in stride(from: end / 512 * 512, to: end + record.bytes.count, by: 512) {
                let files = try Self.filled().files
                files.disk.damage("0000000001.spool") {
                    $0 += record.bytes
                    for at in max(end, start)..<min($0.count, start + 512) { $0[at] = 0 }
                }
                let opened = try SpoolTests.open(files, epoch: 9)
                #expect(opened.packets == packets, "place \(place), sector at \(start)")
            }
        }
    }

    @Test func `A whole record that was not written here is damage`() throws {
        let table: [(sequence: UInt64, durableEnd: Int, identity: SenderIdentity)] = [
            (5, 8, SpoolTests.identity), (6, 0, SpoolTests.identity), (4, 0, SpoolTests.identity),
            (
                5, 0,
                SenderIdentity(sender: SpoolTests.identity.sender, epoch: SenderEpoch(rawValue: 3))
            ),
        ]
        for row in table {
            let files = try Self.filled().files
            let end = try #require(files.disk.contents("0000000001.spool")).count
            var writer = ByteWriter()
            SpoolRecord(
                packet: SpoolTests.packet(row.sequence, identity: row.identity),
                sequence: row.sequence,
                durableEnd: end + row.durableEnd
            ).encode(into: &writer)
            files.disk.damage("0000000001.spool") { $0 += writer.bytes }
            let error = #expect(throws: ClientError.self) { try SpoolTests.open(files, epoch: 9) }
            #expect(error?.exitCode == 65, "\(row)")
        }
    }

    // MARK: A full disk

    @Test func `A start needs no room, and loses none of what it finds`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let first = try SpoolTests.open(files, sender: 77)
        for sequence in 0..<3 as Range<UInt64> {
            try first.spool.append([SpoolTests.packet(sequence, identity: first.spool.identity)])
        }
        var next = files
        for start in 0..<4 as Range<UInt64> {
            next = next.disk.powerCut(seed: start)
            next.disk.limit(byteCount: 0)
            let opened = try SpoolTests.open(next, epoch: 100)
            #expect(opened.packets.count == 3)
            #expect(opened.spool.identity == first.spool.identity)
            #expect(opened.note.position == 300)
            #expect(throws: StorageError.self) {
                try opened.spool.append([SpoolTests.packet(3, identity: opened.spool.identity)])
            }
        }
    }

    @Test func `An input that was sent stays known where a start finds no room for its epoch`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        try SpoolTests.open(files, sender: 77).spool.finish(SpoolNote(position: 7, checksum: 8))
        var next = files.disk.kill()
        next.disk.limit(byteCount: 0)
        #expect(try SpoolTests.open(next, epoch: 100).hasEnded)
        next = next.disk.kill()
        next.disk.limit(byteCount: 1 << 30)
        let opened = try SpoolTests.open(next, epoch: 100)
        #expect(opened.hasEnded && opened.note == SpoolNote(position: 7, checksum: 8))
        // The first packet of the next input is durable: it has not ended.
        try opened.spool.append([SpoolTests.packet(0, identity: opened.spool.identity)])
        let last = try SpoolTests.open(next.disk.kill(), epoch: 200)
        #expect(!last.hasEnded && last.packets.count == 1 && last.firstSequence == 0)
    }

    @Test func `Shorter packets after longer ones that found no room leave no damage behind them`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        let opened = try SpoolTests.open(files, sender: 77, fileByteCountMax: 300)
        let identity = opened.spool.identity
        try opened.spool.append([SpoolTests.packet(0, identity: identity)])
        let space = try files.space()
        files.disk.limit(byteCount: Int(space.totalByteCount - space.freeByteCount) + 700)
        #expect(throws: StorageError.self) {
            try opened.spool.append([SpoolTests.packet(1, identity: identity, size: 1_000)])
        }
        files.disk.limit(byteCount: 1 << 30)
        for sequence in 1..<9 as Range<UInt64> {
            try opened.spool.append([SpoolTests.packet(sequence, identity: identity)])
        }
        for seed in 0..<8 as Range<UInt64> {
            let next = try SpoolTests.open(files.disk.copy().disk.powerCut(seed: seed))
            #expect(next.packets.count == 9)
        }
    }
}
