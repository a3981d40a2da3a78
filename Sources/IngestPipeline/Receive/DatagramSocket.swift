// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

import CIngestLinux
import SystemPackage

/// Where datagrams come from. A seam: `LinuxDatagramSocket` is a UDP socket, `SimulatedDatagramSocket` a
/// network in memory that loses, doubles, reorders and damages. Owned by the receive queue.
package protocol DatagramSocket: ~Copyable, SendableMetatype {
    /// Fills buffers of the batch from the first on and sets `batch.count`; 0 when nothing came.
    ///
    /// `waits`: for the first datagram, at most 100 ms. It never waits for a second.
    ///
    /// **Errors** `SocketError.failed`: the socket is of no more use.
    mutating func receive(into batch: inout PacketBatch, waits: Bool) throws(SocketError)

    /// Datagrams dropped by the kernel because the receive buffer was full, since the socket was made: a
    /// diagnostic, asked for a few times a second. It never falls.
    mutating func kernelDropCount() -> UInt64

    /// The receive buffer in effect, for messages about drops.
    var receiveBufferByteCount: Int { get }
}

/// A bound UDP socket of Linux.
///
/// `@unchecked Sendable`: it may move to another queue as a whole; `~Copyable` keeps it in one place.
@safe package struct LinuxDatagramSocket: DatagramSocket, ~Copyable, @unchecked Sendable {
    /// How long `receive` waits, so that a stop is seen.
    package static let waitMilliseconds: UInt32 = 100

    private let bound: BoundSocket
    private let receiver: OpaquePointer
    private let batchCapacity: Int
    /// Drops in 64 bits; the kernel counts modulo 2^32.
    private var dropCount: UInt64 = 0

    /// Binds `address` with a receive buffer of `receiveBufferByteCount`, or as much of it as is allowed:
    /// compare with the property. `batchCapacity` and `byteCountMax` are those of the batches to come.
    ///
    /// **Errors** `addressInUse`, `cannotBind`, `failed`, `noMemory`.
    ///
    /// **Source** udp(7), socket(7), recvmmsg(2).
    package init(
        binding address: SocketAddress, receiveBufferByteCount: Int,
        batchCapacity: Int = PacketBatch.defaultCapacity,
        byteCountMax: Int = PacketBatch.bufferByteCount
    ) throws(SocketError) {
        let bound = try BoundSocket(address, receiveBufferByteCount: receiveBufferByteCount)
        // SAFETY: the call allocates what `ingest_receiver_free` gives back in deinit.
        guard
            let receiver = unsafe ingest_receiver_make(
                UInt32(clamping: batchCapacity), UInt32(clamping: byteCountMax))
        else { throw .noMemory(byteCount: batchCapacity * 256) }
        unsafe self.receiver = receiver
        self.bound = bound
        self.batchCapacity = batchCapacity
    }

    deinit { unsafe ingest_receiver_free(receiver) }

    /// Where answers leave: the same socket, so that they come from the address that was sent to.
    package var answers: any AnswerSocket { LinuxAnswerSocket(bound: bound) }

    /// The address that the socket has: with the port that was found where 0 was asked for.
    package var address: SocketAddress { bound.address }
    package var receiveBufferByteCount: Int { bound.receiveBufferByteCount }

    package mutating func receive(into batch: inout PacketBatch, waits: Bool) throws(SocketError) {
        precondition(batch.capacity >= batchCapacity)
        // SAFETY: the receiver fills at most batchCapacity datagrams, and of each buffer at most the
        // byteCountMax that both were made with.
        let count = unsafe ingest_receive(
            receiver, bound.descriptor, batch.datagrams, waits, bound.locals)
        batch.count = max(0, Int(count))
        if count > 0 { return noteDrops(in: batch) }
        switch Errno(rawValue: -count) {
        // The time was up, a signal came, or the kernel was short of memory for a moment.
        case .resourceTemporarilyUnavailable, .interrupted, .noMemory, .noBufferSpace: return
        default:
            throw SocketError.failed(
                address: address.description, call: "recvmmsg", errno: -count)
        }
    }

    package mutating func kernelDropCount() -> UInt64 {
        var count: UInt32 = 0
        // SAFETY: the call writes one integer.
        if unsafe ingest_udp_drop_count(bound.descriptor, &count) { note(dropCount: count) }
        return dropCount
    }

    private mutating func noteDrops(in batch: borrowing PacketBatch) {
        // SAFETY: batch.count > 0 datagrams have been filled. The last was queued last.
        let last = unsafe batch.datagrams[batch.count - 1]
        if unsafe last.has_drop_count { unsafe note(dropCount: last.drop_count) }
    }

    /// Two sources tell of the same counter, SO_RXQ_OVFL with the delay of the queue; the later wins.
    private mutating func note(dropCount count: UInt32) {
        let growth = Int32(bitPattern: count &- UInt32(truncatingIfNeeded: dropCount))
        if growth > 0 { dropCount &+= UInt64(growth) }
    }
}

/// Where acks leave, one datagram each. A seam, as the `DatagramSocket` that it belongs to.
package protocol AnswerSocket: Sendable {
    /// Sends as many as there is room for, from the first on; never waits.
    ///
    /// - Returns: how many were sent. What was not is lost, as it might be on the way.
    func send(_ answers: UnsafeBufferPointer<ingest_answer>) -> Int
}

struct LinuxAnswerSocket: AnswerSocket {
    fileprivate let bound: BoundSocket

    func send(_ answers: UnsafeBufferPointer<ingest_answer>) -> Int {
        var sent = 0
        var skipped = 0
        while sent + skipped < answers.count {
            let start = sent + skipped
            let count = min(answers.count - start, Int(INGEST_SEND_COUNT_MAX))
            // SAFETY: start + count ≤ answers.count; bytes and addresses live through the call.
            let taken = unsafe ingest_send_answers(
                bound.descriptor, answers.baseAddress! + start, UInt32(count), bound.locals)
            if taken > 0 {
                sent += Int(taken)
            } else if Errno(rawValue: -taken) == .resourceTemporarilyUnavailable {
                return sent
            } else {
                // This address cannot be reached, or an earlier answer's failure is told now.
                skipped += 1
            }
        }
        return sent
    }
}

/// A bound descriptor and what the kernel made of the wishes for it; closed with its owner.
///
/// `@unchecked Sendable`: `locals` is written by the one thread that receives; others read what it has numbered for them.
@safe private final class BoundSocket: @unchecked Sendable {
    let descriptor: Int32
    /// Which of this machine's addresses packets were sent to, where it is bound to all.
    let locals: OpaquePointer
    let address: SocketAddress
    let receiveBufferByteCount: Int

    init(_ address: SocketAddress, receiveBufferByteCount: Int) throws(SocketError) {
        // SAFETY: the calls here each read or write one address, which lives through them.
        let descriptor = unsafe withUnsafePointer(to: address.raw) {
            unsafe ingest_udp_bind($0, LinuxDatagramSocket.waitMilliseconds)
        }
        guard descriptor >= 0 else { throw SocketError(binding: address, errno: -descriptor) }
        // SAFETY: the call allocates what deinit gives back.
        guard let locals = unsafe ingest_locals_make() else {
            try? FileDescriptor(rawValue: descriptor).close()
            throw .noMemory(byteCount: 8 << 10)
        }
        unsafe self.locals = locals
        let effective = ingest_udp_receive_buffer(
            descriptor, UInt32(clamping: receiveBufferByteCount))
        var raw = ingest_address()
        _ = unsafe ingest_udp_address(descriptor, &raw)
        self.descriptor = descriptor
        self.address = SocketAddress(raw)
        self.receiveBufferByteCount = Int(max(0, effective))
    }

    // Nothing is lost by a close that fails: datagrams in the socket go with it either way.
    deinit {
        try? FileDescriptor(rawValue: descriptor).close()
        unsafe ingest_locals_free(locals)
    }
}
