import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// What a sender does while its spool's disk is busy, and how it waits for that.
struct SpoolWorkTests {
    /// A sender whose disk begins to write and ends only when it is told to.
    private static func sender(
        to peer: UDPPeer, _ spool: GatedSpool,
        _ change: (inout SenderStream.Configuration) -> Void = { _ in }
    ) throws -> EventSender {
        let transport = try UDPTransport(address: peer.address)
        var configuration = SenderStream.Configuration(identity: SampleEvents.identity())
        change(&configuration)
        let stream = SenderStream(
            configuration, transport: transport, spool: spool,
            now: SenderClock.monotonicNanoseconds())
        return try EventSender(stream, transport: transport)
    }

    private static func inBackground(_ body: @escaping @Sendable () -> Void) -> DispatchSemaphore {
        let done = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            body()
            done.signal()
        }
        return done
    }

    @Test
    func `S2: Events are taken and acks are heard while the disk syncs, and nothing leaves before`()
        throws
    {
        let peer = UDPPeer()
        let spool = GatedSpool()
        let sender = try Self.sender(to: peer, spool)
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        let flushed = Self.inBackground { try? sender.flush() }
        spool.waitForWrite()
        // Each of these would wait for ever, were the lock held meanwhile.
        for number in 1..<200 { #expect(try sender.send(SampleEvents.event(number)) == .taken) }
        #expect(eventually { sender.loop.state.withLock { $0.stream.acks.hasCredit } })
        #expect(sender.totals.eventsSent == 0 && sender.state == .working)
        #expect(flushed.wait(timeout: .now()) == .timedOut)
        spool.open()
        flushed.wait()
        #expect(try sender.close().eventsAcked == 200)
        let receiver = peer.kill()
        #expect(receiver.faults.isEmpty)
        #expect(try receiver.durableEvents().count == 200)
    }

    @Test
    func `What is sealed meanwhile shares the next write, and a bounded one`() throws {
        let spool = GatedSpool()
        let rig = StreamRig(spool: spool)
        rig.ack(floor: 0)
        spool.open()
        var count = 0
        while rig.stream.queue.byteCount < 5 * SpoolWork.byteCountMax / 2 {
            #expect(rig.stream.send(SampleEvents.event(count), now: rig.now) == .taken)
            count += 1
        }
        rig.stream.flush(now: rig.now)
        let ticket = rig.stream.ticket
        #expect(rig.stream.isHeld(ticket) == nil)
        rig.workOnSpool()
        #expect(rig.stream.isHeld(ticket) == true)
        let writes = spool.writes
        #expect(writes.count == 3)
        #expect(writes.allSatisfy { $0 <= SpoolWork.byteCountMax + 1_200 })
    }

    @Test
    func `An event that shall be durable at once is taken when it is, from several threads`()
        throws
    {
        let peer = UDPPeer()
        let spool = GatedSpool()
        let sender = try Self.sender(to: peer, spool) { $0.isDurableAtSend = true }
        let sends = (0..<3).map { number in
            Self.inBackground {
                let outcome = try? sender.send(SampleEvents.event(number))
                #expect(outcome == .taken)
                #expect(spool.isOpen)
            }
        }
        spool.waitForWrite()
        #expect(sends.allSatisfy { $0.wait(timeout: .now()) == .timedOut })
        spool.open()
        for send in sends { send.wait() }
        #expect(try sender.close().eventsAcked == 3)
        _ = peer.kill()
    }

    @Test func `What was taken back is known as that, also when its sequence is another's by then`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let identity = SampleEvents.identity()
        let opened = try Spool.open(
            files, sender: identity.sender, random: identity.sender, epoch: identity.epoch)
        let rig = StreamRig(spool: opened.spool) { $0.isDurableAtSend = true }
        #expect(rig.send(SampleEvents.event(0)) == .taken)
        let durable = rig.stream.ticket
        #expect(rig.stream.send(SampleEvents.event(1), now: rig.now) == .taken)
        let lost = rig.stream.ticket
        files.disk.limit(byteCount: 0)
        rig.workOnSpool()
        files.disk.limit(byteCount: 1 << 30)
        rig.pass(1_000_000_000)
        #expect(rig.send(SampleEvents.event(2)) == .taken)
        #expect(rig.nextSequence == 2)
        #expect(rig.stream.isHeld(durable) == true && rig.stream.isHeld(lost) == false)
    }

    @Test func `A disk that fills while more waits than one write takes is tried once a second`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let identity = SampleEvents.identity()
        let opened = try Spool.open(
            files, sender: identity.sender, random: identity.sender, epoch: identity.epoch)
        let rig = StreamRig(spool: opened.spool)
        rig.ack(floor: 0)
        var count = 0
        while rig.stream.queue.byteCount < 5 * SpoolWork.byteCountMax / 2 {
            #expect(rig.stream.send(SampleEvents.event(count), now: rig.now) == .taken)
            count += 1
        }
        files.disk.limit(byteCount: 0)
        rig.stream.flush(now: rig.now)
        let ticket = rig.stream.ticket
        // Ends, though more is left.
        rig.workOnSpool()
        #expect(rig.stall != nil && rig.stream.isHeld(ticket) == false)
        let hasWork = rig.stream.hasSpoolWork
        #expect(!hasWork)
        rig.pass(3_000_000_000)
        #expect(rig.stall != nil && rig.nextSequence == 0)
        files.disk.limit(byteCount: 1 << 30)
        rig.pass(1_000_000_000)
        #expect(rig.stall == nil && rig.stream.isHeld(ticket) == true)
    }

    @Test
    func `A close keeps to its limit though the disk takes longer`() throws {
        let peer = UDPPeer()
        let spool = GatedSpool()
        let sender = try Self.sender(to: peer, spool)
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        let late = ClientError.notAcked(events: 1, packets: 1, cause: .deadline)
        #expect(throws: late) { _ = try sender.close(within: .milliseconds(10)) }
        spool.open()
        #expect(try sender.close().eventsAcked == 1)
        _ = peer.kill()
    }

    @Test func `A disk that fails ends the flush, and every call after it`() throws {
        let deaf = UDPPeer(lossPercent: 100)
        let files = SimulatedFileSystem(seed: 3)
        let identity = SampleEvents.identity()
        let opened = try Spool.open(
            files, sender: identity.sender, random: identity.sender, epoch: identity.epoch)
        let transport = try UDPTransport(address: deaf.address)
        let sender = try EventSender(
            SenderStream(
                SenderStream.Configuration(identity: identity), transport: transport,
                spool: opened.spool, now: SenderClock.monotonicNanoseconds()),
            transport: transport)
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        files.disk.crash(beforeOperation: 0)
        let found = #expect(throws: ClientError.self) { try sender.flush() }
        let error = try #require(found)
        #expect(sender.state == .ended(error))
        #expect(throws: error) { try sender.send(SampleEvents.event(1)) }
        #expect(throws: ClientError.notAcked(events: 1, packets: 1, cause: error)) {
            _ = try sender.close()
        }
        _ = deaf.kill()
    }

    @Test
    func `A sender that ends while its disk is busy leaves a spool that can be opened`() throws {
        let deaf = UDPPeer(lossPercent: 100)
        let spool = GatedSpool()
        var sender: EventSender? = try Self.sender(to: deaf, spool)
        #expect(try sender?.send(SampleEvents.event(0)) == .taken)
        let flushed = DispatchSemaphore(value: 0)
        DispatchQueue.global().async { [weak sender] in
            let loop = sender?.loop
            _ = try? loop?.locked { $0.flush(now: SenderClock.monotonicNanoseconds()) }
            flushed.signal()
        }
        flushed.wait()
        spool.waitForWrite()
        let opens = Self.inBackground { spool.open() }
        // It waits for the write, and for no ack.
        sender = nil
        #expect(spool.isOpen && spool.writes.count == 1)
        opens.wait()
        _ = deaf.kill()
    }
}

/// A spool in memory whose first write waits until it is opened.
private final class GatedSpool: PacketSpool {
    private struct State {
        var bytes: [UInt8] = []
        var writes: [Int] = []
        var isOpen = false
    }

    private let state = Mutex(State())
    private let begun = DispatchSemaphore(value: 0)
    private let gate = DispatchSemaphore(value: 0)

    var isOpen: Bool { state.withLock { $0.isOpen } }
    /// Bytes of packets of each.
    var writes: [Int] { state.withLock { $0.writes } }

    func waitForWrite() { begun.wait() }

    func open() {
        state.withLock { $0.isOpen = true }
        gate.signal()
    }

    func append(_ packets: [SpooledPacket]) throws(StorageError) -> SpoolPlace {
        begun.signal()
        gate.wait()
        gate.signal()
        return state.withLock { state in
            let place = SpoolPlace(
                file: 1, offset: state.bytes.count + SpoolRecord.headerByteCount)
            for packet in packets {
                state.bytes +=
                    [UInt8](repeating: 0, count: SpoolRecord.headerByteCount) + packet.bytes
            }
            state.writes.append(packets.reduce(0) { $0 + $1.bytes.count })
            return place
        }
    }

    func read(
        _ place: SpoolPlace, byteCount: Int, into bytes: inout [UInt8]
    ) throws(StorageError) {
        bytes += state.withLock { Array($0.bytes[place.offset..<place.offset + byteCount]) }
    }

    func retire(below base: UInt64) throws(StorageError) {}
    func finish(_ note: SpoolNote?) throws(StorageError) {}
    var byteCount: Int { 0 }
    var retirableEnd: UInt64 { .max }
}
