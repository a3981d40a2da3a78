import IngestFormat
import Testing

@testable import IngestPipeline

@Suite("What became of the events of an epoch, in answers to heartbeats")
struct EventSumTests {
    private static func sums(
        _ counted: UInt64, _ repeated: UInt64, _ refused: UInt64, _ reason: Verdict? = nil
    ) -> EventSums {
        EventSums(
            counted: counted, repeated: repeated,
            refusedAndReason: UInt64(reason?.rawValue ?? 0) << 56 | refused)
    }

    @Test("An answer has the sums of what is durable, a pending one those of before, an ack none")
    func durable() {
        var bench = WindowBench()
        #expect(bench.heartbeat(next: 0, base: 0) == nil)
        #expect(bench.takeAcks().map(\.sums) == [EventSums()])
        #expect(bench.send(0, [.counted, .counted, .duplicate, .tooOld]) == .accepted)
        #expect(bench.heartbeat(next: 1, base: 0, nonce: 2) == nil)
        // At once, that it is pending; then with the commit, whose block is not durable before.
        let first = bench.takeAcks()
        #expect(first.map(\.isPending) == [true] && first.map(\.sums) == [EventSums()])
        let acked = bench.acks()
        #expect(acked.map(\.sums) == [Self.sums(2, 1, 1, .tooOld)])
        #expect(acked.map(\.echo) == [.nonce(2)])

        #expect(bench.send(1, [.counted, .noConsent, .noConsent, .conflict]) == .accepted)
        #expect(bench.acks().map(\.sums) == [nil])
        #expect(bench.send(2, [.sessionRepeat]) == .accepted)
        bench.close()
        #expect(bench.heartbeat(next: 3, base: 2, nonce: 3) == nil)
        let pending = bench.takeAcks().filter(\.isPending)
        #expect(pending.map(\.sums) == [Self.sums(3, 2, 3, .noConsent)])
        _ = bench.acks()
        #expect(bench.heartbeat(next: 3, base: 3, nonce: 4) == nil)
        _ = bench.acks()
        #expect(bench.heartbeat(next: 3, base: 3, nonce: 5) == nil)
        #expect(bench.takeAcks().map(\.sums) == [Self.sums(3, 3, 3, .noConsent)])
    }

    @Test("Resends and refused packets add nothing, and senders and epochs are apart")
    func apart() {
        var bench = WindowBench()
        #expect(bench.send(0, [.counted]) == .accepted)
        _ = bench.acks()
        #expect(bench.send(0, [.counted]) == .resend)
        #expect(bench.send(0, check: 9, [.counted]) == .sequenceConflict)
        _ = bench.acks()
        let first = bench.key
        for (key, verdict) in [
            (WindowBench.key(8), .tooEarly), (WindowBench.key(7, milliseconds: 1), .malformed),
        ] as [(SenderKey, Verdict)] {
            bench.key = key
            #expect(bench.send(0, [verdict, verdict]) == .accepted)
            _ = bench.acks()
            #expect(bench.heartbeat(next: 1, base: 0, seen: 1) == nil)
            #expect(bench.takeAcks().map(\.sums) == [Self.sums(0, 0, 2, verdict)])
        }
        bench.key = first
        #expect(bench.heartbeat(next: 1, base: 0, seen: 1) == nil)
        #expect(bench.takeAcks().map(\.sums) == [Self.sums(1, 0, 0)])
    }

    @Test("The log has the sums: after a start they go on, and the end of the epoch tells all")
    func log() {
        var bench = WindowBench()
        #expect(bench.send(0, [.counted, .counted]) == .accepted)
        #expect(bench.send(1, [.wrongBusiness, .duplicate]) == .accepted)
        _ = bench.acks()
        var fromLog = SenderWindows()
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        #expect(fromLog.open[bench.key]?.events == bench.windows.window(of: bench.key)?.events)
        var again = WindowBench(fromLog)
        #expect(again.heartbeat(next: 2, base: 2, seen: 2) == nil)
        #expect(again.takeAcks().map(\.sums) == [Self.sums(2, 1, 1, .wrongBusiness)])
        #expect(again.send(2, [.notViewable, .notViewable]) == .accepted)
        _ = again.acks()
        #expect(again.heartbeat(next: 3, base: 3, seen: 3) == nil)
        _ = again.acks()
        #expect(again.heartbeat(next: 3, base: 3, seen: 3, nonce: 9, ends: true) == nil)
        #expect(again.windows.window(of: again.key) == nil)
        let end = again.acks()
        #expect(end.map(\.status) == [.ok] && end.map(\.echo) == [.nonce(9)])
        #expect(end.map(\.sums) == [Self.sums(2, 1, 3, .notViewable)])
    }

    @Test(
        "Beside a batch too small for an answer, a heartbeat makes room for it, but not one from elsewhere"
    )
    func room() {
        var bench = WindowBench()
        #expect(bench.send(0, byteCount: 80, [.counted]) == .accepted)
        #expect(bench.heartbeat(next: 1, base: 0, nonce: 2) == nil)
        #expect(bench.takeAcks().map(\.isPending) == [true])
        #expect(bench.send(1, byteCount: 80, [.counted]) == .accepted)
        #expect(bench.heartbeat(next: 2, base: 1, nonce: 3) == nil)
        let acks = bench.acks()
        #expect(acks.last?.echo == .nonce(3) && acks.last?.sums == Self.sums(2, 0, 0))
        // The ack goes to where the batch came from, which sent nothing as large as an answer.
        #expect(bench.send(2, byteCount: 80, [.counted]) == .accepted)
        #expect(bench.heartbeat(next: 3, base: 3, nonce: 4, port: 2) == nil)
        #expect(bench.send(3, byteCount: 80, [.counted]) == .accepted)
        let other = bench.acks().last
        #expect(other?.floor == 4 && other?.echo == .sequence(3) && other?.isPending == false)
    }
}
