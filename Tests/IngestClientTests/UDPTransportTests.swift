import CIngestLinux
import Glibc
import IngestFormat
import Synchronization
import TestSupport
import Testing

@testable import IngestClient

extension UDPTransport {
    fileprivate var isSegmenting: Bool { usesSegments.load(ordering: .relaxed) }
}

/// The sockets of a sender, over loopback.
struct UDPTransportTests {
    @Test func `Segments are given up where single datagrams may pass, and nowhere else`() {
        for errno in [EIO, EINVAL, EMSGSIZE] {
            #expect(UDPTransport.refusesSegments(errno), "\(errno)")
        }
        for errno in [ECONNREFUSED, ENETUNREACH, EPERM, ENOBUFS, EAGAIN, 0] {
            #expect(!UDPTransport.refusesSegments(errno), "\(errno)")
        }
    }

    @Test func `After one refusal of segments all leaves singly, and nothing twice`() throws {
        let receiver = LoopbackSocket()
        let transport = try UDPTransport(address: "127.0.0.1:\(receiver.port)")
        let expected = (0..<10 as Range<UInt8>).map {
            [UInt8](repeating: $0, count: $0 == 9 ? 40 : 100)
        }
        let burst = Array(expected.joined())

        try transport.send(burst.span, segmentByteCount: 100)
        #expect(transport.isSegmenting)
        #expect(receiver.datagrams(10) == expected)

        // Without checksums the kernel takes single datagrams but no segments: EINVAL.
        try setNoChecksums(1, of: transport)
        try transport.send(burst.span, segmentByteCount: 100)
        #expect(!transport.isSegmenting)
        #expect(receiver.datagrams(10) == expected)

        try setNoChecksums(0, of: transport)
        try transport.send(burst.span, segmentByteCount: 100)
        #expect(!transport.isSegmenting, "it is not tried again for each burst")
        #expect(receiver.datagrams(10) == expected)
    }

    @Test func `The error that a router takes less ends segments, and no other error does`() throws
    {
        let transport = try UDPTransport(address: "127.0.0.1:9")
        #expect(
            transport.networkError(EPERM)
                == .socket(call: "receive", address: "127.0.0.1:9", errno: EPERM))
        #expect(transport.networkError(ECONNREFUSED) == .notListening(address: "127.0.0.1:9"))
        #expect(transport.isSegmenting)
        #expect(transport.networkError(EMSGSIZE).isTemporary)
        #expect(!transport.isSegmenting)
    }

    @Test func `A socket that is connected again goes on to the same address`() throws {
        let receiver = LoopbackSocket()
        let transport = try UDPTransport(address: "127.0.0.1:\(receiver.port)")
        for byte in 0..<3 as Range<UInt8> {
            let datagram = [UInt8](repeating: byte, count: 60)
            try transport.send(datagram.span, segmentByteCount: 60)
            #expect(receiver.datagrams(1) == [datagram])
            transport.reconnect(movesOn: false)
        }
    }

    @Test func `A socket that has lost its peer has no route, until it is connected again`() throws
    {
        let receiver = LoopbackSocket()
        let transport = try UDPTransport(address: "127.0.0.1:\(receiver.port)")
        let datagram = [UInt8](repeating: 7, count: 60)
        // What connecting again leaves where there is no route.
        var none = sockaddr(
            sa_family: sa_family_t(AF_UNSPEC), sa_data: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        try #require(
            connect(transport.socket, &none, socklen_t(MemoryLayout<sockaddr>.size)) == 0)
        for byteCount in [60, 30] {
            let error = #expect(throws: ClientError.self) {
                try transport.send(datagram.span, segmentByteCount: byteCount)
            }
            #expect(error?.isTemporary == true && error?.isUnreachable == true)
        }
        transport.reconnect(movesOn: false)
        try transport.send(datagram.span, segmentByteCount: 60)
        #expect(receiver.datagrams(1) == [datagram])
    }

    /// Addresses of names, which change; each look takes the next, and the last one is kept.
    private static func names(
        _ addresses: [String?]
    ) -> (resolve: UDPTransport.Resolver, count: () -> Int) {
        let looks = LookCount()
        let resolve: UDPTransport.Resolver = { _ in
            let number = looks.next()
            guard let address = addresses[min(number, addresses.count - 1)] else {
                return .failure(.unresolved(address: "shop:1", reason: "no such name"))
            }
            return UDPTransport.resolved(address)
        }
        return (resolve, { looks.count })
    }

    @Test func `S8: A name is looked up again without waiting, and its new address is taken`()
        throws
    {
        let (old, new) = (LoopbackSocket(), LoopbackSocket())
        let (resolve, _) = Self.names(["127.0.0.1:\(old.port)", "127.0.0.1:\(new.port)"])
        let transport = try UDPTransport(address: "shop:1", resolve: resolve)
        let datagram = [UInt8](repeating: 7, count: 60)
        try transport.send(datagram.span, segmentByteCount: 60)
        #expect(old.datagrams(1) == [datagram] && !transport.hasNewAddress)
        transport.reconnect(movesOn: false)
        #expect(eventually { transport.hasNewAddress })
        // As long as it has not connected again it sends to the old one.
        try transport.send(datagram.span, segmentByteCount: 60)
        #expect(old.datagrams(1) == [datagram])
        transport.reconnect(movesOn: false)
        try transport.send(datagram.span, segmentByteCount: 60)
        #expect(new.datagrams(1) == [datagram] && !transport.hasNewAddress)
    }

    @Test
    func `Of several addresses the next is taken by who moves on, and forgotten by who stays`()
        throws
    {
        let receivers = [LoopbackSocket(), LoopbackSocket()]
        let addresses = receivers.map { "127.0.0.1:\($0.port)" }
        let resolve: UDPTransport.Resolver = { look in
            let first = UDPTransport.resolved(addresses[0])
            guard let kept = look.kept, let isFirst = try? kept.isSame(as: first.get()) else {
                return first
            }
            return isFirst == look.movesOn ? UDPTransport.resolved(addresses[1]) : first
        }
        let datagram = [UInt8](repeating: 7, count: 60)
        for movesOn in [false, true] {
            let transport = try UDPTransport(address: "shop:1", resolve: resolve)
            transport.reconnect(movesOn: true)
            #expect(eventually { transport.hasNewAddress })
            transport.reconnect(movesOn: movesOn)
            try transport.send(datagram.span, segmentByteCount: 60)
            #expect(receivers[movesOn ? 1 : 0].datagrams(1) == [datagram])
        }
        // A name with one address has no other.
        let (one, kept) = (UDPTransport.resolved("[::1]:9"), UDPTransport.resolved("[::1]:8"))
        for kept in [try one.get(), try kept.get()] {
            let look = UDPTransport.Look(parts: HostPort("[::1]:9")!, kept: kept, movesOn: true)
            #expect(try UDPTransport.resolve(look, "").get().isSame(as: one.get()))
        }
    }

    @Test func `The same address again is no new one, nor is a look that fails`() throws {
        let receiver = LoopbackSocket()
        let address = "127.0.0.1:\(receiver.port)"
        let (resolve, count) = Self.names([address, address, nil])
        let transport = try UDPTransport(address: "shop:1", resolve: resolve)
        let datagram = [UInt8](repeating: 7, count: 60)
        for look in 2..<5 {
            // One look at a time: the one before may be about to end.
            #expect(
                eventually {
                    transport.reconnect(movesOn: false)
                    return count() >= look
                })
            #expect(!transport.hasNewAddress)
            try transport.send(datagram.span, segmentByteCount: 60)
            #expect(receiver.datagrams(1) == [datagram])
        }
    }

    @Test func `An agent starts before its receiver's name has an address, of either family`()
        throws
    {
        let receiver = LoopbackSocket()
        for found in ["127.0.0.1:\(receiver.port)", "[::1]:9"] {
            let (resolve, _) = Self.names([nil, found])
            let unresolved = ClientError.unresolved(address: "shop:1", reason: "no such name")
            #expect(throws: unresolved) {
                try UDPTransport(address: "shop:1", resolve: { _ in .failure(unresolved) })
            }
            let transport = try UDPTransport(
                address: "shop:1", waitsForName: true, resolve: resolve)
            let datagram = [UInt8](repeating: 7, count: 60)
            let error = #expect(throws: ClientError.self) {
                try transport.send(datagram.span, segmentByteCount: 60)
            }
            #expect(error == unresolved && unresolved.isTemporary && unresolved.isUnreachable)
            transport.reconnect(movesOn: false)
            #expect(eventually { transport.hasNewAddress })
            transport.reconnect(movesOn: false)
            try transport.send(datagram.span, segmentByteCount: 60)
            if found.hasPrefix("1") { #expect(receiver.datagrams(1) == [datagram]) }
        }
    }

    private func setNoChecksums(_ value: Int32, of transport: UDPTransport) throws {
        var value = value
        let result = setsockopt(
            transport.socket, SOL_SOCKET, SO_NO_CHECK, &value,
            socklen_t(MemoryLayout<Int32>.size))
        try #require(result == 0)
    }
}

private final class LookCount: Sendable {
    private let looks = Mutex(0)

    var count: Int { looks.withLock { $0 } }

    func next() -> Int {
        looks.withLock { looks in
            defer { looks += 1 }
            return looks
        }
    }
}

extension LoopbackSocket {
    /// What has arrived: over loopback, all that was sent before.
    fileprivate func datagrams(_ count: Int) -> [[UInt8]] {
        (0..<count).map { _ in receive()?.bytes ?? [] }
    }
}

extension UDPTransport {
    fileprivate static func resolved(_ address: String) -> Result<ingest_address, ClientError> {
        resolve(Look(parts: HostPort(address)!), address)
    }
}
