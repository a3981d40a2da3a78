import IngestFormat
import Testing

@testable import IngestVerify

/// What `verify` makes of the windows in footers behind a part of the log that is lost.
@Suite("Windows behind a lost part")
struct WindowBeliefTests {
    /// A segment without blocks whose footer has one window, of sequences from `start` on.
    private func segment(_ number: UInt32, start: UInt64) -> SegmentRecount {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 7), epoch: SenderEpoch(rawValue: 9)))
        entry.sequences = [start...start]
        entry.window.start = start
        var windows = SenderWindows()
        windows.apply([entry], at: 1)
        var segment = SegmentRecount(SegmentNumber(rawValue: number))
        segment.footerWindows = WindowRecount.Stored(windows: windows, offset: 128)
        return segment
    }

    private func differenceCount(_ starts: [UInt64]) -> Int {
        var (recount, report) = (WindowRecount(), VerifyReport())
        recount.forget()
        for (index, start) in starts.enumerated() {
            recount.add(segment(UInt32(index + 1), start: start), &report)
        }
        return report.differenceCount
    }

    @Test("a second footer that differs is believed, a third is reported, and each behind it")
    func third() {
        #expect(differenceCount([1]) == 0)
        #expect(differenceCount([1, 1, 1, 1]) == 0)
        #expect(differenceCount([1, 2, 2, 2]) == 0)
        #expect(differenceCount([1, 1, 2]) == 1)
        #expect(differenceCount([1, 2, 3]) == 1)
        #expect(differenceCount([1, 2, 3, 4, 5]) == 3)
    }
}
