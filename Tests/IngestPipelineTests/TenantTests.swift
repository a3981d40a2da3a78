import IngestFormat
import Testing

@testable import IngestPipeline

/// What the senders of one key do, and what it costs those of another: nothing but a place in bounds that each has a part of.
@Suite("Tenants")
struct TenantTests {
    private static func key(_ sender: UInt64, later milliseconds: UInt64 = 0) -> SenderKey {
        WindowBench.key(sender, milliseconds: WindowBench.milliseconds + milliseconds)
    }

    /// Sends a batch of an epoch.
    private static func send(
        _ bench: inout WindowBench, _ key: SenderKey, of keyID: UInt16, _ sequence: UInt64 = 0
    ) -> PacketResult {
        (bench.key, bench.keyID) = (key, keyID)
        defer { bench.dropAcks() }
        return bench.send(sequence)
    }

    /// An epoch of one packet that ends.
    private static func live(_ bench: inout WindowBench, _ key: SenderKey, of keyID: UInt16) {
        #expect(send(&bench, key, of: keyID) == .accepted)
        bench.keyID = 0
        #expect(bench.heartbeat(next: 1, base: 1, ends: true) == nil)
        bench.dropAcks()
        #expect(bench.windows.window(of: key) == nil)
    }

    // MARK: Keys that are replaced

    @Test(
        "W7: what ended under a key has ended under the one that replaces it, whichever epoch it was"
    )
    func rotation() {
        for (keys, sender) in [
            (WindowBench.keys(1...2, of: 7), UInt64(7)), (WindowBench.keys(2...2), 8),
        ] {
            var bench = WindowBench(keys: keys)
            Self.live(&bench, Self.key(sender, later: 1), of: 1)
            Self.live(&bench, Self.key(sender, later: 3), of: 1)
            for milliseconds in 0...3 as ClosedRange<UInt64> {
                let epoch = Self.key(sender, later: milliseconds)
                #expect(
                    Self.send(&bench, epoch, of: 2) == .oldEpoch, "\(milliseconds) of \(sender)")
            }
            #expect(Self.send(&bench, Self.key(sender, later: 4), of: 2) == .accepted)
        }
    }

    @Test("while two keys for any sender are live, neither ends the other's epochs")
    func othersEnds() {
        var bench = WindowBench()
        Self.live(&bench, Self.key(7, later: 500_000), of: 1)
        // That very epoch is over for all, an older one of another tenant's sender of the same id is not.
        #expect(Self.send(&bench, Self.key(7, later: 500_000), of: 2) == .oldEpoch)
        #expect(Self.send(&bench, Self.key(7), of: 2) == .accepted)
        // Once the key is gone, nobody is left who could harm by it.
        bench = WindowBench(keys: WindowBench.keys(1...2))
        Self.live(&bench, Self.key(7, later: 500_000), of: 1)
        bench.windows.keyRing?.replace(by: WindowBench.keysFile(2...2))
        #expect(Self.send(&bench, Self.key(7), of: 2) == .oldEpoch)
    }

    // MARK: Epochs

    @Test("W8: a key begins so many epochs a minute, ten minutes' worth at once, and others go on")
    func epochs() {
        var bench = WindowBench(quotas: KeyQuotas.Bounds(epochsPerMinute: 2))
        for sender in 1...20 as ClosedRange<UInt64> {
            #expect(Self.send(&bench, Self.key(sender), of: 1) == .accepted)
        }
        #expect(Self.send(&bench, Self.key(21), of: 1) == .shed)
        #expect(
            bench.windows.sheds[.epochs].count == 1 && bench.windows.sheds[.epochs].lastKey == 1)
        // Nor do heartbeats say that it may send; known windows go on, as do other keys.
        (bench.key, bench.keyID) = (Self.key(21), 1)
        #expect(bench.heartbeat(next: 0, base: 0) == nil)
        #expect(bench.refusals().map(\.status) == [.busy])
        #expect(Self.send(&bench, Self.key(20), of: 1, 1) == .accepted)
        #expect(Self.send(&bench, Self.key(22), of: 2) == .accepted)
        bench.advance(milliseconds: 30_000)
        #expect(Self.send(&bench, Self.key(21), of: 1) == .accepted)
        #expect(Self.send(&bench, Self.key(23), of: 1) == .shed)
    }

    @Test("all keys together have bounded tombstones, and each its part")
    func manyKeys() {
        var expired = ExpiredEpochs()
        let (keyCount, time) = (Limits.expiredEpochOfKeysCountMax / 64, WindowBench.milliseconds)
        for keyID in 2...UInt16(keyCount) { expired.add(Self.key(UInt64(keyID)), of: keyID) }
        for sender in 1...64 as ClosedRange<UInt64> {
            #expect(expired.hasRoom(for: Self.key(1 << 20 + sender), of: 1, at: time))
            expired.add(Self.key(1 << 20 + sender), of: 1)
        }
        #expect(!expired.hasRoom(for: Self.key(1 << 21), of: 1, at: time))
        #expect(expired.hasRoom(for: Self.key(1 << 21), of: 2, at: time))
    }

    // MARK: Memory

    @Test("W8: windows of one key take an eighth of the memory, and of the places for checks")
    func memory() {
        var bench = WindowBench()
        // Each with a hole that keeps its floor down, and as many packets as have checks.
        var isShed = false
        for sender in 1...4_096 as ClosedRange<UInt64> where !isShed {
            #expect(Self.send(&bench, Self.key(sender), of: 1, 1) == .accepted)
            isShed = Self.send(&bench, Self.key(sender), of: 1, 65_535) == .shed
            if sender % 1_000 == 0 { _ = bench.takeLedger() }
        }
        let part = Limits.windowByteCountMax / Limits.windowPartOfKey
        #expect(isShed && bench.windows.table.byteCount <= part)
        #expect(bench.windows.sheds[.windows].count == 1 && bench.windows.sheds.forRoom == 0)
        _ = bench.takeLedger()
        // Another's window is as large as any.
        #expect(Self.send(&bench, Self.key(1 << 20), of: 2, 1) == .accepted)
        #expect(Self.send(&bench, Self.key(1 << 20), of: 2, 65_535) == .accepted)

        var shares = KeyShares(countMax: 80)
        shares.add(10, of: 1)
        #expect(shares.room(of: 1) == 0 && shares.room(of: 2) == 10 && shares.room(of: 0) == 70)
        shares.add(65, of: 0)
        #expect(shares.room(of: 2) == 5)
        shares.add(-10, of: 1)
        #expect(shares.room(of: 1) == 10 && shares.count == 65)
    }

    @Test("heartbeats of a key turn out no sender of another's that has sent no batch yet")
    func heartbeats() {
        var bench = WindowBench()
        func hears(_ sender: UInt64, _ keyID: UInt16) {
            (bench.key, bench.keyID) = (Self.key(sender), keyID)
            _ = bench.heartbeat(next: 5, base: 3, acks: false)
        }
        for sender in 1...9 as ClosedRange<UInt64> { hears(sender, 2) }
        // What another says of the same epoch is not of it either.
        (bench.key, bench.keyID) = (Self.key(2), 1)
        _ = bench.heartbeat(next: 50, base: 40, acks: false)
        for sender in 1...30_000 as ClosedRange<UInt64> { hears(1 << 32 + sender, 1) }
        #expect(bench.windows.unopened.count == Limits.unopenedSenderCountMax)
        for sender in 1...9 as ClosedRange<UInt64> {
            (bench.key, bench.keyID) = (Self.key(sender), 2)
            #expect(bench.send(4, acks: false) == .accepted)
            #expect(bench.windows.window(of: bench.key)?.start == 3)
        }
        // A third key has a place too.
        hears(1 << 40, 3)
        #expect(bench.send(4, acks: false) == .accepted)
        #expect(bench.windows.window(of: Self.key(1 << 40))?.start == 3)
    }

    // MARK: Names

    @Test(
        "who waits for names hears so from answers to heartbeats too, and of what is over at once")
    func names() {
        var bench = WindowBench(quotas: KeyQuotas.Bounds(namesPerMinute: 1))
        bench.keyID = 1
        #expect(bench.send(0) == .accepted)
        bench.windows.quotas.take(10, of: 1, at: bench.now.monotonicNanoseconds)
        let packet = bench.packet(1, check: 1, acks: true, byteCount: 200)
        let lacksNames = bench.windows.lacksNames(packet, bench.now)
        guard lacksNames,
            case .new(let place) = bench.windows.consider(batch: packet, bench.now, &bench.ledger)
        else {
            Issue.record("it is new, and its key has no names left")
            return
        }
        let before = bench.windows.status(ofHeartbeat: packet, place.index, bench.now)
        bench.windows.shed(packet, at: place)
        let after = bench.windows.status(ofHeartbeat: packet, place.index, bench.now)
        #expect(before == .ok && after == .busy)
        bench.dropAcks()
        // The same before a window is open.
        bench.key = Self.key(8)
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        let first = bench.packet(0, check: 1, acks: true, byteCount: 200)
        let isShed = bench.windows.shedUnknown(first, bench.now)
        #expect(isShed && bench.refusals().map(\.status) == [.busy])
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.refusals().map(\.status) == [.busy])
        // To wait would not help an epoch that is over.
        Self.live(&bench, Self.key(9), of: 1)
        (bench.key, bench.keyID) = (Self.key(9), 1)
        let over = bench.packet(1, check: 1, acks: true, byteCount: 200)
        let isOverShed = bench.windows.shedUnknown(over, bench.now)
        #expect(!isOverShed && bench.send(1) == .oldEpoch)
        bench.dropAcks()
        bench.advance(milliseconds: 60_001)
        let later = bench.windows.status(ofHeartbeat: packet, place.index, bench.now)
        #expect(later == .ok)
        bench.key = Self.key(8)
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.refusals().isEmpty)
    }
}
