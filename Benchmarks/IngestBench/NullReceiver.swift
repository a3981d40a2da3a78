import CIngestLinux
import Dispatch
import Glibc
import Synchronization

/// A UDP receiver that counts datagrams and drops them: with the daemon's own socket options and its own
/// call, but nothing behind it.
final class NullReceiver: Sendable {
    struct Figures {
        var datagramCount: UInt64 = 0
        /// Runs that the kernel had coalesced.
        var bufferCount: UInt64 = 0
        var cpuNanoseconds: UInt64 = 0
    }

    private static let bufferCount: UInt32 = 32
    private static let bufferByteCount = 1 << 16

    /// HOST:PORT as bound.
    let address: String
    /// The receive buffer that the kernel granted.
    let bufferByteCount: Int64
    private let socket: Int32
    private let isStopped = Atomic(false)
    private let figures = Mutex(Figures())
    private let queue = DispatchQueue(label: "ingest-bench.receiver")

    init() throws {
        var any = ingest_address()
        var bound = ingest_address()
        // SAFETY: each call reads or writes one address of ours.
        unsafe ingest_address_resolve("127.0.0.1", 0, &any)
        socket = unsafe ingest_udp_bind(&any, 20)
        guard socket >= 0 else { throw BenchFailure("bind: errno \(-socket)") }
        unsafe ingest_udp_address(socket, &bound)
        address = "127.0.0.1:\(unsafe ingest_address_port(&bound))"
        bufferByteCount = ingest_udp_receive_buffer(socket, 64 << 20)
        queue.async { [self] in receive() }
    }

    deinit { close(socket) }

    /// Stops once nothing has come for a while; what came.
    func stop() -> Figures {
        isStopped.store(true, ordering: .relaxed)
        queue.sync {}
        return figures.withLock { $0 }
    }

    private func receive() {
        let count = Int(Self.bufferCount)
        // SAFETY: every buffer is a part of `memory` of the size that the receiver is told; all three are
        // freed below, when nothing uses them any more.
        let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: count * Self.bufferByteCount)
        let datagrams = UnsafeMutablePointer<ingest_datagram>.allocate(capacity: count)
        for i in 0..<count {
            unsafe datagrams[i] = ingest_datagram()
            unsafe datagrams[i].bytes = memory + i * Self.bufferByteCount
        }
        let receiver = unsafe ingest_receiver_make(Self.bufferCount, UInt32(Self.bufferByteCount))
        defer {
            unsafe ingest_receiver_free(receiver)
            unsafe datagrams.deallocate()
            unsafe memory.deallocate()
        }
        var result = Figures()
        while true {
            let received = unsafe ingest_receive(receiver, socket, datagrams, true, nil)
            if received <= 0 {
                if isStopped.load(ordering: .relaxed) { break }
                continue
            }
            for i in 0..<Int(received) {
                let segment = unsafe max(1, datagrams[i].segment_byte_count)
                let bytes = unsafe datagrams[i].byte_count
                result.datagramCount += UInt64((bytes + segment - 1) / segment)
            }
            result.bufferCount += UInt64(received)
        }
        result.cpuNanoseconds = threadCPUNanoseconds()
        figures.withLock { $0 = result }
    }
}

/// Time of the calling thread on a core so far.
private func threadCPUNanoseconds() -> UInt64 {
    var time = timespec()
    // SAFETY: the kernel writes one timespec.
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
