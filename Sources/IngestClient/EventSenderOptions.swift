// events → [send] → encode → packet → socket

import IngestFormat
import IngestKeys

extension EventSender {
    /// What has become of the events so far, or at `close`.
    public struct Totals: Equatable, Sendable {
        /// Events in packets that the socket took.
        public internal(set) var eventsSent: UInt64 = 0
        /// Packets of these events; heartbeats and resends are not among them.
        public internal(set) var packetsSent: UInt64 = 0
        /// Events that the receiver has on disk. With a spool also those of an earlier start.
        public internal(set) var eventsAcked: UInt64 = 0
        /// Without acks: events in bursts that the network refused, of which some may have left. They are not sent again.
        public internal(set) var eventsDropped: UInt64 = 0
        /// Packets that were sent again, each time.
        public internal(set) var packetsResent: UInt64 = 0
        /// Events that were refused before they were sent.
        public internal(set) var eventsRefused: UInt64 = 0
        /// Packets that a receiver had acked and has lost, where the sender went on without them.
        public internal(set) var packetsLost: UInt64 = 0
        /// Packets of the spool that are damaged and were skipped: see `spoolDamage`.
        public internal(set) var packetsDamaged: UInt64 = 0
        /// What the receiver has told of the epoch's events; `nil` where it has not since the last ones were acked, where none
        /// was, and without acks. `close` asks for it, and waits some seconds at most.
        public internal(set) var receiver: ReceiverCounts?
        /// Since the sender was opened.
        public internal(set) var elapsed = Duration.zero

        package init() {}
    }

    /// What became of the events of the epoch that are durable at the receiver. With a spool also those of earlier starts.
    public struct ReceiverCounts: Equatable, Sendable {
        public let counted: UInt64
        /// The receiver had counted the same before: by id, or in one session.
        public let repeated: UInt64
        /// The receiver's rules say that they do not count.
        public let notCounted: UInt64
        /// Why most of these do not, as the ledger names it; `nil` where all count, or for a reason of a later version.
        public let reason: String?

        init(_ sums: EventSums) {
            (counted, repeated, notCounted) = (sums.counted, sums.repeated, sums.refused)
            reason = sums.reason?.name
        }
    }

    /// What became of one event.
    public enum Outcome: Equatable, Sendable {
        case taken
        /// As much is unacked as may be: in memory, or in the spool, whose disk may also be full. The event was not taken:
        /// give it again after an ack.
        case full
        /// It breaks a bound, and nothing was sent of it; the others are not affected.
        case refused(EventRefusal)
    }

    /// How a sender fares.
    public enum State: Equatable, Sendable {
        case working
        /// Packets wait for acks without progress, and why. It may end by itself.
        case waiting(ClientError)
        /// It does nothing any more, and throws this.
        case ended(ClientError)
    }

    public struct Options: Sendable {
        /// Whether the receiver acks, and where packets are until it has.
        public enum Delivery: Equatable, Sendable {
            /// Every packet is sent once; the ledger tells what was lost. A network error, as while the receiver
            /// starts again, costs the packets that were given to it meanwhile, and ends nothing.
            case unacked
            /// Every packet is sent again until it is durable at the receiver. What is not is lost with this process.
            case acked
            /// As `acked`; and packets are on disk here before they are first sent. A sender that is opened on the
            /// directory again, which is made if it is not there, goes on with what is not acked. One sender at a time.
            ///
            /// `durableAtSend`: an event is on disk when `send` has returned, and not only after `flush`; each then costs a
            /// packet and an fdatasync of its own.
            case spooled(directory: String, durableAtSend: Bool = false)
        }

        /// The sender's own id, above 0; `nil` is that of the key, or of the spool, or one at random. Two processes
        /// must never share one.
        public var senderID: UInt64?
        /// The size of full packets: 1,200 … 65,507 bytes. The default fits an Ethernet frame over IPv4 and IPv6, also within
        /// WireGuard; 8,952 is for jumbo frames. Where nothing is acked though the receiver answers, new ones have 1,200.
        public var packetByteCountMax = 1_372
        /// How long an event may wait for its packet to fill: 1 ms … 1 s.
        public var batchDelay = Duration.milliseconds(20)
        public var delivery = Delivery.acked
        /// Tags every packet; acks must be tagged too.
        public var key: Key?
        /// What may be taken and not be acked without a spool, 1 MiB … 1 GiB: beyond that `send` says `.full`.
        public var unackedByteCountMax = 64 << 20
        /// The same of the files of a spool, 32 MiB … 1 TiB. In memory a packet in it takes 16 bytes.
        public var spoolByteCountMax = 10 << 30
        /// Ends the sender after this time without progress in acks, 1 s … a year; if unreachable from the start, ten
        /// seconds are enough. `nil`: it never ends by itself, whatever `state` says.
        public var givesUpAfter: Duration?
        /// Whether it goes on by itself with a receiver that has lost acked data: see `acceptReceiver`.
        public var acceptsReceiver = false
        /// Whether it goes on spooling where it would end for what a receiver says; `state` is `.waiting` then.
        package var spoolsOn = false
        /// Whether a network error ends a sender without acks.
        package var endsAtNetworkErrors = false
        /// `false`: all that the credit allows leaves at once. To measure what `CongestionControl` costs, and for nothing else.
        package var hasCongestionControl = true
        /// JSON lines as they are, without sequence, sender, acks or key: loss is unknown. For receivers that
        /// framed packets cannot reach, and to test a daemon with what its oldest clients send.
        package var isPlain = false

        /// Two files at least: one goes when the next is begun.
        package static let spoolByteCountLimits =
            2 * Limits.spoolFileByteCountMax...Limits.spoolByteCountMax

        public init() {}

        func check() throws(ClientError) {
            if senderID == 0 {
                throw .badOption(name: "senderID", got: "0", allowed: "1 to \(UInt64.max)")
            }
            try check(
                "packetByteCountMax", packetByteCountMax, PacketEncoder.packetByteCountLimits)
            try check("batchDelay", batchDelay, .milliseconds(1)...(.seconds(1)))
            try check(
                "unackedByteCountMax", unackedByteCountMax, 1 << 20...Limits.unackedByteCountMax)
            try check("spoolByteCountMax", spoolByteCountMax, Self.spoolByteCountLimits)
            if let givesUpAfter {
                try check("givesUpAfter", givesUpAfter, .seconds(1)...(.seconds(31_536_000)))
            }
            if let key, let path = key.path, let senderID, let bound = key.sender, bound != senderID
            {
                throw .keys(path: path, .otherSender(id: key.key.id, sender: bound))
            }
        }

        private func check<Value>(
            _ name: String, _ got: Value, _ allowed: ClosedRange<Value>
        ) throws(ClientError) {
            guard allowed.contains(got) else {
                throw .badOption(
                    name: name, got: "\(got)",
                    allowed: "\(allowed.lowerBound) to \(allowed.upperBound)")
            }
        }

        var spoolDirectory: String? {
            guard case .spooled(let directory, _) = delivery else { return nil }
            return directory
        }

        /// How a stream with these options works.
        func configuration(
            _ identity: SenderIdentity, address: String
        ) -> SenderStream.Configuration {
            var configuration = SenderStream.Configuration(identity: identity)
            configuration.delivery = isPlain ? .plain : delivery == .unacked ? .unacked : .acked
            configuration.packetByteCountMax = packetByteCountMax
            configuration.batchNanosecondsMax = batchDelay.nanoseconds
            configuration.unackedByteCountMax = unackedByteCountMax
            configuration.spoolByteCountMax = spoolByteCountMax
            configuration.silenceNanosecondsMax = givesUpAfter?.nanoseconds
            configuration.endsAtNetworkErrors = endsAtNetworkErrors
            configuration.acceptsReceiver = acceptsReceiver
            configuration.hasCongestionControl = hasCongestionControl
            configuration.spoolsOn = spoolsOn
            configuration.key = key?.key
            configuration.otherKeys = key?.others.filter { $0.isFor(identity.sender) } ?? []
            if case .spooled(_, durableAtSend: true) = delivery {
                configuration.isDurableAtSend = true
            }
            configuration.address = address
            configuration.unixMilliseconds = SenderClock.unixNanoseconds() / 1_000_000
            return configuration
        }
    }

    /// A key that tags packets, from a keys file (docs/format/keys.md) or from elsewhere.
    public struct Key: Sendable {
        let key: PacketKey
        /// The others of its file: acks may come under each that the sender may use.
        let others: [PacketKey]
        /// Of its file.
        let path: String?

        /// - Parameters:
        ///   - id: 1 … 65,535, as the receiver's keys file has it.
        ///   - bytes: 16 … 64.
        ///
        /// **Errors** `ClientError.badOption`.
        public init(id: UInt16, bytes: [UInt8]) throws(ClientError) {
            if id == 0 { throw .badOption(name: "key id", got: "0", allowed: "1 to 65535") }
            let allowed = Limits.keyByteCountMin...Limits.keyByteCountMax
            guard allowed.contains(bytes.count) else {
                throw .badOption(
                    name: "the key's byte count", got: "\(bytes.count)",
                    allowed: "\(allowed.lowerBound) to \(allowed.upperBound)")
            }
            key = PacketKey(id: id, key: bytes)
            (others, path) = ([], nil)
        }

        /// The key of a keys file.
        ///
        /// **Errors** `ClientError.keys`: the file is not there, not its owner's alone, wrong, or has no such key.
        public init(id: UInt16, file path: String) throws(ClientError) {
            do throws(KeysError) {
                let file = try KeysFile(path: path)
                guard let key = file[id] else { throw .unknownKey(path: path, id: id) }
                self.key = key
                others = file.keys.filter { $0.id != id }
                self.path = path
            } catch {
                throw ClientError(keys: error)
            }
        }

        /// The only sender that may use the key, if there is one.
        package var sender: UInt64? { key.sender?.rawValue }
    }
}

extension Duration {
    /// Cut to nanoseconds, from 0 on, as far as they fit.
    var nanoseconds: UInt64 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (whole, isOver) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isOverToo) = whole.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000))
        return isOver || isOverToo ? .max : sum
    }
}
