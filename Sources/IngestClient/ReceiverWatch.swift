// packet → socket → [ack] → window

import CIngestLinux
import Glibc
import IngestFormat
import IngestKeys

/// Whether the receiver still is the one that has acked, and has all that it had: what acks say of that, by the heartbeats
/// that they answer.
///
/// A pure value. Anybody may have kept an ack and send it again; an answer that echoes the nonce of a heartbeat was made
/// after that was sent. So nothing but answers ends a sender; what another ack says against the receiver has to be asked
/// about. Answers to the last few heartbeats count, each held against what was known when its heartbeat left: on a path
/// that is longer than the time between heartbeats none would ever be of the newest.
struct ReceiverWatch: Sendable {
    /// A heartbeat that may be answered.
    struct Question: Sendable, Equatable {
        let nonce: UInt64
        let sentAt: UInt64
        /// What had been heard then.
        fileprivate let seen: UInt64
        fileprivate let commitEpoch: UInt64
    }

    /// What is to be made of an ack.
    enum Finding: Equatable {
        /// `answer`: of the heartbeat that it answers.
        case believed(answer: Question?)
        /// It was overtaken by another one.
        case late
        /// It says something that only an answer may say: ask.
        case doubtful
        /// The receiver refuses the epoch or its sequences.
        case refused
        /// It does not know this kind of packet.
        case unsupported
        /// It has less than it had acked.
        case lost(ClientError.LossCause)
    }

    /// At most ten a second are asked: so many are on their way at six seconds.
    private static let questionCountMax = 64

    private(set) var directory: DirectoryID?
    private(set) var commitEpoch: UInt64 = 0
    /// Whether the address may lead to another receiver by now: it gets heartbeats until it has answered.
    private(set) var isUnconfirmed = false
    /// The newest last.
    private(set) var questions: [Question] = []

    /// A heartbeat is about to leave.
    mutating func ask(nonce: UInt64, seen: UInt64, now: UInt64) {
        if questions.count == Self.questionCountMax { questions.removeFirst() }
        questions.append(
            Question(nonce: nonce, sentAt: now, seen: seen, commitEpoch: commitEpoch))
    }

    /// The socket was connected again.
    mutating func reconnected() { isUnconfirmed = directory != nil }

    /// Takes an ack of this sender's own epoch, or one that refuses it.
    mutating func hear(_ ack: borrowing AckView) -> Finding {
        if case .nonce(let nonce) = ack.echo,
            let place = questions.firstIndex(where: { $0.nonce == nonce })
        {
            let question = questions[place]
            // It may be answered twice: that the packets are pending, and with their commit.
            questions.removeSubrange(..<place)
            return judge(ack, answering: question)
        }
        let status = ack.status
        if status == .refused || status == .unsupported || status == .rolledBack {
            return .doubtful
        }
        // Before the first answer too: with a spool, or after another receiver was accepted, it may be an ack of long ago.
        guard !isUnconfirmed, directory == ack.directory else { return .doubtful }
        if ack.commitEpoch < commitEpoch { return .late }
        commitEpoch = ack.commitEpoch
        return .believed(answer: nil)
    }

    private mutating func judge(
        _ ack: borrowing AckView, answering question: Question
    ) -> Finding {
        switch ack.status {
        case .refused: return .refused
        case .unsupported: return .unsupported
        case .rolledBack:
            guard let directory else { return .lost(.lessThanAcked) }
            return .lost(ack.directory == directory ? .olderCopy : .otherDirectory)
        default: break
        }
        if let directory, directory != ack.directory { return .lost(.otherDirectory) }
        if ack.commitEpoch < question.commitEpoch { return .lost(.olderCopy) }
        if ack.status == .ok, !ack.isPending, ack.floor < question.seen {
            return .lost(.olderCopy)
        }
        directory = ack.directory
        isUnconfirmed = false
        if ack.commitEpoch < commitEpoch { return .late }
        commitEpoch = ack.commitEpoch
        return .believed(answer: question)
    }
}

/// Whether the receiver has told what became of all events, which it does in answers to heartbeats.
struct OutcomeWatch: Sendable {
    /// So long the last answer is waited for: what it tells is no part of what a sender promises.
    static let waitNanosecondsMax: UInt64 = 5_000_000_000

    private var answeredAt: UInt64?
    /// Since when all packets below the sequence are acked and it is asked.
    private var asked: (at: UInt64, end: UInt64)?

    var isAsked: Bool { asked != nil }

    /// An answer came to a heartbeat that had left at `askedAt`.
    mutating func heard(askedAt: UInt64) { answeredAt = askedAt }

    /// - Returns: whether it has to be asked, since not all up to `end` was acked before.
    mutating func begin(upTo end: UInt64, now: UInt64) -> Bool {
        if let asked, asked.end == end { return false }
        asked = (now, end)
        return true
    }

    /// Whether an answer came to a heartbeat that left since, or none will be waited for.
    func isKnown(now: UInt64) -> Bool {
        guard let asked else { return false }
        return answeredAt.map { $0 >= asked.at } ?? false
            || now - min(now, asked.at) >= Self.waitNanosecondsMax
    }
}

/// What a receiver answers to a probe: it is there, takes the key, and has this clock. A probe is no event, opens no window
/// and is not counted.
public struct ReceiverProbe: Equatable, Sendable {
    /// Of the receiver's data directory.
    public let directoryID: UInt64
    /// The shortest of some.
    public let roundTripNanoseconds: UInt64
    /// By how much the receiver's clock is ahead of this machine's, exact to half of the round trip.
    public let clockLeadMicroseconds: Int64
    /// Versions of packets that it takes.
    public let versions: ClosedRange<Int>
    /// The largest packet that it takes.
    public let packetByteCountMax: Int

    private static let probeCount = 5
    private static let waitMillisecondsMax: Int32 = 1_000

    /// Asks a receiver, five times at most; of a name with several addresses the first whose port is reachable.
    ///
    /// - Parameters:
    ///   - address: HOST:PORT.
    ///   - sender: whose key it is; `nil` is that of the key, or any.
    ///
    /// **Errors** `ClientError.noAnswer` after 5 s: nobody is there, or the key is none of the receiver's, which does not say
    /// which; `badAddress`, `unresolved`, `notListening`, `socket`.
    /// **Cost** Five round trips; blocks the thread.
    public static func ask(
        _ address: String, sender: UInt64? = nil, key: EventSender.Key? = nil
    ) throws(ClientError) -> ReceiverProbe {
        var (tried, failure): ([ingest_address], ClientError?) = ([], nil)
        while true {
            let transport = try UDPTransport(address: address, behind: tried.last)
            guard let peer = transport.peer, !tried.contains(where: { $0.isSame(as: peer) }) else {
                throw failure ?? .notListening(address: address)
            }
            do throws(ClientError) {
                return try ask(transport, address, sender: sender, key: key)
            } catch {
                // Another address of the name may be reachable.
                guard error.isTemporary else { throw error }
                failure = failure ?? error
                tried.append(peer)
            }
        }
    }

    private static func ask(
        _ transport: UDPTransport, _ address: String, sender: UInt64?, key: EventSender.Key?
    ) throws(ClientError) -> ReceiverProbe {
        let identity = SenderIdentity(
            sender: SenderID(rawValue: sender ?? key?.sender ?? .random(in: 1...UInt64.max)),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
        var best: ReceiverProbe?
        for _ in 0..<probeCount {
            guard let answer = try ask(transport, identity, key?.key) else {
                // What was there before has had its chance.
                if best != nil { break }
                continue
            }
            if answer.roundTripNanoseconds < best?.roundTripNanoseconds ?? .max { best = answer }
        }
        guard let best else {
            throw .noAnswer(
                address: address, seconds: UInt64(probeCount) * UInt64(waitMillisecondsMax) / 1_000)
        }
        return best
    }

    /// Sends one probe and waits for its answer; `nil` if none came.
    private static func ask(
        _ transport: UDPTransport, _ identity: SenderIdentity, _ key: PacketKey?
    ) throws(ClientError) -> ReceiverProbe? {
        let sentAt = SenderClock.monotonicNanoseconds()
        let now = Int64(SenderClock.unixNanoseconds() / 1_000)
        let probe = Probe(nonce: .random(in: 0...UInt64.max), unixMicroseconds: now)
        let header = PacketHeader(
            kind: .probe, flags: key == nil ? 0 : PacketHeader.Flags.hasTag, keyID: key?.id ?? 0,
            sender: identity.sender, epoch: identity.epoch, sequence: PacketSequence(rawValue: 0))
        var packet = probe.packet(header)
        key?.tag.append(to: &packet)
        try transport.send(packet.span, segmentByteCount: packet.count)
        let deadline = sentAt + UInt64(waitMillisecondsMax) * 1_000_000
        while true {
            let waited = SenderClock.monotonicNanoseconds()
            guard waited < deadline else { return nil }
            var waiting = pollfd(fd: transport.socket, events: Int16(POLLIN), revents: 0)
            // SAFETY: the kernel writes into one pollfd.
            let count = unsafe poll(&waiting, 1, Int32((deadline - waited) / 1_000_000) + 1)
            try transport.checkNetworkError()
            guard count == 1 else { continue }
            let heardAt = SenderClock.monotonicNanoseconds()
            guard let answer = receive(from: transport, key), answer.nonce == probe.nonce else {
                continue
            }
            let roundTrip = heardAt - sentAt
            // Versions of a hostile answer may be the wrong way round.
            let lowest = min(answer.lowestVersion, answer.highestVersion)
            return ReceiverProbe(
                directoryID: answer.directory.rawValue, roundTripNanoseconds: roundTrip,
                clockLeadMicroseconds: answer.unixMicroseconds &- now
                    &- Int64(roundTrip / 2_000),
                versions: Int(lowest)...Int(max(lowest, answer.highestVersion)),
                packetByteCountMax: Int(answer.packetByteCountMax))
        }
    }

    /// A datagram that is an answer and has the key's tag.
    private static func receive(from transport: UDPTransport, _ key: PacketKey?) -> ProbeAnswer? {
        var bytes = [UInt8](repeating: 0, count: 2_048)
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let count = unsafe recv(transport.socket, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return nil }
        return unsafe bytes.withUnsafeBytes { bytes in
            let packet = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
            guard case .packet(let header) = unsafe PacketHeader.parse(packet, for: .sender)
            else { return nil }
            if let key {
                guard header.hasTag, header.keyID == key.id, unsafe key.tag.isTag(of: packet)
                else { return nil }
            }
            return unsafe ProbeAnswer(header, of: packet)
        }
    }
}

// MARK: What keeps packets from being acked, and when that ends a sender

extension SenderStream {
    /// So long acks may tell of nothing new before it is called an obstacle: a slow disk takes seconds.
    static let stagnationNanoseconds: UInt64 = 10_000_000_000

    /// What keeps packets from being acked: a full spool, silence for two heartbeats, a receiver that takes nothing for as
    /// long, or acks for ten seconds that tell of nothing new. Without acks what the network said last. It may end by itself.
    package func obstacle(now: UInt64) -> ClientError? {
        if let stall { return stall }
        if let suspension { return suspension }
        guard isAcked else { return timers.networkError }
        return obstacle(
            now: now, silenceMax: SenderTimers.silenceMin,
            stagnationMax: Self.stagnationNanoseconds, blockMax: SenderTimers.silenceMin)
    }

    /// - Parameter blockMax: how long the receiver may take nothing: what a spool holds waits for it as long as that lasts.
    func obstacle(
        now: UInt64, silenceMax: UInt64, stagnationMax: UInt64, blockMax: UInt64
    ) -> ClientError? {
        if let stall, let since = timers.stalledSince, now - min(now, since) >= silenceMax {
            return stall
        }
        let silence = timers.silence(now: now)
        if silence >= silenceMax {
            return timers.networkError
                ?? .noAnswer(address: configuration.address, seconds: silence / 1_000_000_000)
        }
        if let block = timers.block(now: now), block.nanoseconds >= blockMax {
            return .notTaken(
                address: configuration.address, cause: block.cause,
                seconds: block.nanoseconds / 1_000_000_000)
        }
        guard timers.stagnation(now: now) >= stagnationMax else { return nil }
        return .noProgress(
            address: configuration.address, sequence: window.base,
            byteCount: wireByteCount(window.base))
    }

    var silenceMax: UInt64? {
        guard let silenceMax = configuration.silenceNanosecondsMax else { return nil }
        let isUnreachable = !timers.hasHeard && timers.networkError != nil
        return isUnreachable ? min(configuration.absenceNanosecondsMax, silenceMax) : silenceMax
    }

    func refusal(known: SenderEpoch) -> ClientError {
        let epoch = configuration.identity.epoch
        let isAhead =
            configuration.unixMilliseconds.map {
                epoch.rawValue >> 20 > $0 + Limits.epochLeadMillisecondsMax
            } ?? false
        return .refused(
            sender: configuration.identity.sender.rawValue, epoch: epoch.rawValue,
            cause: known.rawValue > epoch.rawValue
                ? .newerEpoch(known.rawValue) : isAhead ? .clock : .reused)
    }
}
