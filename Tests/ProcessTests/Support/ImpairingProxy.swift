import Dispatch
import Foundation
import Glibc
import Synchronization

/// A bad network between one sender at a time and a daemon: datagrams of both directions are lost, doubled,
/// damaged and overtaken, by chances drawn from a seed.
final class ImpairingProxy: Sendable {
    struct Chances {
        var lossPercent = 20
        var doublePercent = 10
        var damagePercent = 1
        /// Of a datagram to wait for the next one.
        var latePercent = 10
    }

    private struct State {
        var random: SplitMix64
        var target: UInt16
        var isStopped = false
        /// Bytes either way; acks must never be more.
        var forwarded = 0
        var held: [[UInt8]?] = [nil, nil]
    }

    let port: UInt16
    private let chances: Chances
    private let state: Mutex<State>
    private let ended = DispatchSemaphore(value: 0)

    init(to target: UInt16, seed: UInt64, _ chances: Chances = Chances()) {
        self.chances = chances
        state = Mutex(State(random: SplitMix64(state: seed), target: target))
        let front = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        let back = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        var address = Self.address(0)
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(front, $0, byteCount)
                getsockname(front, $0, &byteCount)
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        DispatchQueue(label: "test.proxy").async { self.run(front, back) }
    }

    /// The daemon has started again, on another port.
    func retarget(_ port: UInt16) { state.withLock { $0.target = port } }

    var forwardedCount: Int { state.withLock { $0.forwarded } }

    func stop() {
        state.withLock { $0.isStopped = true }
        ended.wait()
    }

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    private func run(_ front: Int32, _ back: Int32) {
        var client: sockaddr_in?
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while !state.withLock({ $0.isStopped }) {
            var ends = [
                pollfd(fd: front, events: Int16(POLLIN), revents: 0),
                pollfd(fd: back, events: Int16(POLLIN), revents: 0),
            ]
            poll(&ends, 2, 20)
            while let (count, source) = Self.receive(front, &buffer) {
                client = source
                let target = Self.address(state.withLock { $0.target })
                for datagram in impair(Array(buffer[..<count]), way: 0) {
                    Self.send(back, datagram, target)
                }
            }
            while let (count, _) = Self.receive(back, &buffer) {
                guard let client else { continue }
                for datagram in impair(Array(buffer[..<count]), way: 1) {
                    Self.send(front, datagram, client)
                }
            }
        }
        close(front)
        close(back)
        ended.signal()
    }

    private func impair(_ datagram: [UInt8], way: Int) -> [[UInt8]] {
        state.withLock { state in
            func happens(_ percent: Int) -> Bool {
                Int.random(in: 0..<100, using: &state.random) < percent
            }
            if happens(chances.lossPercent) { return [] }
            var datagram = datagram
            if happens(chances.damagePercent), !datagram.isEmpty {
                let place = Int.random(in: 0..<datagram.count, using: &state.random)
                datagram[place] ^= UInt8.random(in: 1...255, using: &state.random)
            }
            state.forwarded += 1
            if state.held[way] == nil, happens(chances.latePercent) {
                state.held[way] = datagram
                return []
            }
            defer { state.held[way] = nil }
            let copies = happens(chances.doublePercent) ? [datagram, datagram] : [datagram]
            return copies + (state.held[way].map { [$0] } ?? [])
        }
    }

    private static func receive(
        _ descriptor: Int32, _ buffer: inout [UInt8]
    ) -> (Int, sockaddr_in)? {
        var source = sockaddr_in()
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &source) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                recvfrom(
                    descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT), $0, &byteCount)
            }
        }
        return count < 0 ? nil : (count, source)
    }

    private static func send(_ descriptor: Int32, _ bytes: [UInt8], _ target: sockaddr_in) {
        var target = target
        _ = withUnsafePointer(to: &target) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, bytes, bytes.count, 0, $0,
                    socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
