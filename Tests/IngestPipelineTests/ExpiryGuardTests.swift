import IngestFormat
import Testing

@testable import IngestPipeline

/// What it costs to close windows for good, by how often the table of expired epochs is gone through.
struct ExpiryGuardTests {
    /// Windows of a log that has as many expired epochs as it keeps one by one.
    private func fullOfExpired(aheadMilliseconds: UInt64) -> SenderWindows {
        var windows = SenderWindows()
        for sender in 1...UInt64(Limits.expiredEpochCountMax) {
            let key = WindowBench.key(
                sender, milliseconds: WindowBench.milliseconds - 1_000 + aheadMilliseconds)
            var entry = LedgerEntry(key: key)
            entry.window.isExpired = true
            windows.apply([entry], at: 0)
        }
        return windows
    }

    @Test("a full table of expired epochs is not gone through for each window that is closed")
    func expiryOfKnownSenders() {
        var bench = WindowBench(fullOfExpired(aheadMilliseconds: 0))
        // As many senders as one block closes, all of them known; then as many that are not.
        for first in [1, 1 << 20] as [UInt64] {
            for sender in first..<first + 8_000 {
                bench.key = WindowBench.key(
                    sender, milliseconds: UInt64(bench.now.wallMicroseconds / 1_000))
                if bench.send(0, acks: false) != .accepted { Issue.record("sender \(sender)") }
            }
            _ = bench.takeLedger()
            bench.advance(milliseconds: 8 * 86_400_000)
            bench.expire()
            #expect(bench.takeLedger().count == 8_000)
            #expect(bench.windows.table.entries.count == 0)
            #expect(bench.windows.expiry.passCount == (first == 1 ? 0 : 1))
        }
    }

    @Test("while none may be closed, that is looked at once a second and not with every packet")
    func expiryThatWaits() {
        var bench = WindowBench(fullOfExpired(aheadMilliseconds: 80_000_000))
        let ahead = WindowBench.milliseconds + 80_000_000
        for sender in 1...UInt64(Limits.windowCountMax) {
            bench.key = WindowBench.key(sender + 1 << 20, milliseconds: ahead)
            if bench.send(0, acks: false) != .accepted { Issue.record("sender \(sender)") }
            if sender % 1_000 == 0 { _ = bench.takeLedger() }
        }
        _ = bench.takeLedger()
        bench.advance(milliseconds: 601_000)
        for sender in 0..<50 as Range<UInt64> {
            bench.key = WindowBench.key(1 << 40 + sender, milliseconds: ahead)
            #expect(bench.send(0, acks: false) == .shed)
            bench.advance(milliseconds: 100)
        }
        #expect((1...5).contains(bench.windows.expiry.passCount))
    }
}
