// [packet] → [decode] → ring → admit → block → segment → compaction → snapshot → query
// What operators read about what was refused: a line a second and kind at most, and nothing in it that a
// sender could use to forge lines or that tells of a user.
import CIngestLinux
import IngestFormat

/// Refusals by kind since the last line, with the last of each. A plain value; noting allocates nothing.
struct RefusalSamples {
    struct Sample: BitwiseCopyable {
        var source = ingest_address()
        var byteCount = 0
        /// The first bytes, at most four: where the magic is, and never more, because ids may follow.
        var head: UInt32 = 0
    }

    /// Events that were malformed in packets that were taken.
    struct MalformedEvents: BitwiseCopyable {
        var eventCount: UInt64 = 0
        var packetCount: UInt64 = 0
        /// The last of these packets.
        var last = Sample()
    }

    private(set) var counts = InlineArray<15, UInt64>(repeating: 0)
    private(set) var last = InlineArray<15, Sample>(repeating: Sample())
    private(set) var malformedEvents = MalformedEvents()

    mutating func note(
        _ result: PacketResult, _ bytes: UnsafeRawBufferPointer, from source: ingest_address
    ) {
        let index = Int(result.rawValue)
        counts[index] &+= 1
        var sample = Sample(source: source, byteCount: bytes.count)
        for place in 0..<min(4, bytes.count) {
            // SAFETY: place < count.
            sample.head |= unsafe UInt32(bytes[place]) << (8 * UInt32(place))
        }
        last[index] = sample
    }

    /// Notes a packet that was taken, but for `count` events of it.
    mutating func noteMalformedEvents(_ count: Int, byteCount: Int, from source: ingest_address) {
        malformedEvents.eventCount &+= UInt64(count)
        malformedEvents.packetCount &+= 1
        malformedEvents.last = Sample(source: source, byteCount: byteCount)
    }

    /// Forgets the refusals of one kind: a line has told of them.
    mutating func clear(_ result: PacketResult) { counts[Int(result.rawValue)] = 0 }
    mutating func clearMalformedEvents() { malformedEvents = MalformedEvents() }
}

/// Makes log lines of refusals and kernel drops. Owned by the receive queue.
///
/// What the receive stage refuses is known with its size and sender; what later stages refuse is told by
/// the growth of their counters. Lines go to a closure that must not block: see `LogLines`.
struct RefusalLog {
    private let write: @Sendable (String) -> Void
    /// When the next line of a kind may come, monotonic nanoseconds, by place.
    private var dueNanoseconds = InlineArray<31, UInt64>(repeating: 0)
    /// How far lines have told of a counter that only grows, by place.
    private var told = InlineArray<31, UInt64>(repeating: 0)

    private static let intervalNanoseconds: UInt64 = 1_000_000_000

    /// One for each kind of line: those of packet results by their raw value, then these.
    private enum Place {
        static let kernelDrops = 15
        static let malformedEvents = 16
        static let tooOld = 17
        static let tooEarly = 18
        static let shedForRoom = 19
        static let nameRefusals = 20
        static let pairMismatches = 21
        static let attributionOverflows = 22
        static let attributionsDropped = 23
        static let rolledBackHeartbeats = 24
        static let moneyRefusals = 25
        static let wrongBusiness = 26
        /// And those behind, one for each `KeyQuota`.
        static let quotas = 27
    }

    init(write: @escaping @Sendable (String) -> Void) {
        self.write = write
        precondition(Place.quotas + KeyQuota.allCases.count == told.count)
    }

    /// Lets every kind have its next line at once: for the end, when nothing may be left to tell.
    mutating func endIntervals() { dueNanoseconds = InlineArray(repeating: 0) }

    /// Writes a line for each kind of refusal that has something to tell and has been silent for a second.
    mutating func tell(_ samples: inout RefusalSamples, nowNanoseconds: UInt64) {
        for result in PacketResult.allCases {
            let index = Int(result.rawValue)
            guard samples.counts[index] > 0, isDue(index, nowNanoseconds) else { continue }
            write(Self.line(result, samples.counts[index], samples.last[index]))
            samples.clear(result)
        }
        if samples.malformedEvents.eventCount > 0, isDue(Place.malformedEvents, nowNanoseconds) {
            write(Self.line(samples.malformedEvents))
            samples.clearMalformedEvents()
        }
    }

    /// Writes a line of datagrams that the kernel dropped; `dropCount` is of the socket's life.
    mutating func tell(
        dropCount: UInt64, receiveBufferByteCount: Int, nowNanoseconds: UInt64
    ) {
        if let count = growth(Place.kernelDrops, of: dropCount, nowNanoseconds) {
            write(
                "the kernel dropped \(count) datagrams because the receive buffer of "
                    + "\(receiveBufferByteCount) bytes was full: raise --receive-buffer-bytes, and "
                    + "net.core.rmem_max if the effective size is smaller than requested")
        }
    }

    /// Writes what the commit stage has refused and an operator can do something about.
    ///
    /// - Parameter state: of the clock's steps, and the keys over their quotas.
    mutating func tell(
        _ counters: PipelineCounters, _ state: StageLinks.SharedState?, nowNanoseconds now: UInt64
    ) {
        let step = state?.clockStepSeconds ?? 0
        writeGrowth(Place.tooOld, of: counters.events[.tooOld], "event", now) {
            "refused \($0) as too_old: older than "
                + "--max-event-age-seconds; "
                + (Self.blame(step) ?? "check clock synchronisation, or use 0 to load history")
        }
        writeGrowth(Place.tooEarly, of: counters.events[.tooEarly], "event", now) {
            "refused \($0) as too_early: further ahead than "
                + "--max-event-lead-seconds; "
                + (Self.blame(step) ?? "check clock synchronisation of the senders")
        }
        writeGrowth(Place.wrongBusiness, of: counters.events[.wrongBusiness], "event", now) {
            "refused \($0) as wrong_business: the sender's key is bound to another business, or "
                + "the reward is another's; check the keys file and the reward owners file"
        }
        writeGrowth(Place.shedForRoom, of: counters.commit[.shedForRoom], "datagram", now) {
            "refused \($0) as shed because the windows of senders "
                + "are full (\(Limits.windowCountMax), or \(Limits.windowByteCountMax) bytes): give "
                + "each sender one id, and let it keep its epoch"
        }
        writeGrowth(Place.nameRefusals, of: counters.commit[.nameRefusals], "event", now) {
            "refused \($0) as malformed because the tables of names and "
                + "keys are full (\(Limits.nameCountMax) and \(Limits.keyCountMax)): new names "
                + "need another data directory"
        }
        writeGrowth(Place.pairMismatches, of: counters.commit[.pairMismatches], "event", now) {
            "refused \($0) as malformed because the hash of reward and business "
                + "led to the key of other names: test the memory, and restart"
        }
        writeGrowth(Place.moneyRefusals, of: counters.commit[.moneyRefusals], "event", now) {
            "refused \($0) as malformed because revenue or spend is over "
                + "--money-max: look at their sender, or raise it"
        }
        writeGrowth(
            Place.rolledBackHeartbeats, of: counters.commit[.rolledBackHeartbeats], "heartbeat", now
        ) {
            "\($0) of senders that had heard of more than this directory has:"
                + " it was restored from an older copy, or is another one; start the right one, or let"
                + " them go on by --accept-receiver"
        }
        tellQuotas(counters, state, now)
        tellAttributions(counters, now)
    }

    private mutating func tellQuotas(
        _ counters: PipelineCounters, _ state: StageLinks.SharedState?, _ now: UInt64
    ) {
        for quota in KeyQuota.allCases {
            let place = Place.quotas + quota.rawValue
            writeGrowth(place, of: counters.commit[quota.counter], "datagram", now) {
                "shed \($0) because the senders of one key, the last one "
                    + "\(state?.lastKey(over: quota) ?? 0), \(Self.cause(quota))"
            }
        }
    }

    private mutating func tellAttributions(_ counters: PipelineCounters, _ now: UInt64) {
        writeGrowth(
            Place.attributionOverflows, of: counters.commit[.attributionOverflows], "event", now
        ) {
            "counted \($0) under campaign and source (other), or without a platform: "
                + "more than --campaign-keys-max combinations of reward, campaign and source, "
                + "\(Limits.attributionNameCountMax) campaigns and sources, "
                + "\(Limits.platformCountMax) platforms, or \(Limits.nameCountMax) names in all: send fewer different ones"
        }
        writeGrowth(
            Place.attributionsDropped, of: counters.receive[.attributionsDropped], "value", now
        ) {
            "dropped \($0) of platform, campaign or source, which are over "
                + "\(Limits.attributionByteCountMax) bytes, contain @ or are not UTF-8; their events are kept"
        }
    }

    /// What they did, and what to do.
    private static func cause(_ quota: KeyQuota) -> String {
        switch quota {
        case .windows:
            "have --windows-per-key-max windows, or an eighth of the memory for all: let each sender keep its id and "
                + "epoch, or raise the first"
        case .names:
            "gave more names than --new-names-per-minute: look at what they send as rewards, or raise it"
        case .epochs:
            "began more epochs than --new-epochs-per-minute: let programs run on, or raise it"
        case .endedEpochs:
            "have as many ids whose epochs ended within a week as are known one by one "
                + "(\(Limits.expiredEpochOfKeyCountMax) where there are few keys): let each sender keep its id"
        }
    }

    // MARK: Rate

    /// Whether a line of this kind may be written now; if so, the next has to wait for its interval.
    private mutating func isDue(_ place: Int, _ now: UInt64) -> Bool {
        guard now >= dueNanoseconds[place] else { return false }
        dueNanoseconds[place] = now &+ Self.intervalNanoseconds
        return true
    }

    /// By how much a counter has grown since the last line, if it has and a line is due.
    private mutating func growth(_ place: Int, of count: UInt64, _ now: UInt64) -> UInt64? {
        guard count > told[place], isDue(place, now) else { return nil }
        defer { told[place] = count }
        return count - told[place]
    }

    /// Writes a line of what has grown.
    /// - Parameter line: is given by how much, with its noun.
    private mutating func writeGrowth(
        _ place: Int, of count: UInt64, _ noun: String, _ now: UInt64, _ line: (String) -> String
    ) {
        guard let growth = growth(place, of: count, now) else { return }
        write(line(Self.counted(growth, noun)))
    }

    // MARK: Words

    /// Where to look while this machine's clock is not the one that events are admitted by.
    private static func blame(_ stepSeconds: Int64) -> String? {
        if stepSeconds == 0 { return nil }
        return "the clock of this machine stepped \(stepSeconds > 0 ? "forward" : "back") by "
            + "\(stepSeconds.magnitude) s and the step is ignored: "
            + AdmissionClock<LinuxClock>.remedy(stepSeconds)
    }

    private static func counted(_ count: UInt64, _ noun: String) -> String {
        "\(count) \(noun)\(count == 1 ? "" : "s")"
    }

    static func line(_ malformed: RefusalSamples.MalformedEvents) -> String {
        "refused \(counted(malformed.eventCount, "event")) as malformed in "
            + "\(counted(malformed.packetCount, "datagram")), the last of "
            + "\(malformed.last.byteCount) bytes from \(SocketAddress(malformed.last.source))"
    }

    static func line(_ result: PacketResult, _ count: UInt64, _ last: RefusalSamples.Sample)
        -> String
    {
        let source = SocketAddress(last.source)
        var line =
            "refused \(counted(count, "datagram")) as \(result.name), the last of \(last.byteCount) bytes "
            + "from \(source)"
        if result == .badMagic {
            let head = (0..<UInt32(min(4, last.byteCount))).map {
                UInt8(truncatingIfNeeded: last.head >> (8 * $0))
            }
            line += ", beginning with \"\(escaped(head))\""
        }
        return line
    }

    /// Printable ASCII as it is, every other byte as `\xHH`: no line break, no terminal sequence.
    static func escaped(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let isPlain = byte >= 0x20 && byte < 0x7F && byte != 0x22 && byte != 0x5C
            if isPlain { return String(UnicodeScalar(byte)) }
            let digits = String(byte, radix: 16)
            return "\\x" + (digits.count == 1 ? "0" : "") + digits
        }.joined()
    }
}
