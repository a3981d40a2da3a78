import IngestFormat
import IngestPipeline

/// All settings. A new one is a line here, a line in `all`, an option in `RunOptions` and a value in
/// `DaemonSettings`; a test holds the four together.
enum Settings {
    static let data = Setting<String>("data", "The data directory; made if it is not there.")
    static let udp = Setting<SocketAddress>(
        "udp", "Where packets are received; port 0 picks a free one.", default: "127.0.0.1:4810")
    static let http = Setting<SocketAddress?>(
        "http", "Where HTTP will be served; accepted, but there is no server yet.",
        default: "127.0.0.1:4811")
    static let commitInterval = Setting<Int>(
        "commit-interval-ms", "How long an event may wait for its group commit.",
        in: 1...1_000, default: 5)
    static let segmentBytesMax = Setting<Int>(
        "segment-bytes-max", "How far a segment file grows before the next is begun.",
        in: Limits.segmentByteCountMin...Limits.segmentByteCountMax,
        default: Limits.segmentByteCountDefault)
    static let compactInterval = Setting<Int>(
        "compact-interval-seconds", "How often a new snapshot may be published.",
        in: 1...3_600, default: 1)
    static let retentionDays = Setting<Int>(
        "retention-days", "How many days rows are kept; 0 keeps them for ever.",
        in: 0...36_500, default: 400)
    static let retentionBytes = Setting<Int>(
        "retention-bytes",
        "How many bytes of segments are kept, the newest; 0 is no bound.",
        in: 0...Int.max, default: 0)
    static let maxEventAge = Setting<Int>(
        "max-event-age-seconds", "Events older than this are refused; 0 takes any age.",
        in: 0...10_000_000_000, default: 604_800)
    static let maxEventLead = Setting<Int>(
        "max-event-lead-seconds", "Events further in the future than this are refused.",
        in: 0...31_622_400, default: 300)
    static let countUndetermined = Setting<Bool>(
        "count-undetermined", "Whether impressions without viewability count.", default: true)
    static let countConsentNotSet = Setting<Bool>(
        "count-consent-not-set", "Whether events whose consent is not set count.", default: true)
    static let dedupWindow = Setting<Int>(
        "dedup-window-seconds", "For how long an event id is known, from its commit on.",
        in: 1...316_224_000, default: 605_100)
    static let dedupKeysMax = Setting<Int>(
        "dedup-keys-max", "How many event ids are known at most: the newest; 16 bytes each.",
        in: 1...1 << 30, default: 1 << 26)
    static let outsideDedupWindow = Setting<OutsideWindow>(
        "outside-dedup-window",
        "What becomes of events with an id that are too old to be compared with all before them.",
        default: .count)
    static let timeZone = Setting<BusinessZone>(
        "time-zone", "The zone whose midnight begins a business day.", default: "UTC")
    static let keys = Setting<String?>(
        "keys",
        "Keys of senders, a line each: KEY_ID HEX_KEY [sender=ID|*] [business=ID|*]. With it only packets "
            + "that are tagged by one of them are taken; SIGHUP reads it again.")
    static let receiveBufferBytes = Setting<Int>(
        "receive-buffer-bytes", "The socket's receive buffer, as asked of the kernel.",
        in: 65_536...1_073_741_823, default: 64 << 20)
    static let acceptUnauthenticated = Setting<Bool>(
        "insecure-accept-unauthenticated",
        "Whether to receive beyond loopback, where whoever reaches the port is counted.",
        default: false)

    static let acceptClock = Setting<Bool>(
        "accept-clock", "Whether to start by a clock that is behind the log's last block.",
        default: false)

    static let all: [any AnySetting] = [
        data, udp, http, commitInterval, segmentBytesMax, compactInterval, retentionDays,
        retentionBytes, maxEventAge, maxEventLead, countUndetermined, countConsentNotSet,
        dedupWindow, dedupKeysMax, outsideDedupWindow, timeZone, keys, receiveBufferBytes,
        acceptUnauthenticated, acceptClock,
    ]
}
