import Dispatch
import Synchronization
import TestSupport

/// A `ModelReceiver` behind a real socket on loopback, on a thread of its own, which loses what it is told to.
final class UDPPeer: Sendable {
    private struct State {
        var receiver = ModelReceiver()
        var lossPercent = 0
        var isStopped = false
        /// Whether what the socket holds is lost with the process that had it.
        var isRestarting = false
        var datagramCount = 0
        var awaitedCount = Int.max

        var isLost: Bool { Int.random(in: 0..<100) < lossPercent }

        /// What leaves after a datagram, or after none for a while.
        mutating func answer(_ datagram: [UInt8]?, _ awaited: DispatchSemaphore) -> [[UInt8]] {
            if isRestarting {
                isRestarting = datagram != nil
                return []
            }
            if datagram != nil { datagramCount += 1 }
            if datagramCount >= awaitedCount {
                awaitedCount = .max
                awaited.signal()
            }
            var answers = Int.random(in: 0..<8) == 0 || datagram == nil ? receiver.commit() : []
            if let datagram, !isLost, let answer = receiver.receive(datagram) {
                answers.append(answer)
            }
            return answers.filter { _ in !isLost }
        }
    }

    let port: UInt16
    private let state = Mutex(State())
    private let ended = DispatchSemaphore(value: 0)
    private let awaited = DispatchSemaphore(value: 0)

    init(receiver: ModelReceiver = ModelReceiver(), lossPercent: Int = 0) {
        let socket = LoopbackSocket()
        port = socket.port
        state.withLock {
            $0.receiver = receiver
            $0.lossPercent = lossPercent
        }
        DispatchQueue(label: "test.peer").async { self.run(socket) }
    }

    var address: String { "127.0.0.1:\(port)" }

    var receiver: ModelReceiver { state.withLock { $0.receiver } }

    func change(_ body: (inout ModelReceiver) -> Void) { state.withLock { body(&$0.receiver) } }

    /// Until so many have come, lost ones too.
    func waitForDatagrams(_ count: Int) {
        state.withLock { $0.awaitedCount = count }
        awaited.wait()
    }

    /// As a process that is killed and started again on its port: what was only admitted is gone, and so is what
    /// its socket held.
    func restart() {
        state.withLock {
            $0.receiver.restart()
            $0.isRestarting = true
        }
    }

    /// Ends as a killed process does: what was only admitted is gone, the port is free.
    func kill() -> ModelReceiver {
        state.withLock { $0.isStopped = true }
        ended.wait()
        return state.withLock { state in
            state.receiver.restart()
            return state.receiver
        }
    }

    private func run(_ socket: LoopbackSocket) {
        var source: LoopbackSocket.Source?
        while !state.withLock({ $0.isStopped }) {
            let datagram = socket.receive(withinMilliseconds: 2)
            source = datagram?.from ?? source
            let answers = state.withLock { $0.answer(datagram?.bytes, awaited) }
            guard let source else { continue }
            for answer in answers { socket.send(answer, to: source) }
        }
        socket.close()
        ended.signal()
    }
}
