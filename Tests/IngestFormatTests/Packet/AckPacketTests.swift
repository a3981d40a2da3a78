import IngestFormat
import TestSupport
import Testing

struct AckPacketTests {
    /// The ack of docs/format/packet.md.
    private static let example = {
        var ack = AckPacket(
            sender: SenderID(rawValue: 77), epoch: SenderEpoch(rawValue: 0x19AA_0B4E_1001_2345),
            floor: PacketSequence(rawValue: 9), credit: 500)
        ack.directory = DirectoryID(rawValue: 0x0123_4567_89AB_CDEF)
        ack.commitEpoch = 1_000
        ack.echo = .nonce(0xFEED_5EED_0000_0001)
        ack.sums = EventSums(counted: 1_000, repeated: 3, refusedAndReason: 7 << 56 | 200)
        return ack
    }()

    private static func encode(
        _ ack: AckPacket, words: [UInt64], room: Int = 1 << 14
    ) -> [UInt8] {
        var bytes = [UInt8](repeating: 0xEE, count: room)
        let byteCount = bytes.withUnsafeMutableBytes {
            ack.encode(into: $0, furtherWordCount: words.count - 1) { words[$0] }
        }
        #expect(bytes[byteCount...].allSatisfy { $0 == 0xEE }, "written behind the ack")
        return Array(bytes[..<byteCount])
    }

    /// What a sender makes of a datagram; `nil` if it is not an ack.
    private static func view<Result>(
        _ packet: [UInt8], _ body: (AckView) -> Result
    ) -> Result? {
        packet.withUnsafeBytes { bytes in
            guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender) else {
                return nil
            }
            return AckView(header, of: bytes).map(body)
        }
    }

    // MARK: Bytes

    @Test func `The page's ack is the golden file, and is what is encoded`() throws {
        let page = try FormatPage("packet")
        let golden = try Repository.fixture("v1/ack.bin")
        #expect(page.hex(under: "Ack, worked example") == golden)
        #expect(Self.encode(Self.example, words: [0b1010, 1], room: golden.count) == golden)
        let words = Self.view(golden) { view in
            #expect(view.floor == 9)
            #expect(view.credit == 500)
            #expect(view.status == .ok)
            #expect(view.wordCount == 2)
            #expect(view.directory == Self.example.directory && view.commitEpoch == 1_000)
            #expect(view.echo == Self.example.echo && !view.isPending)
            #expect(view.sums == Self.example.sums && view.sums?.reason == .tooOld)
            #expect(view.header.epoch == Self.example.epoch)
            return (0..<view.wordCount).map { view.word($0) }
        }
        #expect(words == [0b1010, 1])
    }

    @Test func `The page's table and states are the code's`() throws {
        let page = try FormatPage("packet")
        #expect(
            page.fields(under: "Ack").map { "\($0.name) \($0.offset)" } == [
                "bitmap \(AckPacket.Offset.bitmap)", "credit \(AckPacket.Offset.credit)",
                "status \(AckPacket.Offset.status)", "directory \(AckPacket.Offset.directory)",
                "commit epoch \(AckPacket.Offset.commitEpoch)",
                "echo \(AckPacket.Offset.echo)", "counted \(AckPacket.Offset.sums)",
                "repeated \(AckPacket.Offset.sums + 8)",
                "refused \(AckPacket.Offset.sums + 16)",
            ])
        #expect(AckPacket.Offset.furtherWords(isAnswer: false) == 40)
        #expect(AckPacket.Offset.furtherWords(isAnswer: true) == 64)
        let states = page.table(under: "Ack", number: 1)
        #expect(states.map { $0["status"] } == AckStatus.allCases.map { "\($0.rawValue)" })
    }

    @Test func `Every field stands where the contract says`() {
        var ack = AckPacket(
            sender: SenderID(rawValue: 0x0807_0605_0403_0201),
            epoch: SenderEpoch(rawValue: 0x1817_1615_1413_1211),
            floor: PacketSequence(rawValue: 0x2827_2625_2423_2221), keyID: 0x3231, hasTag: true,
            credit: 0x4443_4241, status: .beyondWindow)
        ack.isPending = true
        ack.directory = DirectoryID(rawValue: 0x7877_7675_7473_7271)
        ack.commitEpoch = 0x8887_8685_8483_8281
        ack.echo = .nonce(0x9897_9695_9493_9291)
        ack.sums = EventSums(
            counted: 0xA8A7_A6A5_A4A3_A2A1, repeated: 0xB8B7_B6B5_B4B3_B2B1,
            refusedAndReason: 0x08C7_C6C5_C4C3_C2C1)
        let packet = Self.encode(ack, words: [0x5857_5655_5453_5251, 0x6867_6665_6463_6261])
        #expect(Array(packet[..<8]) == Array("IGD1".utf8) + [129, 2 + 4 + 8, 0x31, 0x32])
        #expect(Array(packet[8..<16]) == [UInt8](1...8))
        #expect(Array(packet[16..<24]) == [UInt8](0x11...0x18))
        #expect(Array(packet[24..<32]) == [UInt8](0x21...0x28))
        #expect(Array(packet[32..<36]) == [72, 0, 0, 0])
        #expect(Array(packet[40..<48]) == [UInt8](0x51...0x58))
        #expect(Array(packet[48..<52]) == [UInt8](0x41...0x44))
        #expect(Array(packet[52..<56]) == [4, 0, 0, 0])
        #expect(Array(packet[56..<64]) == [UInt8](0x71...0x78))
        #expect(Array(packet[64..<72]) == [UInt8](0x81...0x88))
        #expect(Array(packet[72..<80]) == [UInt8](0x91...0x98))
        #expect(Array(packet[80..<88]) == [UInt8](0xA1...0xA8))
        #expect(Array(packet[88..<96]) == [UInt8](0xB1...0xB8))
        #expect(Array(packet[96..<104]) == [UInt8](0xC1...0xC7) + [8])
        #expect(Array(packet[104...]) == [UInt8](0x61...0x68))
        // The tag is behind that: without it the packet is too short, with it whole.
        #expect(Self.view(packet) { _ in } == nil)
        let tagged = packet + [UInt8](repeating: 7, count: 16)
        #expect(
            tagged.count
                == AckPacket.byteCount(furtherWordCount: 1, hasTag: true, isAnswer: true))
        #expect(Self.view(tagged) { $0.header.keyID } == 0x3231)
        let flags = Self.view(tagged) { view in [view.isPending, view.header.echoesNonce] }
        #expect(flags == [true, true])
        (ack.isPending, ack.echo) = (false, .sequence(5))
        let other = Self.encode(ack, words: [0]) + [UInt8](repeating: 7, count: 16)
        #expect(other[5] == 2)
        #expect(Self.view(other) { $0.echo } == .sequence(5))
        #expect(Self.view(other) { $0.sums } == .some(nil))
        #expect(other.count == 96)
    }

    // MARK: Sizes

    @Test func `An ack is 80 bytes, 96 with tag, and 8 a word, up to a whole window`() {
        #expect(AckPacket.byteCount(furtherWordCount: 0, hasTag: false) == 80)
        #expect(AckPacket.byteCount(furtherWordCount: 0, hasTag: true) == 96)
        let table: [(byteCount: Int, plain: Int?, tagged: Int?)] = [
            (0, nil, nil), (79, nil, nil), (80, 0, nil), (87, 0, nil), (88, 1, nil), (95, 1, nil),
            (96, 2, 0), (1_452, 171, 169), (80 + 8 * 1_023 - 1, 1_022, 1_020),
            (80 + 8 * 1_023, 1_023, 1_021), (65_507, 1_023, 1_023),
        ]
        for row in table {
            let plain = AckPacket.furtherWordCount(fitting: row.byteCount, hasTag: false)
            let tagged = AckPacket.furtherWordCount(fitting: row.byteCount, hasTag: true)
            #expect(plain == row.plain, "\(row.byteCount)")
            #expect(tagged == row.tagged, "\(row.byteCount) with tag")
            if let tagged {
                let used = AckPacket.byteCount(furtherWordCount: tagged, hasTag: true)
                #expect(used <= row.byteCount)
            }
        }
    }

    @Test
    func `An answer to a heartbeat is 24 bytes longer, and no longer than the least heartbeat`() {
        for (byteCount, plain, tagged) in [(103, nil, nil), (104, 0, nil), (120, 2, 0)]
            as [(_, Int?, Int?)]
        {
            for (hasTag, expected) in [(false, plain), (true, tagged)] {
                let count = AckPacket.furtherWordCount(
                    fitting: byteCount, hasTag: hasTag, isAnswer: true)
                #expect(count == expected, "\(byteCount)")
            }
        }
        let header = PacketHeader(
            kind: .heartbeat, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
            sequence: PacketSequence(rawValue: 3))
        #expect(Heartbeat(base: 0).packet(header).count == 104)
    }

    @Test func `Only 40 bytes, of an answer 64, and whole words, up to 1023, are an ack`() {
        for (flags, least) in [(UInt8(0), 40), (PacketHeader.Flags.echoesNonce, 64)] {
            var header = PacketHeader(
                kind: .ack, flags: flags, sender: SenderID(rawValue: 1),
                epoch: SenderEpoch(rawValue: 2), sequence: PacketSequence(rawValue: 3))
            let taken = (0...8_300).filter { payloadByteCount in
                var packet = [UInt8](repeating: 0, count: 40 + payloadByteCount)
                header.seal(&packet)
                return Self.view(packet) { $0.wordCount } != nil
            }
            #expect(taken == (0...1_023).map { least + 8 * $0 })
        }
    }

    // MARK: What became of the events

    @Test func `Events are summed up by what became of them, with the reason that most have`() {
        var events = [UInt64](repeating: 0, count: Verdict.allCases.count)
        #expect(EventSums(events) == EventSums())
        #expect(EventSums(events).reason == nil)
        for (index, verdict) in Verdict.allCases.enumerated() {
            events[Int(verdict.rawValue)] = UInt64(index + 1)
        }
        let sums = EventSums(events)
        #expect(sums.counted == 1 && sums.repeated == 4 + 5 + 6)
        #expect(sums.refused == 2 + 3 + 7 + 8 + 9 + 10 + 11 + 12 + 13)
        #expect(sums.reason == .malformed)
        events[Int(Verdict.tooOld.rawValue)] = 1 << 60
        #expect(EventSums(events).refused == 1 << 56 - 1 && EventSums(events).reason == .tooOld)
        for code in [0, 3, 200] as [UInt64] {
            let sums = EventSums(counted: 0, repeated: 0, refusedAndReason: code << 56 | 5)
            #expect(sums.reason == nil && sums.refused == 5)
        }
    }

    // MARK: Bits

    @Test func `Every bit of every word is found in its place`() {
        for bit in 0..<256 {
            var words = [UInt64](repeating: 0, count: 4)
            words[bit / 64] = 1 << UInt64(bit % 64)
            let found = Self.view(Self.encode(Self.example, words: words)) { view in
                (0..<view.wordCount).map { view.word($0) }
            }
            #expect(found == words)
        }
    }

    @Test func `A status that is not known is given as it is`() {
        var packet = Self.encode(Self.example, words: [0])
        let table: [(UInt8, AckStatus?)] = [
            (3, .refused), (5, .unsupported), (6, .rolledBack), (7, nil), (255, nil),
        ]
        for (number, status) in table {
            packet[52] = number
            let found = Self.view(packet.sealedPacket()) { ($0.status, $0.statusCode) }
            #expect(found?.0 == status)
            #expect(found?.1 == UInt32(number))
        }
    }

    @Test func `Every flipped bit of an ack is refused`() {
        let packet = Self.encode(Self.example, words: [0b1010, 1])
        for bit in 0..<packet.count * 8 {
            var flipped = packet
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(Self.view(flipped) { _ in } == nil, "bit \(bit)")
        }
    }
}
