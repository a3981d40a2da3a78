import IngestFormat
import TestSupport
import Testing

struct FileNameTests {
    private static let names: [(FileName, String)] = [
        (.lock, "LOCK"),
        (.durableMark, "durable-mark"),
        (.reserve, "reserve"), (.leases, "leases"),
        (.aside, "aside"),
        (.segment(SegmentNumber(rawValue: 1)), "0000000001.segment"),
        (.segment(SegmentNumber(rawValue: .max)), "4294967295.segment"),
        (.manifest(Generation(rawValue: 0)), "0000000000.manifest"),
        (.manifest(Generation(rawValue: 9_999_999_999)), "9999999999.manifest"),
        (.manifest(Generation(rawValue: 10_000_000_000)), "10000000000.manifest"),
        (.manifest(Generation(rawValue: .max)), "18446744073709551615.manifest"),
        (.run(.rewards, FileNumber(rawValue: 7)), "0000000007.rewards.run"),
        (.run(.days, FileNumber(rawValue: 8)), "0000000008.days.run"),
        (.run(.rewardDays, FileNumber(rawValue: 9)), "0000000009.reward-days.run"),
        (.run(.names, FileNumber(rawValue: .max)), "18446744073709551615.names.run"),
        (.run(.expired, FileNumber(rawValue: 30)), "0000000030.expired.run"),
        (.run(.expiredNames, FileNumber(rawValue: 31)), "0000000031.expired-names.run"),
        (.run(.expiredNames, FileNumber(rawValue: .max)), "18446744073709551615.expired-names.run"),
        (
            .temporary(.run(.expired, FileNumber(rawValue: 3))), "0000000003.expired.run.tmp"
        ),
        (.temporary(.segment(SegmentNumber(rawValue: 3))), "0000000003.segment.tmp"),
        (.temporary(.run(.days, FileNumber(rawValue: 3))), "0000000003.days.run.tmp"),
        (.temporary(.durableMark), "durable-mark.tmp"),
    ]

    @Test func `every name is made and parsed the same way`() {
        for (name, text) in Self.names {
            #expect(name.text == text)
            #expect(FileName(text) == name)
            #expect(text.utf8.count <= FileName.byteCountMax)
        }
    }

    @Test(arguments: [
        "", ".", "..", "lock", "LOCK ", "LOCK.tmp", "aside.tmp", "reserve.tmp", "Aside",
        "durable-mark.tmp.tmp",
        "0000000000.segment", "4294967296.segment", "00000000001.segment", "000000001.segment",
        "1.segment", "+000000001.segment", "-000000001.segment", "0000000001.SEGMENT",
        "0000000001.segment.tmp.tmp", "0000000001.segment.", "0000000001.segment\0",
        " 0000000001.segment", "0000000001.segment/..", "../0000000001.segment", ".segment",
        "00000000a1.segment", "٠٠٠٠٠٠٠٠٠١.segment", "0000000001.manifest.run",
        "18446744073709551616.manifest", "99999999999999999999.manifest",
        "00000000000.manifest", "0000000000.rewards.run", "0000000001.run", "0000000001.run.tmp",
        "0000000001.reward_days.run", "0000000001.rewards.runs", "0000000001..rewards.run",
        "0000000000.expired.run", "0000000001.expired", "0000000001.footer",
        ".tmp", "x.tmp", "0000000001.segment\u{301}", "０000000001.segment",
    ])
    func `a name that ingestd does not make is not parsed`(text: String) {
        #expect(FileName(text) == nil)
    }

    @Test func `very long names are refused at once`() {
        #expect(FileName(String(repeating: "0", count: 1 << 20) + ".segment") == nil)
    }

    @Test func `names of one kind sort as their numbers do`() {
        let numbers: [UInt64] = [1, 2, 9, 10, 99, 1_000, 123_456, 9_999_999_999]
        let texts = numbers.map { FileName.run(.days, FileNumber(rawValue: $0)).text }
        #expect(texts == texts.sorted())
    }

    @Test func `whatever is parsed is spelled in one way only`() {
        var random = SeededRandom(seed: 11)
        let alphabet = Array("0123456789.segmntarwdyuifLOCK-p ")
        let known = Self.names.map(\.1)
        for _ in 0..<20_000 {
            var text = Array(known.randomElement(using: &random)!)
            for _ in 0..<Int.random(in: 1...2, using: &random) {
                let place = Int.random(in: 0..<text.count, using: &random)
                text[place] = alphabet.randomElement(using: &random)!
            }
            if let name = FileName(String(text)) { #expect(name.text == String(text)) }
        }
    }
}
