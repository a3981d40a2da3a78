import IngestFormat
import IngestReaderTool
import Testing

@testable import IngestReader

/// The estimate of a sender's clock skew in the ledger: the time in its epoch against the admission of its first packet.
@Suite struct ClockSkewTests {
    private static let day: Int64 = 86_400_000
    private static let now: Int64 = 1_763_600_000_000

    private static func row(
        _ kind: SenderKind, sender: UInt64 = 7, skew: Int64, seen: Bool = true
    ) -> LedgerRow {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: kind, sender: SenderID(rawValue: sender),
                epoch: SenderEpoch(
                    rawValue: kind == .framed && sender > 0
                        ? UInt64(Self.now + skew) << 20 | 0xF_FFFF : 0)))
        // The last thousandths of a second of both are left out.
        if seen { entry.seen = Self.now * 1_000 + 999...Self.now * 1_000 + 60_000_000 }
        return LedgerRow(entry, window: nil, uncleanStops: [])
    }

    @Test(
        "It is shown up to a day, ahead or behind",
        arguments: [
            (0, "0.000"), (1, "0.001"), (-1, "-0.001"), (20_000, "20.000"), (-20_500, "-20.500"),
            (day, "86400.000"), (day + 1, nil), (-day, "-86400.000"), (-day - 1, nil),
            (-now, nil),
        ] as [(Int64, String?)])
    func bounds(skew: Int64, text: String?) {
        let row = Self.row(.framed, skew: skew)
        #expect(row.clockSkewMilliseconds == (text == nil ? nil : skew))
        let shown = zip(LedgerRow.columns.map(\.name), row.cells).first {
            $0.0 == "clockSkewSeconds"
        }
        #expect(shown?.1 == text.map { Cell.number($0) } ?? Cell.none)
    }

    @Test("Who has no epoch, and who was never seen, has none")
    func none() {
        for kind in [SenderKind.plain, .http, .unidentified] {
            #expect(Self.row(kind, sender: 0, skew: 0).clockSkewMilliseconds == nil)
        }
        #expect(Self.row(.framed, sender: 0, skew: 0).clockSkewMilliseconds == nil)
        #expect(Self.row(.framed, skew: 0, seen: false).clockSkewMilliseconds == nil)
    }
}
