// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// One decoded event as the ring carries it: what the commit queue needs of nearly every event. Names are
/// places in the packet's bytes, looked at only where their pair is new. Never on disk.
///
/// **Layout** 64 bytes, alignment 8; plain old data. Fields are those of `EventDescriptor`.
public struct PacketRow: BitwiseCopyable, Sendable {
    public var timestampMicroseconds: Int64
    public var pairHash: UInt64
    /// Of business, type and event id; meaningful only with `EventDescriptor.Flags.hasEventID`.
    public var eventHash: UInt64
    public var platform: Name
    public var pairTag: UInt32
    public var visiblePartsPerMillion: UInt32
    public var durationMilliseconds: UInt32
    public var rewardOffset: UInt16
    public var businessOffset: UInt16
    /// The number of the event's side record in its packet, from 1 on; 0 = it has none.
    public var side: UInt16
    /// Where the session's id is in the packet; byte count 0 = absent.
    public var sessionOffset: UInt16
    public var sessionByteCount: UInt8
    public var rewardByteCount: UInt8
    public var businessByteCount: UInt8
    public var type: UInt8
    public var consent: UInt8
    public var format: UInt8
    public var flags: UInt8

    /// A name's place in the packet's bytes, and its `KeyedHash.name`; byte count 0 = absent.
    public struct Name: BitwiseCopyable, Sendable {
        public var hash: UInt64
        public var offset: UInt16
        public var byteCount: UInt8

        @inline(__always)
        init(_ hash: UInt64, _ offset: UInt16, _ byteCount: UInt8) {
            (self.hash, self.offset, self.byteCount) = (hash, offset, byteCount)
        }
    }

    @inline(__always)
    public init(_ event: borrowing EventDescriptor, side: UInt16 = 0) {
        timestampMicroseconds = event.timestampMicroseconds
        pairHash = event.pairHash
        eventHash = KeyedHash.event(event.eventHash, ofType: event.type)
        platform = Name(event.platformHash, event.platformOffset, event.platformByteCount)
        pairTag = event.pairTag
        visiblePartsPerMillion = event.visiblePartsPerMillion
        durationMilliseconds = event.durationMilliseconds
        rewardOffset = event.rewardOffset
        businessOffset = event.businessOffset
        self.side = side
        sessionOffset = event.sessionOffset
        sessionByteCount = event.sessionByteCount
        rewardByteCount = event.rewardByteCount
        businessByteCount = event.businessByteCount
        type = event.type
        consent = event.consent
        format = event.format
        flags = event.flags
    }

    /// The hash of reward and business.
    public var pair: PairHash {
        @inline(__always) get { PairHash(low: pairHash, tag: pairTag) }
    }
}

/// What not every event has: amounts, campaign and source.
///
/// **Layout** 48 bytes, alignment 8; plain old data. Fields are those of `EventDescriptor`.
public struct PacketSide: BitwiseCopyable, Sendable {
    public var revenueMicros: Int64
    public var spendMicros: Int64
    public var campaign: PacketRow.Name
    public var source: PacketRow.Name

    @inline(__always)
    public init(_ event: borrowing EventDescriptor) {
        revenueMicros = event.revenueMicros
        spendMicros = event.spendMicros
        campaign = PacketRow.Name(
            event.campaignHash, event.campaignOffset, event.campaignByteCount)
        source = PacketRow.Name(event.sourceHash, event.sourceOffset, event.sourceByteCount)
    }
}

/// The rows of one packet's events, and what a ring record has of them behind the packet's bytes: a row for each event,
/// then a side record for each that has what belongs into one. Owned by the receive queue.
///
/// Rows are made here, in the first-level cache, and copied once their number is known, which takes 1 ns an event:
/// room for the most that a packet may hold would leave a third of a slab unused.
///
/// **Cost** 3.5 MiB of address space, taken once; pages that no packet needs are never touched.
@safe public struct PacketRows: ~Copyable {
    private static let capacity = Limits.packetEventCountMax
    private let rows: UnsafeMutablePointer<PacketRow>
    private let sides: UnsafeMutablePointer<PacketSide>
    /// Of rows.
    package private(set) var count = 0
    private var sideCount = 0

    package init() {
        unsafe rows = .allocate(capacity: Self.capacity)
        unsafe sides = .allocate(capacity: Self.capacity)
    }

    deinit {
        unsafe rows.deallocate()
        unsafe sides.deallocate()
    }

    /// What they take in a record, in bytes.
    package var byteCount: Int {
        Self.sideOffset(eventCount: count) &+ sideCount &* MemoryLayout<PacketSide>.stride
    }

    /// Where the side records begin, in bytes from the rows.
    @inline(__always)
    public static func sideOffset(eventCount: Int) -> Int {
        eventCount &* MemoryLayout<PacketRow>.stride
    }

    /// The row at `index`.
    package subscript(index: Int) -> PacketRow {
        precondition(index >= 0 && index < count)
        // SAFETY: there are `count`.
        return unsafe rows[index]
    }

    /// The side record with this number, from 1 on.
    package func side(_ number: UInt16) -> PacketSide {
        precondition(number >= 1 && number <= sideCount)
        // SAFETY: there are `sideCount`.
        return unsafe sides[Int(number) - 1]
    }

    /// Decodes a batch of the usual form, see `ingest_decode_rows`.
    /// - Returns: whether it is one; if not, there are no rows.
    @unsafe mutating func decode(
        packet: UnsafeRawPointer, payloadOffset: Int, payloadByteCount: Int,
        onlyOf businessHash: UInt64?, _ key: UnsafePointer<ingest_hash_key>
    ) -> Bool {
        count = 0
        sideCount = 0
        guard Limits.holdsPayload(at: payloadOffset, byteCount: payloadByteCount) else {
            return false
        }
        // SAFETY: C rows and side records have the layout of these, by a test; of both there is room for an event of two
        // bytes. The caller vouches for the payload.
        var made = unsafe ingest_rows(
            rows: UnsafeMutableRawPointer(rows).assumingMemoryBound(to: ingest_row.self),
            sides: UnsafeMutableRawPointer(sides).assumingMemoryBound(to: ingest_side.self),
            rowCount: 0, sideCount: 0)
        let bytes = unsafe packet.assumingMemoryBound(to: UInt8.self)
        let isUsual: Int32
        if var businessHash {
            isUsual = unsafe ingest_decode_rows(
                key, bytes, payloadOffset, payloadByteCount, &businessHash, &made)
        } else {
            isUsual = unsafe ingest_decode_rows(
                key, bytes, payloadOffset, payloadByteCount, nil, &made)
        }
        guard isUsual != 0 else { return false }
        count = unsafe Int(made.rowCount)
        sideCount = unsafe Int(made.sideCount)
        return true
    }

    /// Makes them those that a decoder has put into the scratch; those of another business than `businessHash`, if it is
    /// given, are marked.
    package mutating func set(
        to scratch: borrowing EventScratch, _ outcome: DecodeOutcome, onlyOf businessHash: UInt64?
    ) {
        guard case .events(let eventCount, _, _) = outcome else { return }
        if let businessHash { scratch.mark(eventCount, notOf: businessHash) }
        // SAFETY: the scratch has as many, or it ends there.
        unsafe set(to: scratch.descriptors, eventCount)
    }

    /// Makes them those of these events, at most as many as a packet may hold (a precondition).
    package mutating func set(to events: [EventDescriptor]) {
        unsafe events.withUnsafeBufferPointer { events in
            count = 0
            sideCount = 0
            // SAFETY: the buffer holds as many.
            if let base = events.baseAddress { unsafe set(to: base, events.count) }
        }
    }

    private mutating func set(to events: UnsafePointer<EventDescriptor>, _ eventCount: Int) {
        precondition(eventCount >= 0 && eventCount <= Self.capacity)
        count = eventCount
        sideCount = 0
        for index in 0..<eventCount {
            // SAFETY: sideCount ≤ index < eventCount ≤ capacity.
            let event = unsafe events + index
            let hasSide = unsafe event.pointee.hasSide
            if hasSide {
                unsafe (sides + sideCount).initialize(to: PacketSide(event.pointee))
                sideCount &+= 1
            }
            unsafe (rows + index).initialize(
                to: PacketRow(
                    event.pointee, side: hasSide ? UInt16(truncatingIfNeeded: sideCount) : 0))
        }
    }

    /// Copies them to `place`, which has room for `byteCount` bytes.
    @unsafe package func copy(to place: UnsafeMutableRawPointer) {
        let sideOffset = Self.sideOffset(eventCount: count)
        unsafe place.copyMemory(from: rows, byteCount: sideOffset)
        unsafe (place + sideOffset).copyMemory(
            from: sides, byteCount: sideCount &* MemoryLayout<PacketSide>.stride)
    }
}

extension EventDescriptor {
    @inline(__always)
    fileprivate var hasSide: Bool {
        revenueMicros | spendMicros | Int64(campaignByteCount | sourceByteCount) != 0
    }
}
