import Dispatch
import Glibc
import Synchronization

/// A `ModelReceiver` behind a real socket on loopback, on a thread of its own, which loses what it is told to.
final class UDPPeer: Sendable {
    private struct State {
        var receiver = ModelReceiver()
        var lossPercent = 0
        var isStopped = false
        var datagramCount = 0
        var awaitedCount = Int.max

        var isLost: Bool { Int.random(in: 0..<100) < lossPercent }
    }

    let port: UInt16
    private let state = Mutex(State())
    private let ended = DispatchSemaphore(value: 0)
    private let awaited = DispatchSemaphore(value: 0)

    /// - Parameter port: 0 = any.
    init(port: UInt16 = 0, receiver: ModelReceiver = ModelReceiver(), lossPercent: Int = 0) {
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, byteCount) == 0
                    && getsockname(descriptor, pointer, &byteCount) == 0
            }
        }
        precondition(bound, "no socket on loopback")
        self.port = UInt16(bigEndian: address.sin_port)
        var wait = timeval(tv_sec: 0, tv_usec: 2_000)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
        state.withLock {
            $0.receiver = receiver
            $0.lossPercent = lossPercent
        }
        DispatchQueue(label: "test.peer").async { self.run(descriptor) }
    }

    var address: String { "127.0.0.1:\(port)" }

    var receiver: ModelReceiver { state.withLock { $0.receiver } }

    func change(_ body: (inout ModelReceiver) -> Void) { state.withLock { body(&$0.receiver) } }

    /// Until so many have come, lost ones too.
    func waitForDatagrams(_ count: Int) {
        state.withLock { $0.awaitedCount = count }
        awaited.wait()
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

    private func run(_ descriptor: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var source = sockaddr_in()
        var isKnown = false
        while !state.withLock({ $0.isStopped }) {
            var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &source) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &buffer, buffer.count, 0, $0, &byteCount)
                }
            }
            isKnown = isKnown || count > 0
            let answers = state.withLock { state -> [[UInt8]] in
                if count > 0 { state.datagramCount += 1 }
                if state.datagramCount >= state.awaitedCount {
                    state.awaitedCount = .max
                    awaited.signal()
                }
                var answers = Int.random(in: 0..<8) == 0 || count < 0 ? state.receiver.commit() : []
                if count > 0, !state.isLost,
                    let answer = state.receiver.receive(Array(buffer[..<count]))
                {
                    answers.append(answer)
                }
                return answers.filter { _ in !state.isLost }
            }
            for answer in answers where isKnown {
                _ = withUnsafePointer(to: &source) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        sendto(descriptor, answer, answer.count, 0, $0, byteCount)
                    }
                }
            }
        }
        close(descriptor)
        ended.signal()
    }
}
