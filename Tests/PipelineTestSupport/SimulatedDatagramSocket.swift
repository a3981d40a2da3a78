// A network in memory, deterministic from a seed.
//
// Fault model: each datagram sent is, independently and with the rates given, lost; delivered a second
// time; held back until after the next one (so two neighbours swap); or damaged in one bit. Neighbours of
// one size may arrive coalesced in one buffer, as with UDP_GRO. What does not fit the receive buffer is
// dropped and counted, as by the kernel. Not modelled: delays beyond one datagram, address changes.

import CIngestLinux
import IngestPipeline
import Synchronization
import TestSupport

/// How often the network does harm, each in datagrams out of 1000.
package struct NetworkFaults: Sendable {
    package var lost: UInt64 = 0
    package var doubled: UInt64 = 0
    package var reordered: UInt64 = 0
    package var damaged: UInt64 = 0
    /// Whether neighbours of one size may share a buffer.
    package var coalesces = false

    package init() {}
}

/// The sending side of a simulated network, and what became of what was sent. May be shared.
package final class SimulatedNetwork: Sendable {
    /// What the network did.
    package struct Record: Equatable, Sendable {
        package var sent = 0
        package var lost = 0
        package var doubled = 0
        package var reordered = 0
        package var damaged = 0
        /// Dropped because the receive buffer was full.
        package var dropped = 0
    }

    private struct State {
        var random: SeededRandom
        var queue: [[UInt8]] = []
        var queueByteCount = 0
        var heldBack: [[UInt8]] = []
        var record = Record()
    }

    package let faults: NetworkFaults
    package let receiveBufferByteCount: Int
    private let state: Mutex<State>

    package init(
        seed: UInt64, faults: NetworkFaults = NetworkFaults(),
        receiveBufferByteCount: Int = 1 << 20
    ) {
        self.faults = faults
        self.receiveBufferByteCount = receiveBufferByteCount
        state = Mutex(State(random: SeededRandom(seed: seed)))
    }

    package var record: Record { state.withLock { $0.record } }

    /// Hands one datagram to the network.
    package func send(_ datagram: [UInt8]) {
        state.withLock { state in
            state.record.sent += 1
            if happens(faults.lost, &state) {
                state.record.lost += 1
                return
            }
            var arriving = datagram
            if happens(faults.damaged, &state), !arriving.isEmpty {
                let bit = state.random.below(UInt64(arriving.count) * 8)
                arriving[Int(bit / 8)] ^= 1 << (bit % 8)
                state.record.damaged += 1
            }
            let isDoubled = happens(faults.doubled, &state)
            if isDoubled { state.record.doubled += 1 }
            if happens(faults.reordered, &state) {
                state.record.reordered += 1
                state.heldBack += isDoubled ? [arriving, arriving] : [arriving]
                return
            }
            deliver(arriving, &state)
            if isDoubled { deliver(arriving, &state) }
            deliverHeldBack(&state)
        }
    }

    /// Delivers what is still held back: the senders have fallen silent.
    package func settle() { state.withLock { deliverHeldBack(&$0) } }

    /// The next datagrams, as many as fit one buffer of `byteCountMax`: one, or a coalesced run.
    func take(byteCountMax: Int) -> [[UInt8]] {
        state.withLock { state in
            guard let first = state.queue.first else { return [] }
            var count = 1
            var byteCount = first.count
            while faults.coalesces, count < state.queue.count, !first.isEmpty, count < 64,
                state.queue[count - 1].count == first.count,
                !state.queue[count].isEmpty, state.queue[count].count <= first.count,
                byteCount + state.queue[count].count <= byteCountMax
            {
                byteCount += state.queue[count].count
                count += 1
            }
            let run = Array(state.queue.prefix(count))
            state.queue.removeFirst(count)
            state.queueByteCount -= byteCount
            return run
        }
    }

    private func happens(_ rate: UInt64, _ state: inout State) -> Bool {
        rate > 0 && state.random.below(1000) < rate
    }

    private func deliver(_ datagram: [UInt8], _ state: inout State) {
        guard state.queueByteCount + datagram.count <= receiveBufferByteCount else {
            state.record.dropped += 1
            return
        }
        state.queueByteCount += datagram.count
        state.queue.append(datagram)
    }

    private func deliverHeldBack(_ state: inout State) {
        let heldBack = state.heldBack
        state.heldBack = []
        for datagram in heldBack { deliver(datagram, &state) }
    }
}

/// The receiving side. It never waits: an empty network gives an empty batch.
package struct SimulatedDatagramSocket: DatagramSocket, ~Copyable {
    private let network: SimulatedNetwork

    package init(_ network: SimulatedNetwork) { self.network = network }

    package var receiveBufferByteCount: Int { network.receiveBufferByteCount }

    package mutating func receive(
        into batch: inout PacketBatch, waits: Bool
    ) throws(SocketError) {
        batch.count = 0
        while batch.count < batch.capacity {
            let run = network.take(byteCountMax: batch.byteCountMax)
            guard let first = run.first else { return }
            batch.fill(batch.count, with: run.flatMap { $0 }, segmentByteCount: first.count)
            batch.count += 1
        }
    }

    package mutating func kernelDropCount() -> UInt64 { UInt64(network.record.dropped) }
}

extension PacketBatch {
    /// Fills one buffer as a receive call does; what does not fit is cut off.
    fileprivate func fill(_ index: Int, with bytes: [UInt8], segmentByteCount: Int) {
        let kept = min(bytes.count, byteCountMax)
        // SAFETY: index < capacity; the buffer takes byteCountMax bytes.
        let datagram = datagrams + index
        bytes.withUnsafeBytes {
            if let base = $0.baseAddress {
                UnsafeMutableRawPointer(datagram.pointee.bytes!).copyMemory(
                    from: base, byteCount: kept)
            }
        }
        datagram.pointee.byte_count = UInt32(kept)
        datagram.pointee.segment_byte_count = UInt32(min(segmentByteCount, kept))
        datagram.pointee.is_truncated = kept < bytes.count
        datagram.pointee.has_drop_count = false
        datagram.pointee.source = ingest_address()
    }
}
