// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestStorage
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

    /// Where acks leave: the same socket, so that they come from the address that was sent to.
    package var acks: any AckSocket { LinuxAckSocket(bound: bound) }

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
package protocol AckSocket: Sendable {
    /// Sends as many as there is room for, from the first on; never waits.
    ///
    /// - Returns: how many were sent. What was not is lost, as it might be on the way.
    func send(_ acks: UnsafeBufferPointer<ingest_ack>) -> Int
}

struct LinuxAckSocket: AckSocket {
    fileprivate let bound: BoundSocket

    func send(_ acks: UnsafeBufferPointer<ingest_ack>) -> Int {
        var sent = 0
        var skipped = 0
        while sent + skipped < acks.count {
            let start = sent + skipped
            let count = min(acks.count - start, Int(INGEST_SEND_COUNT_MAX))
            // SAFETY: start + count ≤ acks.count; bytes and addresses live through the call.
            let taken = unsafe ingest_send_acks(
                bound.descriptor, acks.baseAddress! + start, UInt32(count), bound.locals)
            if taken > 0 {
                sent += Int(taken)
            } else if Errno(rawValue: -taken) == .resourceTemporarilyUnavailable {
                return sent
            } else {
                // This address cannot be reached, or an earlier ack's failure is told now.
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

/// An address and port of UDP, IPv4 or IPv6.
package struct SocketAddress: Sendable, CustomStringConvertible {
    var raw: ingest_address

    init(_ raw: ingest_address) { self.raw = raw }

    /// Reads `HOST:PORT`: a name or a number, IPv6 in brackets (`[::1]:4810`), the port 0 … 65535.
    ///
    /// **Errors** `SocketError.badAddress` says what is wrong with the text, or that the name is unknown.
    /// **Cost** A name is looked up by the system's resolver, which may take seconds.
    package init(_ text: String) throws(SocketError) {
        guard let parts = HostPort(text) else {
            throw SocketError.badAddress(text: text, reason: "not an address")
        }
        var raw = ingest_address()
        // SAFETY: the text is terminated and lives through the call, which writes one address.
        let code = unsafe parts.host.withCString {
            unsafe ingest_address_resolve($0, parts.port, nil, false, &raw)
        }
        guard code == 0 else {
            let reason = unsafe String(cString: ingest_address_error(code))
            throw SocketError.badAddress(text: text, reason: reason)
        }
        self.raw = raw
    }

    package static func loopback(port: UInt16) -> SocketAddress {
        var raw = ingest_address()
        // SAFETY: the call writes one address; it finds a number without asking anybody.
        let code = unsafe ingest_address_resolve("127.0.0.1", port, nil, false, &raw)
        precondition(code == 0)
        return SocketAddress(raw)
    }

    /// 0 asks for a free port when bound.
    package var port: UInt16 {
        // SAFETY: in these three the call reads one address, which lives through it.
        unsafe withUnsafePointer(to: raw) { unsafe ingest_address_port($0) }
    }

    /// Whether only this machine can reach it.
    package var isLoopback: Bool {
        unsafe withUnsafePointer(to: raw) { unsafe ingest_address_is_loopback($0) }
    }

    /// `127.0.0.1:4810`, `[::1]:4810`.
    package var description: String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { text in
            unsafe withUnsafePointer(to: raw) {
                unsafe ingest_address_text($0, text.baseAddress!, text.count)
            }
            return unsafe String(cString: text.baseAddress!)
        }
    }
}

/// What can go wrong with the daemon's socket. `description` is one line, *what, where, what to do*;
/// `exitCode` is the one a program ends with.
package enum SocketError: Error, Equatable, Sendable {
    /// The text is no HOST:PORT.
    case badAddress(text: String, reason: String)
    /// Another program has the port.
    case addressInUse(address: String)
    /// The address is not one of this machine's, or the port is not allowed to this user.
    case cannotBind(address: String, errno: Int32)
    /// A call on a bound socket failed in a way that does not pass.
    case failed(address: String, call: String, errno: Int32)
    /// No memory for the receive buffers.
    case noMemory(byteCount: Int)

    init(binding address: SocketAddress, errno code: Int32) {
        self =
            Errno(rawValue: code) == .addressInUse
            ? .addressInUse(address: address.description)
            : .cannotBind(address: address.description, errno: code)
    }

    /// The exit code of the command line's contract.
    package var exitCode: Int32 {
        switch self {
        case .badAddress: 64
        case .addressInUse, .cannotBind: 69
        case .failed, .noMemory: 74
        }
    }
}

extension SocketError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .badAddress(let text, let reason):
            "\(reason), \"\(text)\", give HOST:PORT, with IPv6 as [::1]:4810"
        case .addressInUse(let address):
            "the address is in use, udp \(address), stop the program that uses it or choose another --udp"
        case .cannotBind(let address, let errno):
            "cannot bind: \(StorageError.text(errno)), udp \(address), use an address of this machine and a "
                + "port that this user may bind"
        case .failed(let address, let call, let errno):
            "\(call) failed: \(StorageError.text(errno)), udp \(address), start again; what was acked is safe"
        case .noMemory(let byteCount):
            "no memory for \(byteCount) bytes of receive buffers, udp, free memory on this machine"
        }
    }
}
