import Dispatch
import Synchronization
import TestSupport

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
        var random: SeededRandom
        var target: UInt16
        var isStopped = false
        /// Bytes either way; acks must never be more.
        var forwarded = 0
        /// Of them those to the sender.
        var answered = 0
        var held: [[UInt8]?] = [nil, nil]
    }

    let port: UInt16
    private let chances: Chances
    private let state: Mutex<State>
    private let ended = DispatchSemaphore(value: 0)

    init(to target: UInt16, seed: UInt64, _ chances: Chances = Chances()) {
        self.chances = chances
        state = Mutex(State(random: SeededRandom(seed: seed), target: target))
        let (front, back) = (LoopbackSocket(), LoopbackSocket())
        port = front.port
        DispatchQueue(label: "test.proxy").async { self.run(front, back) }
    }

    /// The daemon has started again, on another port.
    func retarget(_ port: UInt16) { state.withLock { $0.target = port } }

    var forwardedCount: Int { state.withLock { $0.forwarded } }
    var answeredCount: Int { state.withLock { $0.answered } }

    func stop() {
        state.withLock { $0.isStopped = true }
        ended.wait()
    }

    private func run(_ front: LoopbackSocket, _ back: LoopbackSocket) {
        var client: LoopbackSocket.Source?
        while !state.withLock({ $0.isStopped }) {
            // An answer waits for the next look, a millisecond at most.
            if let (bytes, source) = front.receive(withinMilliseconds: 1) {
                client = source
                let target = state.withLock { $0.target }
                for datagram in impair(bytes, way: 0) { back.send(datagram, to: target) }
            }
            while let (bytes, _) = back.receive() {
                guard let client else { continue }
                for datagram in impair(bytes, way: 1) { front.send(datagram, to: client) }
            }
        }
        front.close()
        back.close()
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
            state.answered += way
            if state.held[way] == nil, happens(chances.latePercent) {
                state.held[way] = datagram
                return []
            }
            defer { state.held[way] = nil }
            let copies = happens(chances.doublePercent) ? [datagram, datagram] : [datagram]
            return copies + (state.held[way].map { [$0] } ?? [])
        }
    }
}
