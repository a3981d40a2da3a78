// packet → decode → ring → admit → [block → segment → compaction] → snapshot → query
import Dispatch
import Synchronization

/// A hand-over between two stages, each on its own queue: first in, first out, or the other way round.
///
/// It never blocks the side that pushes: what travels is a fixed set of block slots, so the number of
/// slots bounds every link. The side that pops may wait.
///
/// **Cost** One short lock and one semaphore signal a block, never an event: under 1 µs.
package final class StageLink<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var isClosed = false
    }
    private let state = Mutex(State())
    private let available = DispatchSemaphore(value: 0)
    private let newestFirst: Bool

    /// - Parameter newestFirst: gives the element that was pushed last, whose memory is still in the caches.
    package init(newestFirst: Bool = false) { self.newestFirst = newestFirst }

    package func push(_ element: Element) {
        state.withLock { $0.elements.append(element) }
        available.signal()
    }

    /// Says that nothing more will be pushed.
    package func close() {
        state.withLock { $0.isClosed = true }
        available.signal()
    }

    /// The oldest element, or the newest.
    /// - Parameter waitNanoseconds: how long to wait for one; 0 does not wait.
    /// - Returns: `nil` when the wait ended without one, or the link is closed and empty.
    package func pop(waitNanoseconds: UInt64) -> Element? {
        let limit = DispatchTime.now() + .nanoseconds(Int(clamping: waitNanoseconds))
        guard available.wait(timeout: waitNanoseconds == 0 ? .now() : limit) == .success else {
            return nil
        }
        return state.withLock { state in
            if newestFirst, let newest = state.elements.popLast() { return newest }
            if !state.elements.isEmpty { return state.elements.removeFirst() }
            // The signal came from `close`; leave it for the next caller.
            if state.isClosed { available.signal() }
            return nil
        }
    }

    /// Whether the link was closed and everything in it has been popped.
    package var isFinished: Bool { state.withLock { $0.isClosed && $0.elements.isEmpty } }
}
