import IngestKeys
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// An acked sender whose packets are in its spool, and not in memory.
struct SpooledDeliveryTests {
    private static let second: UInt64 = 1_000_000_000

    private static func open(
        _ files: SimulatedFileSystem, fileByteCountMax: Int = 600
    ) throws -> OpenedSpool {
        let identity = SampleEvents.identity()
        return try OpenedSpool(
            Spool.open(
                files, sender: identity.sender, random: identity.sender, epoch: identity.epoch,
                fileByteCountMax: fileByteCountMax), in: files)
    }

    /// A spool in several files that an earlier start has left, with so many packets.
    private static func filled(_ count: Int) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 3)
        StreamRig(try open(files)).sendPackets(count)
        return files.disk.kill()
    }

    private static func bases(_ rig: StreamRig) -> [UInt64] {
        rig.network.takePackets().filter { $0.kind == 2 }.map { UInt64($0.payload[0]) }
    }

    @Test func `With a spool a receiver that takes nothing is waited for, and named`() throws {
        let files = SimulatedFileSystem(seed: 3)
        let rig = StreamRig(try Self.open(files)) { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(3)
        for _ in 0..<300 {
            rig.answer(floor: 0, isPending: true)
            rig.pass(Self.second)
        }
        guard case .notTaken("", .busy, 300...)? = rig.obstacle else {
            Issue.record("\(String(describing: rig.obstacle))")
            return
        }
        for _ in 0..<300 {
            rig.ack(floor: 0, credit: 0, .diskFull)
            rig.pass(Self.second)
        }
        #expect(rig.failure == nil)
        guard case .notTaken("", .diskFull, 600...)? = rig.obstacle else {
            Issue.record("\(String(describing: rig.obstacle))")
            return
        }
        rig.answer(floor: 3)
        #expect(rig.isDrained && rig.obstacle == nil)
    }

    @Test func `A packet in a spool takes sixteen bytes of memory`() throws {
        #expect(MemoryLayout<SendWindow.Entry>.stride <= 16)
        let files = SimulatedFileSystem(seed: 3)
        let rig = StreamRig(try Self.open(files, fileByteCountMax: 1 << 20)) {
            $0.unackedByteCountMax = 10_000
        }
        // Nobody answers.
        rig.sendPackets(500)
        #expect(rig.unackedByteCount == 0 && rig.nextSequence == 500)
        let inMemory = StreamRig { $0.unackedByteCountMax = 10_000 }
        inMemory.sendPackets(20)
        #expect(inMemory.unackedByteCount > 1_000)
    }

    @Test func `Values of sequences keep their places while chunks come and go`() {
        var values = SequenceArray<UInt64>(start: 5_000_000_000)
        for sequence in 5_000_000_000..<5_000_020_000 as Range<UInt64> {
            values.append(sequence)
            if sequence > 5_000_000_010, sequence % 3 != 0 {
                values.remove(below: values.start + 1)
            }
            #expect(values[values.start] == values.start && values[sequence] == sequence)
        }
        values[values.end - 1] = 7
        values.remove(below: values.end - 1)
        #expect(values[values.start] == 7)
        values.remove(below: 9_000_000_000)
        values.append(1)
        #expect(values.start == 9_000_000_000 && values[9_000_000_000] == 1)
    }

    @Test
    func `What is sent, and sent again, are the bytes that were spooled, of old and new files`()
        throws
    {
        let files = try Self.filled(30)
        let opened = try Self.open(files)
        #expect(try SpoolTests.names(files).count > 5)
        let rig = StreamRig(opened)
        rig.ack(floor: 0)
        rig.sendPackets(10)
        let first = rig.network.takePackets().filter { $0.kind == 1 }
        #expect(first.map(\.sequence) == Array(0..<40))
        // All are lost.
        rig.pass(Self.second)
        rig.answer(floor: 0)
        rig.pass(5 * Self.second)
        let again = rig.network.takePackets().filter { $0.kind == 1 }
        #expect(Set(again.map(\.sequence)) == Set(0..<40))
        for packet in again { #expect(packet.bytes == first[Int(packet.sequence)].bytes) }
        #expect(first[..<30].map(\.bytes) == opened.packets.map(\.bytes))
        rig.ack(floor: 40)
        #expect(rig.isDrained && rig.totals.eventsAcked == 40)
        #expect(try SpoolTests.names(files).count == 1)
    }

    @Test func `S2: Packets leave with the key of the start that sends them`() throws {
        let keys = [1, 2].map { PacketKey(id: $0, key: [UInt8](repeating: UInt8($0), count: 16)) }
        let files = SimulatedFileSystem(seed: 3)
        var disk = files
        for (place, key) in [keys[0], keys[1], nil].enumerated() {
            let rig = StreamRig(try Self.open(disk)) { $0.key = key }
            rig.stream.acks.hasCredit = true
            rig.sendPackets(2)
            let packets = rig.network.takePackets().filter { $0.kind == 1 }
            #expect(packets.count >= 2 * (place + 1))
            for packet in packets {
                #expect(packet.bytes[6] == UInt8(key?.id ?? 0))
                let isSealed = packet.bytes.withUnsafeBytes { bytes in
                    PacketHeader.frameRefusal(bytes) == nil
                        && key?.tag.isTag(of: bytes) ?? (bytes[5] == 1)
                }
                #expect(isSealed && packet.bytes.count <= 1_200)
            }
            disk = disk.disk.kill()
        }
        let left = try Self.open(disk)
        #expect(left.packets.count == 6 && left.packets.allSatisfy { $0.bytes[5] == 1 })
    }

    // MARK: Damage

    @Test func `The receiver is told to wait for no packet that is damaged`() throws {
        // At both ends and in the middle.
        for lost in [[0], [0, 1, 2], [4], [4, 9, 10], [29], [0, 15, 29]] as [[Int]] {
            let files = try Self.filled(30)
            let places = try Self.open(files.disk.copy()).left.packets
            for sequence in lost {
                let place = places[UInt64(sequence)].place
                files.disk.damage(SpoolFileName(place.file, endSequence: 0).text) {
                    $0[place.offset + 50] ^= 1
                }
            }
            // Its durable end says that what is before it was no torn write.
            let opened = try Self.open(files)
            let isCut = lost.contains(29)
            let rig = StreamRig(opened)
            let gone = lost.filter { $0 < opened.left.packets.end }
            #expect(
                rig.totals.packetsDamaged == UInt64(gone.count)
                    && isCut == (gone.count < lost.count))
            let end = isCut ? 29 : 30 as UInt64
            rig.answer(floor: 0)
            let sent = rig.takeSequences()
            #expect(sent == (0..<end).filter { !lost.contains(Int($0)) })
            var bits = sent.reduce(0) { $0 | 1 << $1 } as UInt64
            let floor = UInt64((~bits).trailingZeroBitCount)
            bits >>= floor
            rig.ack(floor: floor, words: [bits])
            #expect(rig.isDrained == (floor == end), "\(lost)")
            rig.pass(Self.second)
            #expect(Self.bases(rig).last == end)
            rig.answer(floor: end)
            #expect(rig.isDrained && rig.failure == nil)
            // The next packet takes none of the sequences that are lost.
            rig.sendPackets(1)
            #expect(rig.takeSequences() == [end])
        }
    }

    @Test(arguments: [0, 2] as [UInt64], [true, false])
    func `An epoch that has lost all its packets goes on, unless the receiver has one of them`(
        first: UInt64, isTruncated: Bool
    ) throws {
        // A packet a file.
        let files = SimulatedFileSystem(seed: 3)
        do {
            let rig = StreamRig(try Self.open(files, fileByteCountMax: 80))
            rig.sendPackets(Int(first + 1))
            rig.ack(floor: first)
        }
        let name = "000000000\(first + 1).spool"
        let killed = files.disk.kill()
        #expect(try SpoolTests.names(killed) == [name])
        let byteCount = try #require(killed.disk.contents(name)).count
        killed.disk.damage(name) { bytes in
            if isTruncated { bytes.removeLast() } else { bytes[150] ^= 1 }
        }
        for hasArrived in [true, false] {
            let opened = try Self.open(killed.disk.copy())
            #expect(opened.spool.identity == SampleEvents.identity())
            #expect(opened.packets.isEmpty && opened.firstSequence == first)
            let cuts = opened.left.damage.map(\.cutByteCount)
            #expect(cuts == [byteCount - (isTruncated ? 81 : 80)])
            let rig = StreamRig(opened)
            #expect(!rig.isDrained, "nobody has said that nothing is missing")
            rig.sendPackets(2)
            #expect(rig.takeSequences().isEmpty)
            rig.answer(floor: hasArrived ? first + 1 : first)
            if !hasArrived {
                #expect(rig.failure == nil && rig.takeSequences() == [first, first + 1])
                rig.answer(floor: first + 2)
                #expect(rig.isDrained)
                continue
            }
            let failure = try #require(rig.failure)
            let cut = opened.left.damage.first
            #expect(
                failure == .unknownPackets(sender: 7, sequence: first, next: first, cut: cut))
            #expect("\(failure)".contains("\(name) at byte 80"))
        }
    }

    @Test func `Who has lost all packets of a spool gives up on a receiver that is away`() throws {
        let files = SimulatedFileSystem(seed: 3)
        StreamRig(try Self.open(files)).sendPackets(1)
        let killed = files.disk.kill()
        killed.disk.damage("0000000001.spool") { $0[150] ^= 1 }
        let rig = StreamRig(try Self.open(killed)) { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.pass(29 * Self.second)
        #expect(rig.failure == nil && !rig.isDrained)
        rig.pass(2 * Self.second)
        #expect(rig.failure?.exitCode == 69)
    }

    @Test func `The cut of a last write whose packets were sent is named with what is missing`()
        throws
    {
        let files = try Self.filled(30)
        let place = try Self.open(files.disk.copy()).left.packets[29].place
        let name = SpoolFileName(place.file, endSequence: 0).text
        files.disk.damage(name) { $0[place.offset + 50] ^= 1 }
        let opened = try Self.open(files)
        #expect(opened.packets.count == 29 && opened.left.damage.isEmpty)
        let rig = StreamRig(opened)
        rig.answer(floor: 30)
        let offset = place.offset - SpoolRecord.headerByteCount
        let failure = try #require(rig.failure)
        #expect("\(failure)".contains("\(name) at byte \(offset), check the disk"))
    }

    @Test func `A packet that the disk loses while it waits costs itself alone`() throws {
        let files = SimulatedFileSystem(seed: 3)
        let rig = StreamRig(try Self.open(files))
        rig.ack(floor: 0, credit: 0)
        rig.sendPackets(30)
        let place = rig.stream.window[7].place
        files.disk.damage(SpoolFileName(place.file, endSequence: 0).text) {
            $0[place.offset + 50] ^= 1
        }
        let other = rig.stream.window[20].place
        try files.unlink(SpoolFileName(other.file, endSequence: 0).text)
        let lost = (8..<30 as Range<UInt64>).filter {
            rig.stream.window[$0].place.file == other.file
        }
        rig.answer(floor: 0)
        rig.pass(Self.second)
        #expect(rig.failure == nil, "\(String(describing: rig.failure))")
        let sent = Set(rig.takeSequences())
        #expect(sent == Set(0..<30).subtracting([7] + lost))
        #expect(rig.totals.packetsDamaged == UInt64(1 + lost.count))
        #expect(rig.stream.damage.flatMap { Array($0.sequences) } == [7] + lost)
        #expect(rig.stream.damage.count == 2 && lost.count > 1)
        rig.ack(floor: 7, words: [sent.reduce(0) { $1 < 7 ? $0 : $0 | 1 << ($1 - 7) }])
        #expect(!rig.isDrained)
        rig.pass(Self.second)
        #expect(Self.bases(rig).last == 30)
        rig.answer(floor: 30)
        #expect(rig.isDrained)
    }
}
