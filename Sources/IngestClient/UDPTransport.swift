// packet → [transport] → socket

import CIngestLinux
import Dispatch
import Glibc
import IngestFormat
import Synchronization

/// Where finished datagrams go. A conformer keeps no reference to the bytes after `send` returns.
package protocol DatagramTransport: AnyObject, Sendable {
    /// Sends `bytes` as datagrams of `segmentByteCount` bytes each, the last possibly shorter.
    ///
    /// **Errors** `ClientError.notListening` after "port unreachable" for an earlier datagram, and other errors of the
    /// network. Some of the datagrams, from the first one on, may have left then.
    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError)

    /// Throws the network error that earlier datagrams have led to, if there is one.
    func checkNetworkError() throws(ClientError)

    /// Chooses route and own address anew: those of the socket may be gone. Where there is none, each `send` throws an error
    /// that `isUnreachable` until this has been called again and has found one.
    ///
    /// It also begins to look the name up again, without waiting: `hasNewAddress` then, which the next call takes.
    /// - Parameter movesOn: of a name with several addresses to the next one: the port of this one may be unreachable, or
    ///   there may be no route to it. Else it stays for as long as the name has it.
    func reconnect(movesOn: Bool)

    /// Whether the name has another address than the one that is connected to, which `reconnect` takes.
    var hasNewAddress: Bool { get }

    /// The socket on which acks come; -1 = none do.
    var socket: Int32 { get }

    /// What a receive failed with, as an error that may pass.
    func networkError(_ errno: Int32) -> ClientError
}

/// A connected UDP socket that sends many datagrams a call: UDP_SEGMENT where the kernel, the device and
/// the path take it, one datagram a message where they do not. Any thread may call; the socket closes with
/// it.
///
/// **Cost** One system call for up to 64 datagrams or 65,507 bytes; after a refusal of segments, one a
/// datagram.
package final class UDPTransport: DatagramTransport {
    /// What the kernel cuts one message into at most (UDP_MAX_SEGMENTS before Linux 6.9).
    package static let segmentCountMax = 64
    package static let burstByteCountMax = 65_507

    package let socket: Int32
    /// Whether bursts leave as segments of one message. Cleared once and for all by the first refusal: a
    /// path does not learn it, and a call that fails before each burst would cost more than it could save.
    let usesSegments = Atomic(true)
    private let address: String
    private let parts: HostPort
    private let resolve: Resolver
    private let route: Mutex<Route>

    /// A name's address, as `ingest_address_resolve` chooses it. May take as long as the resolver's time limits.
    package typealias Resolver = @Sendable (Look) -> Result<ingest_address, ClientError>

    package struct Look: Sendable {
        package var parts: HostPort
        /// That which is connected to.
        package var kept: ingest_address?
        package var movesOn = false
    }

    private struct Route {
        /// The last that was found; `nil` as long as none was.
        var resolved: ingest_address?
        /// Found since, and not connected to yet.
        var next: ingest_address?
        /// Whether it is another one of the name's, where the one at hand is one of them too.
        var isMove = false
        var isResolving = false
        /// Why the last look found none.
        var failure: ClientError?
    }

    /// Resolves and connects; nothing is sent.
    ///
    /// - Parameters:
    ///   - waitsForName: where the name has no address yet, each `send` throws that until `reconnect` has found one.
    ///   - last: the address behind it is taken, of a name that has several.
    ///
    /// **Errors** `badAddress`, `unresolved`, `socket`.
    package init(
        address: String, waitsForName: Bool = false, behind last: ingest_address? = nil,
        resolve: Resolver? = nil
    ) throws(ClientError) {
        guard let parts = HostPort(address), parts.port > 0 else { throw .badAddress(address) }
        (self.address, self.parts) = (address, parts)
        let resolve = resolve ?? { Self.resolve($0, address) }
        self.resolve = resolve
        var first = Route()
        switch resolve(Look(parts: parts, kept: last, movesOn: true)) {
        case .success(let resolved): first.resolved = resolved
        case .failure(let error):
            guard waitsForName else { throw error }
            first.failure = error
        }
        // Without an address it is a socket that has no peer yet.
        var target = first.resolved ?? ingest_address()
        let socket = unsafe ingest_udp_connect(&target)
        if socket < 0 { throw .socket(call: "connect", address: address, errno: -socket) }
        self.socket = socket
        route = Mutex(first)
    }

    deinit { _ = close(socket) }

    package func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError) {
        let burstByteCountMax = Self.burstByteCount(segmentByteCount: segmentByteCount)
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + burstByteCountMax)
            try sendBurst(bytes.extracting(start..<end), segmentByteCount)
            start = end
        }
    }

    package func checkNetworkError() throws(ClientError) {
        var error: Int32 = 0
        var byteCount = socklen_t(MemoryLayout<Int32>.size)
        // SAFETY: the kernel writes at most `byteCount` bytes, the size of `error`.
        let result = unsafe getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &byteCount)
        if result == 0, error != 0 { throw failure("send", error) }
    }

    package func reconnect(movesOn: Bool) {
        let resolved = route.withLock { route in
            if let next = route.next.take(), movesOn || !route.isMove { route.resolved = next }
            return route.resolved
        }
        if var resolved {
            // SAFETY: the address is read only. Where there still is no way, the next send says so, by EDESTADDRREQ.
            _ = unsafe ingest_udp_reconnect(socket, &resolved)
        }
        lookUp(movesOn: movesOn)
    }

    /// What it is connected to; `nil` as long as the name has no address.
    package var peer: ingest_address? { route.withLock { $0.resolved } }

    package var hasNewAddress: Bool { route.withLock { $0.next != nil } }

    /// On a thread of its own, one at a time.
    private func lookUp(movesOn: Bool) {
        let begun: Look? = route.withLock { route in
            if route.isResolving { return nil }
            route.isResolving = true
            return Look(parts: parts, kept: route.resolved, movesOn: movesOn)
        }
        guard let look = begun else { return }
        DispatchQueue.global().async { [self] in
            let found = resolve(look)
            route.withLock { route in
                route.isResolving = false
                switch found {
                case .failure(let error): route.failure = error
                case .success(let address):
                    let isSame = route.resolved.map { $0.isSame(as: address) } ?? false
                    (route.next, route.failure) = (isSame ? nil : address, nil)
                    route.isMove = movesOn
                }
            }
        }
    }

    /// EMSGSIZE: a router on the way takes less than this device, so segments of this size would be refused from now on.
    package func networkError(_ errno: Int32) -> ClientError {
        if errno == EMSGSIZE { usesSegments.store(false, ordering: .relaxed) }
        return failure("receive", errno)
    }

    /// The most whole segments of this size that the kernel takes in one message.
    package static func burstByteCount(segmentByteCount: Int) -> Int {
        min(segmentCountMax, max(1, burstByteCountMax / segmentByteCount)) * segmentByteCount
    }

    private func sendBurst(_ bytes: Span<UInt8>, _ segmentByteCount: Int) throws(ClientError) {
        // Relaxed, both: a thread that does not see it yet finds out by itself.
        if bytes.count > segmentByteCount, usesSegments.load(ordering: .relaxed) {
            let result = sendMessage(bytes, segmentByteCount)
            if result > 0 { return }
            guard Self.refusesSegments(-result) else { throw failure("send", -result) }
            usesSegments.store(false, ordering: .relaxed)
        }
        try sendSingly(bytes, segmentByteCount)
    }

    /// Whether this error of a message of segments says that the same bytes may leave one by one. It is
    /// reported before anything of the message has left.
    ///
    /// EIO: the device cannot compute checksums for segments. EINVAL: no UDP_SEGMENT. EMSGSIZE, by older
    /// kernels EINVAL: a segment is larger than the MTU.
    package static func refusesSegments(_ errno: Int32) -> Bool {
        errno == EIO || errno == EINVAL || errno == EMSGSIZE
    }

    private func sendSingly(_ bytes: Span<UInt8>, _ segmentByteCount: Int) throws(ClientError) {
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + segmentByteCount)
            let datagram = bytes.extracting(start..<end)
            var result = sendMessage(datagram, 0)
            // The first time it may be of an earlier one, from a router; the kernel then cuts this one into fragments.
            if result == -EMSGSIZE { result = sendMessage(datagram, 0) }
            if result < 0 { throw failure("send", -result) }
            start = end
        }
    }

    /// 1, or a negative errno.
    private func sendMessage(_ bytes: Span<UInt8>, _ segmentByteCount: Int) -> Int32 {
        // SAFETY: the message's pointer and count are the span's own, and outlive the call.
        unsafe bytes.withUnsafeBufferPointer { buffer in
            var message = unsafe ingest_outgoing(
                bytes: buffer.baseAddress, byte_count: UInt32(buffer.count),
                segment_byte_count: UInt32(segmentByteCount))
            return unsafe ingest_send(socket, &message, 1, nil)
        }
    }

    private func failure(_ call: String, _ errno: Int32) -> ClientError {
        if errno == EDESTADDRREQ, let failure = route.withLock({ $0.failure }) { return failure }
        return errno == ECONNREFUSED
            ? .notListening(address: address)
            : .socket(call: call, address: address, errno: errno)
    }

    static func resolve(
        _ look: Look, _ address: String
    ) -> Result<ingest_address, ClientError> {
        // An address without bytes is none of the name's.
        var (resolved, kept) = (ingest_address(), look.kept ?? ingest_address())
        let status = unsafe ingest_address_resolve(
            look.parts.host, look.parts.port, &kept, look.movesOn, &resolved)
        if status == 0 { return .success(resolved) }
        // SAFETY: the C function returns a constant string for every status.
        let reason = unsafe String(cString: ingest_address_error(status))
        return .failure(.unresolved(address: address, reason: reason))
    }
}

extension ingest_address {
    func isSame(as other: ingest_address) -> Bool {
        var (one, two) = (self, other)
        // SAFETY: both are as large as their type says, and read only.
        return unsafe memcmp(&one, &two, MemoryLayout<ingest_address>.size) == 0
    }
}

/// Whether the network, not this process, is why nothing left. EDESTADDRREQ: the socket was to connect again while there
/// was no route, and has no peer since.
func isUnreachable(_ errno: Int32) -> Bool {
    [ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EDESTADDRREQ].contains(errno)
}

func systemMessage(_ errno: Int32) -> String {
    // SAFETY: strerror returns a string for every number; it is copied at once.
    unsafe String(cString: strerror(errno))
}
