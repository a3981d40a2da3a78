import IngestFormat
import Testing

@testable import IngestPipeline

/// Senders that come and go: what one tenant's are known by, and that they shut out nobody else's.
@Suite("Tombstones, and senders of heartbeats alone")
struct TombstoneTests {
    /// Epochs of a key that have all ended.
    private static func ended(_ count: Int, of keyID: UInt16) -> SenderWindows {
        var windows = SenderWindows()
        for sender in 1...UInt64(count) {
            var entry = LedgerEntry(key: WindowBench.key(sender))
            (entry.window.start, entry.window.keyID, entry.window.isExpired) = (0, keyID, true)
            windows.apply([entry], at: 0)
        }
        return windows
    }

    @Test("Nor is a sender told that it may send while its key has all its windows")
    func allWindows() {
        var bench = WindowBench(quotas: KeyQuotas.Bounds(windowCountMax: 1))
        bench.keyID = 1
        #expect(bench.send(0, acks: false) == .accepted)
        bench.key = WindowBench.key(8)
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.refusals().map(\.status) == [.busy])
        // What it has heard of is gone, which it has to know first.
        #expect(bench.heartbeat(next: 9, base: 0, seen: 5) == nil)
        #expect(bench.refusals().map(\.status) == [.rolledBack])
        #expect(bench.send(0) == .shed)
        #expect(bench.refusals().map(\.status) == [.busy])
        // One that is silent for long makes room, for the heartbeat too.
        bench.advance(milliseconds: 601_000)
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.refusals().isEmpty && bench.windows.unopened.count == 1)
        #expect(bench.send(0) == .accepted)
    }

    @Test("W7: a key whose tombstones are full of young ones gets no new senders, other keys do")
    func full() {
        let log = Self.ended(Limits.expiredEpochOfKeyCountMax, of: 1)
        var bench = WindowBench(log)
        func send(_ sender: UInt64, _ keyID: UInt16) -> PacketResult {
            let time = UInt64(bench.now.wallMicroseconds / 1_000)
            bench.key = WindowBench.key(sender, milliseconds: time)
            bench.keyID = keyID
            return bench.send(0)
        }
        bench.advance(milliseconds: 1)
        #expect(send(1 << 20, 1) == .shed)
        #expect(bench.windows.sheds[.endedEpochs].count == 1)
        #expect(bench.windows.sheds[.endedEpochs].lastKey == 1)
        // Nor is it told by its heartbeats that it may send.
        #expect(bench.refusals().map(\.status) == [.busy])
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.refusals().map(\.status) == [.busy] && bench.windows.unopened.count == 0)
        #expect(send(2 << 20, 2) == .accepted)
        #expect(send(3 << 20, 0) == .accepted)
        // Of a sender of the same id, but of another tenant, no older epoch has ended.
        bench.key = WindowBench.key(5, milliseconds: WindowBench.milliseconds - 1)
        for (keyID, result) in [(1, .oldEpoch), (2, .accepted)] as [(UInt16, PacketResult)] {
            bench.keyID = keyID
            #expect(bench.send(0) == result)
        }
        bench.advance(milliseconds: ExpiredEpochs.millisecondsMin)
        #expect(send(1 << 20, 1) == .accepted)
    }

    @Test("who has another key is not told the epochs of a key's senders")
    func othersEpochs() {
        var bench = WindowBench()
        bench.keyID = 1
        let open = bench.key
        #expect(bench.send(0) == .accepted)
        bench.dropAcks()
        for keyID in [1, 2] as [UInt16] {
            bench.keyID = keyID
            bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 600_001)
            #expect(bench.send(0) == .oldEpoch)
            let own = bench.key.epoch
            // It says an epoch of its own, or one of the key's that is later than its own.
            #expect(bench.refusals().map(\.epoch) == [own])
            bench.key = WindowBench.key(
                7, milliseconds: WindowBench.milliseconds - 5 + UInt64(keyID))
            #expect(bench.send(0) == .accepted)
            bench.dropAcks()
            bench.keyID = 0
            #expect(bench.heartbeat(next: 1, base: 1, ends: true) == nil)
            bench.dropAcks()
            bench.keyID = keyID
            #expect(bench.send(1) == .oldEpoch)
            let known = bench.refusals().map(\.epoch)
            #expect(known == [keyID == 1 ? open.epoch : bench.key.epoch])
        }
    }

    @Test("an idle window is not closed where a tombstone would be folded that is too young")
    func kept() {
        var bench = WindowBench(Self.ended(Limits.expiredEpochOfKeyCountMax - 1, of: 1))
        bench.keyID = 1
        for sender in [1, 1 << 20, 2 << 20] as [UInt64] {
            bench.key = WindowBench.key(sender, milliseconds: WindowBench.milliseconds + 1)
            #expect(bench.send(0) == .accepted)
            bench.dropAcks()
        }
        func ends(_ sender: UInt64) -> Bool {
            bench.key = WindowBench.key(sender, milliseconds: WindowBench.milliseconds + 1)
            #expect(bench.heartbeat(next: 1, base: 1, ends: true) == nil)
            return bench.windows.window(of: bench.key) == nil
        }
        // The first is known by an epoch of before, the second takes the last place.
        bench.keyID = 0
        #expect(ends(1) && ends(1 << 20) && !ends(2 << 20))
        bench.advance(milliseconds: ExpiredEpochs.millisecondsMin)
        #expect(ends(2 << 20))
        #expect(bench.windows.expired.ofKeys[1]?.watermark == WindowBench.key(1).epoch.rawValue)
    }

    // MARK: Heartbeats alone

    @Test("W8: heartbeats alone open no window, and are answered with 64 packets of no pool")
    func heartbeats() {
        var bench = WindowBench(creditByteCount: 10)
        #expect(bench.heartbeat(next: 8, base: 5, nonce: 4) == nil)
        let answer = bench.takeAcks()
        #expect(answer.map(\.status) == [.ok] && answer.map(\.echo) == [.nonce(4)])
        #expect(answer.map(\.credit) == [64] && answer.map(\.floor) == [5])
        #expect(bench.takeLedger().isEmpty && bench.windows.table.entries.isEmpty)
        // It has heard of its own base, and of no more.
        #expect(bench.heartbeat(next: 8, base: 6, seen: 5) == nil)
        #expect(bench.takeAcks().map(\.floor) == [6])
        #expect(bench.heartbeat(next: 8, base: 6, seen: 7) == nil)
        #expect(bench.acks().map(\.status) == [.rolledBack])
        #expect(bench.send(7) == .accepted)
        let window = bench.windows.window(of: bench.key)
        #expect(window?.start == 6 && window?.announced == 8 && window?.openCount == 1)
        #expect(bench.windows.unopened.count == 0)
        #expect(bench.acks().map(\.floor) == [6])
    }

    @Test("of senders of heartbeats alone the one that was silent longest goes")
    func leastRecent() {
        var bench = WindowBench()
        func hears(_ sender: UInt64) -> Bool {
            bench.key = WindowBench.key(sender)
            return bench.heartbeat(next: 5, base: 3) == nil && bench.takeAcks().count == 1
        }
        for sender in 1...UInt64(Limits.unopenedSenderCountMax) { #expect(hears(sender)) }
        // The first is heard again, so that the second goes.
        #expect(hears(1) && hears(1 << 20))
        #expect(bench.windows.unopened.count == Limits.unopenedSenderCountMax)
        for (sender, start) in [(1, 3), (1 << 20, 3), (2, 0), (3, 3)] as [(UInt64, UInt64)] {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(4) == .accepted)
            #expect(bench.windows.window(of: bench.key)?.start == start)
        }
        // A flood of them takes no window, and forgets nobody who has one.
        for sender in 1...20_000 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(1 << 32 + sender)
            _ = bench.heartbeat(next: 0, base: 0)
        }
        #expect(bench.windows.table.entries.count == 4)
        #expect(bench.windows.unopened.count == Limits.unopenedSenderCountMax)
        bench.key = WindowBench.key(3)
        #expect(bench.send(4) == .resend)
    }

    @Test("without acks a window begins where the first heartbeats said, if they were near")
    func withoutAcks() {
        var bench = WindowBench()
        #expect(bench.heartbeat(next: 4, base: 0, acks: false) == nil)
        #expect(bench.heartbeat(next: 9, base: 0, acks: false) == nil)
        #expect(bench.send(8, acks: false) == .accepted)
        var window = bench.windows.window(of: bench.key)
        #expect(window?.start == 0 && window?.announced == 9)
        bench.key = WindowBench.key(8)
        #expect(bench.heartbeat(next: 4, base: 0, acks: false) == nil)
        #expect(bench.heartbeat(next: 1 << 40, base: 0, acks: false) == nil)
        #expect(bench.send(1 << 40, acks: false) == .accepted)
        window = bench.windows.window(of: bench.key)
        #expect(window?.start == 1 << 40 - 65_536 && bench.acks().isEmpty)
    }
}
