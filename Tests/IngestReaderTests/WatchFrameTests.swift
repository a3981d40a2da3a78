import IngestFormat
import Testing

@testable import IngestReader
@testable import IngestReaderTool

@Suite struct WatchFrameTests {
    private static func sample(_ seconds: Double, _ impressions: [String: UInt64]) -> WatchSample {
        var totals = LogTotals()
        totals.add([
            {
                var entry = LedgerEntry(
                    key: SenderKey(
                        kind: .framed, sender: SenderID(rawValue: 1),
                        epoch: SenderEpoch(rawValue: 1)))
                entry.packets[0] = 4
                entry.events[0] = impressions.values.reduce(0, +)
                return entry
            }()
        ])
        let rows = impressions.sorted { $0.value > $1.value }.map { id, count in
            var row = CounterRow()
            row[.impressions] = count
            return RewardRow(
                id: id, businessID: "shop", businessCount: 1, counters: Counters(row))
        }
        return WatchSample(
            wallMicroseconds: 1_795_168_800_000_000, seconds: seconds,
            cut: Cut(segment: 3, block: 7), totals: totals, rows: rows)
    }

    @Test("A frame says where the log stands, what came since the last one, and the table")
    func frame() {
        let first = Self.sample(10, ["a": 5, "b": 3])
        let second = Self.sample(12, ["a": 15, "new": 7, "b": 3])
        let lines = WatchFrame.lines(second, since: first, directory: "/d\n", columnCount: nil)
        #expect(
            lines == [
                "/d\\n at 2026-11-20T10:00:00Z, segment 3 block 7",
                "events 25 (9/s): counted 25", "packets 4 (0/s): accepted 4", "",
                "id   businessId  impressions  clicks  redemptions  per second     ctr  revenue  spend",
                "a    shop                 15       0            0           5  0.0000     0.00   0.00",
                "new  shop                  7       0            0           -  0.0000     0.00   0.00",
                "b    shop                  3       0            0           0  0.0000     0.00   0.00",
            ])
        let alone = WatchFrame.lines(first, since: nil, directory: "d", columnCount: nil)
        #expect(alone[1] == "events 8: counted 8")
        #expect(WatchFrame.otherLineCount > lines.count - second.rows.count)
        let empty = WatchFrame.lines(
            Self.sample(1, [:]), since: nil, directory: "d", columnCount: nil)
        #expect(empty.last == "no rewards yet" && empty[1] == "events 0")
    }

    @Test("A reward of several businesses is not shown as if it were the first one's")
    func businesses() {
        var sample = Self.sample(1, [:])
        let row = RewardRow(
            id: "a", businessID: "shop", businessCount: 3, counters: Counters(CounterRow()))
        sample = WatchSample(
            wallMicroseconds: 0, seconds: 1, cut: sample.cut, totals: sample.totals, rows: [row])
        let lines = WatchFrame.lines(sample, since: nil, directory: "d", columnCount: nil)
        #expect(lines.last?.hasPrefix("a   shop +2 ") == true, "\(lines)")
    }

    @Test("Lines are cut to the columns of the terminal, wide characters counted as two")
    func cut() {
        let sample = Self.sample(1, ["漢字漢字": 1])
        for columnCount in 1...40 {
            let lines = WatchFrame.lines(
                sample, since: nil, directory: "d", columnCount: columnCount)
            #expect(lines.allSatisfy { TerminalText.width($0) <= columnCount })
        }
        #expect(TerminalText.prefix("漢字", width: 3) == "漢")
        #expect(TerminalText.prefix("e\u{301}e", width: 1) == "e\u{301}")
        #expect(TerminalText.prefix("abc", width: 3) == "abc")
    }
}
