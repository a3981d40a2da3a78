// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Room for the descriptors of one packet, however many events it holds. Owned by the receive queue.
///
/// **Cost** 3.5 MiB of address space, taken once; pages that no packet needs are never touched.
@safe package struct EventScratch: ~Copyable {
    package static let capacity = Limits.packetEventCountMax
    package let descriptors: UnsafeMutablePointer<EventDescriptor>

    package init() { unsafe descriptors = .allocate(capacity: Self.capacity) }
    deinit { unsafe descriptors.deallocate() }

    /// The descriptor at `index`, which a decoder has filled.
    package subscript(index: Int) -> EventDescriptor {
        precondition(index >= 0 && index < Self.capacity)
        // SAFETY: inside the room, by the line above; filled, by the sentence above.
        return unsafe descriptors[index]
    }
}

/// What became of one packet's payload.
package enum DecodeOutcome: Equatable, Sendable {
    /// `count` descriptors are filled; `malformed` further events were well-formed on the wire (a line of
    /// its own in JSON) but broke a rule: refused by themselves, and counted.
    case events(count: Int, malformed: Int)
    /// The wire format is broken: the whole packet is refused. The descriptors mean nothing.
    case malformed
}
