import IngestFormat
import IngestReader
import IngestStorage
import Testing

/// Queries over directories of which the disk lost a part: the whole answer, or an error.
@Suite struct TailDamageTests {
    @Test("Damage in the live segment that whole blocks follow is 65, with a mark and without")
    func followed() throws {
        let fixture = try LogFixture.random(seed: 21, liveBlockCount: 6)
        let name = FileName.segment(fixture.position.segment).text
        let whole = fixture.files.disk.contents(name)!
        for hasMark in [true, false] {
            if !hasMark { try fixture.files.unlink(FileName.durableMark.text) }
            for byte in stride(
                from: SegmentHeader.byteCount + 8, to: fixture.lastBlock.lowerBound, by: 83)
            {
                fixture.flip(name, byte: byte, bit: byte % 8)
                let error = #expect(throws: ReaderError.self, "byte \(byte)") {
                    try fixture.reader
                }
                #expect(error?.kind == .corrupt && error?.path.hasSuffix(name) == true)
                fixture.files.disk.damage(name) { $0 = whole }
            }
        }
    }

    @Test("A mark that cannot be believed is an error, a missing one is not, a newer one is newer")
    func mark() throws {
        let fixture = try LogFixture.random(seed: 22)
        for byte in 0..<64 {
            fixture.flip("durable-mark", byte: byte, bit: byte % 8)
            let error = #expect(throws: ReaderError.self, "byte \(byte)") { try fixture.reader }
            #expect(error?.kind == .corrupt && error?.path.hasSuffix("durable-mark") == true)
            fixture.flip("durable-mark", byte: byte, bit: byte % 8)
        }
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.model)
        try fixture.files.unlink("durable-mark")
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.modelBeforeLastBlock)
    }
}
