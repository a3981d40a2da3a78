import IngestFormat
import TestSupport
import Testing

struct DurableMarkTests {
    private static let directory = DirectoryID(rawValue: 0x1122_3344_5566_7788)
    private static let mark = DurableMark(
        directory: directory,
        position: LogPosition(segment: SegmentNumber(rawValue: 3), blockCount: 1234))

    private static let positions = [
        (0, 0), (1, 0), (1, 1), (0xFFFF_FFFF, 0xF_FFFF), (77, 0x8_0001),
    ]
    .map {
        LogPosition(
            segment: SegmentNumber(rawValue: UInt32($0.0)), blockCount: UInt32($0.1))
    }

    @Test func `a mark comes back as it was written`() throws {
        for position in Self.positions {
            let mark = DurableMark(directory: Self.directory, position: position)
            let image = mark.encode()
            #expect(image.count == DurableMark.byteCount)
            #expect(try DurableMark.decode(image, directory: Self.directory) == mark)
            #expect(DurableMark.position(of: DurableMark.value(of: position)) == position)
        }
    }

    @Test func `only the value differs between two marks of a directory`() {
        let images = Self.positions.map {
            DurableMark(directory: Self.directory, position: $0).encode()
        }
        for image in images {
            for place in 0..<64 where !(16..<24).contains(place) {
                #expect(image[place] == images[0][place])
            }
        }
        #expect(DurableMark.valueOffset == 16)
    }

    @Test func `every flipped bit of a mark is seen`() {
        #expect(Damage.unseenFlips(Self.mark.encode()) { _ = try DurableMark.decode($0) } == [])
    }

    @Test func `every cut of a mark is seen`() {
        #expect(Damage.unseenCuts(Self.mark.encode()) { _ = try DurableMark.decode($0) } == [])
    }

    @Test func `any one to four wrong bits of the value are seen`() {
        let value = DurableMark.value(of: Self.mark.position)
        // The check is linear, so whether an error is seen does not depend on the value.
        func isUnseen(_ error: UInt64) -> Bool { DurableMark.position(of: value ^ error) != nil }
        let bits = (0..<64).map { UInt64(1) << UInt64($0) }
        var unseen = 0
        for a in 0..<64 {
            if isUnseen(bits[a]) { unseen += 1 }
            for b in a + 1..<64 {
                if isUnseen(bits[a] | bits[b]) { unseen += 1 }
                for c in b + 1..<64 where isUnseen(bits[a] | bits[b] | bits[c]) { unseen += 1 }
            }
        }
        #expect(unseen == 0)
        var random = SeededRandom(seed: 4)
        for _ in 0..<20_000 {
            let error = (0..<4).reduce(UInt64(0)) { sum, _ in
                sum | bits.randomElement(using: &random)!
            }
            if isUnseen(error) { unseen += 1 }
        }
        #expect(unseen == 0)
    }

    @Test func `zeros are no mark`() {
        #expect(DurableMark.position(of: 0) == nil)
        #expect(DurableMark.position(of: .max) == nil)
    }

    @Test func `the mark of another directory is told apart from a damaged one`() {
        let other = DirectoryID(rawValue: 1)
        let error = Damage.error {
            _ = try DurableMark.decode(Self.mark.encode(), directory: other)
        }
        #expect(error?.summary == "notThisFile directory")
    }
}
