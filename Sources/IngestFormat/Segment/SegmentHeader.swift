// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → [query]

/// The first bytes of a segment file: whose it is, and where its log goes on from.
///
/// **Layout** docs/format/segment.md. Fixed 192 bytes; the first block follows at once.
package struct SegmentHeader: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .int("shard", \.shard),
        .id("segment", \.segment, in: 1...UInt64(UInt32.max)),
        .int("previous checksum", \.previousChecksum), .id("directory", \.directory),
        .int("created at", \.createdAt), .int("commit epoch", \.commitEpoch),
        .id("first name", \.firstName, in: Limits.nextNames),
        .id("first key", \.firstKey, in: Limits.nextKeys),
        .int(
            "hash algorithm", \.origin.hashAlgorithm, in: 0...UInt64(KeyedHash.algorithm)),
        .reserved(7), .int("directory created at", \.origin.createdAt),
        .bytes("hash key", \.origin.hashKey, KeyedHash.keyByteCount),
        .int("unclean stop at", \.uncleanStopAt), .int("policy version", \.policyVersion),
        .int("policy flags", \.policy.flags, in: 0...CountingPolicy.flagsMax),
        .reserved(1, "reserved policy"),
        .int("age max", \.policy.age, in: 0...UInt64(Int64.max)),
        .int("lead max", \.policy.leadMicrosecondsMax, in: 0...UInt64(Int64.max)),
        .int("dedup window", \.policy.windowMicroseconds, in: 0...UInt64(Int64.max)),
        .int("dedup keys max", \.policy.keys, in: 0...UInt64(Int64.max)),
        .int("session keys max", \.policy.sessionKeys, in: 0...UInt64(Int64.max)),
        .int("session timeout", \.policy.sessions.timeoutSeconds),
        .int("click interval", \.policy.sessions.clickIntervalMilliseconds),
        .int("session impressions max", \.policy.sessions.impressionsPerMinuteMax),
        .int("session clicks max", \.policy.sessions.clicksPerMinuteMax),
        .reserved(24, "reserved end"), .checksum)
    package static let byteCount = layout.byteCount
    /// `IGS1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3153_4749

    package var directory: DirectoryID
    package var shard: UInt16
    /// From 1.
    package var segment: SegmentNumber
    /// Microseconds since 1970 UTC.
    package var createdAt: Int64
    /// `BlockSummary.headerChecksum` of the last block before this segment; 0 if there is none.
    package var previousChecksum: UInt32
    /// The ordinals that the first block begins with.
    package var firstName: NameOrdinal
    package var firstKey: KeyOrdinal
    /// The commit epoch of the first block.
    package var commitEpoch: UInt64
    /// What was drawn with the directory, so that the log says all that a manifest can be made again from.
    package var origin: DirectoryOrigin
    /// When the start that began this segment found that the log had not been ended properly; 0 if it had, and in the
    /// segments that follow.
    package var uncleanStopAt: Int64 = 0
    /// The counting rules of its rows: version of those that the daemon had that made it, and their numbers. Version 0
    /// where the segment's own header was lost.
    package var policyVersion: UInt16
    package var policy: CountingPolicy

    package init(
        directory: DirectoryID, shard: UInt16 = 0, segment: SegmentNumber, createdAt: Int64,
        previousChecksum: UInt32, firstName: NameOrdinal, firstKey: KeyOrdinal, commitEpoch: UInt64,
        origin: DirectoryOrigin = DirectoryOrigin(), uncleanStopAt: Int64 = 0,
        policy: CountingPolicy? = nil
    ) {
        policyVersion = policy == nil ? 0 : CountingPolicy.version
        self.policy = policy ?? .unknown
        self.origin = origin
        self.uncleanStopAt = uncleanStopAt
        self.directory = directory
        self.shard = shard
        self.segment = segment
        self.createdAt = createdAt
        self.previousChecksum = previousChecksum
        self.firstName = firstName
        self.firstKey = firstKey
        self.commitEpoch = commitEpoch
    }

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

    /// That of its bytes: their last four. The footer has it too.
    package var checksum: UInt32 {
        encode().suffix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Checks and decodes the first 192 bytes of a segment file; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory or number; `corrupt` for an
    /// ordinal beyond its limit.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentHeader {
        let reader = try layout.open(
            bytes, magic: magic, of: directory,
            (layout.segment, segment.map { UInt64($0.rawValue) }))
        return try layout.load(reader, into: blank)
    }

    private static let blank = SegmentHeader(
        directory: DirectoryID(rawValue: 0), segment: SegmentNumber(rawValue: 1), createdAt: 0,
        previousChecksum: 0, firstName: .none, firstKey: KeyOrdinal(rawValue: 0), commitEpoch: 0)
}

/// What is drawn once, with generation 0, and is the same in all segments of a directory.
package struct DirectoryOrigin: Hashable, Sendable {
    /// Microseconds since 1970 UTC.
    package var createdAt: Int64
    /// Algorithm and key of `KeyedHash`; the algorithm 0 where no directory is behind the segment.
    package var hashAlgorithm: UInt8
    /// 32 bytes.
    package var hashKey: [UInt8]

    package init(
        createdAt: Int64 = 0, hashAlgorithm: UInt8 = 0,
        hashKey: [UInt8] = [UInt8](repeating: 0, count: KeyedHash.keyByteCount)
    ) {
        self.createdAt = createdAt
        self.hashAlgorithm = hashAlgorithm
        self.hashKey = hashKey
    }
}

extension Manifest {
    package var origin: DirectoryOrigin {
        DirectoryOrigin(
            createdAt: directoryCreatedAt, hashAlgorithm: hashAlgorithm, hashKey: hashKey)
    }
}

extension Limits {
    /// What the next ordinal to be given can be: one beyond the last at most.
    static let nextNames: ClosedRange<UInt64> = 1...UInt64(nameCountMax) + 1
    static let nextKeys: ClosedRange<UInt64> = 0...UInt64(keyCountMax)
}

/// The last bytes of a sealed segment file: where its footer is.
///
/// **Layout** docs/format/segment.md. Fixed 64 bytes at the very end of the file.
package struct SegmentTrailer: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .reserved(2), .id("segment", \.segment, in: 1...UInt64(UInt32.max)),
        .int("footer checksum", \.footerChecksum), .id("directory", \.directory),
        .int(
            "footer offset", \.footerOffset,
            in: SegmentLayout.blocksOffset...UInt64(Limits.segmentByteCountMax)),
        .int(
            "footer byte count", \.footerByteCount,
            in: UInt64(SegmentFooter.layout.byteCount + 4)...UInt64(Limits.footerByteCountMax)),
        .reserved(20, "reserved end"), .checksum)
    package static let byteCount = layout.byteCount
    /// `IGT1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3154_4749

    package var directory: DirectoryID
    package var segment: SegmentNumber
    /// Where the footer begins in the file; it ends where the trailer begins.
    package var footerOffset: UInt64
    package var footerByteCount: UInt64
    /// CRC-32C of the footer's head and section table, and so, by the sections' own, of all of it.
    package var footerChecksum: UInt32

    package init(
        directory: DirectoryID, segment: SegmentNumber, footerOffset: UInt64,
        footerByteCount: UInt64, footerChecksum: UInt32
    ) {
        self.directory = directory
        self.segment = segment
        self.footerOffset = footerOffset
        self.footerByteCount = footerByteCount
        self.footerChecksum = footerChecksum
    }

    /// Byte count of the file that this trailer ends.
    package var fileByteCount: UInt64 { footerOffset + footerByteCount + UInt64(Self.byteCount) }

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

    /// Checks and decodes the last 64 bytes of a segment file.
    /// - Parameters:
    ///   - fileByteCount: of the whole file: footer and trailer must end exactly there.
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`: `notThisFile` for its magic means that there is no trailer, which
    /// is what an unsealed segment looks like; `corrupt` if the footer would not fill the file's end.
    package static func decode(
        _ bytes: [UInt8], fileByteCount: UInt64, directory: DirectoryID? = nil,
        segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentTrailer {
        let reader = try layout.open(
            bytes, magic: magic, of: directory,
            (layout.segment, segment.map { UInt64($0.rawValue) }))
        let trailer = try layout.load(
            reader,
            into: SegmentTrailer(
                directory: DirectoryID(rawValue: 0), segment: SegmentNumber(rawValue: 1),
                footerOffset: 0, footerByteCount: 0, footerChecksum: 0))
        guard trailer.fileByteCount == fileByteCount else {
            throw reader.corrupt(
                layout.footerByteCount,
                .exactly(fileByteCount &- trailer.footerOffset &- UInt64(byteCount)))
        }
        return trailer
    }
}

/// The numbers of the counting rules, as an operator chose them: options of the daemon. They stand in the header of each
/// segment, so that its rows can be judged again by the rules of their time. The rules are in `IngestRules`.
public struct CountingPolicy: Hashable, Sendable {
    /// Stands in each block header. Raised with every change of a rule.
    public static let version: UInt16 = 3

    /// Oldest accepted event: admission time minus this; `nil` accepts any age. Microseconds, > 0.
    public var ageMicrosecondsMax: Int64?
    /// Furthest accepted future: admission time plus this. Microseconds, ≥ 0.
    public var leadMicrosecondsMax: Int64
    /// Whether impressions without both viewability numbers count (they are shown apart either way).
    public var countsUndetermined: Bool
    /// Whether events whose consent is not set count.
    public var countsConsentNotSet: Bool
    /// Claims of event ids are kept for so long after their commit, µs, > 0.
    public var windowMicroseconds: Int64
    /// Claims kept at most, ≥ 1.
    public var keyCountMax: Int
    /// Whether an event with an id that is too old to be compared is refused; else it is counted, and shown.
    public var refusesOutsideWindow: Bool
    public var sessions: SessionPolicy

    public init(
        ageMicrosecondsMax: Int64? = 604_800_000_000, leadMicrosecondsMax: Int64 = 300_000_000,
        countsUndetermined: Bool = true, countsConsentNotSet: Bool = true,
        windowMicroseconds: Int64 = 605_100_000_000, keyCountMax: Int = 1 << 26,
        refusesOutsideWindow: Bool = false, sessions: SessionPolicy = SessionPolicy()
    ) {
        self.ageMicrosecondsMax = ageMicrosecondsMax
        self.leadMicrosecondsMax = leadMicrosecondsMax
        self.countsUndetermined = countsUndetermined
        self.countsConsentNotSet = countsConsentNotSet
        self.windowMicroseconds = windowMicroseconds
        self.keyCountMax = keyCountMax
        self.refusesOutsideWindow = refusesOutsideWindow
        self.sessions = sessions
    }
}

/// The numbers of the rules on sessions.
public struct SessionPolicy: Hashable, Sendable {
    /// Whether sessions are looked at; if not, none is kept.
    public var isOn: Bool
    /// A session ends when no event of it was received for so long, seconds, > 0.
    public var timeoutSeconds: UInt32
    /// A click on a reward nearer than this to the last one counted in the session is invalid, milliseconds of event time.
    /// 0 = no limit, as below.
    public var clickIntervalMilliseconds: UInt32
    public var impressionsPerMinuteMax: UInt32
    public var clicksPerMinuteMax: UInt32
    /// Sessions, and rewards in sessions, kept at most.
    public var keyCountMax: Int

    public init(
        isOn: Bool = true, timeoutSeconds: UInt32 = 600, clickIntervalMilliseconds: UInt32 = 1_000,
        impressionsPerMinuteMax: UInt32 = 120, clicksPerMinuteMax: UInt32 = 30,
        keyCountMax: Int = 1 << 24
    ) {
        self.isOn = isOn
        self.timeoutSeconds = timeoutSeconds
        self.clickIntervalMilliseconds = clickIntervalMilliseconds
        self.impressionsPerMinuteMax = impressionsPerMinuteMax
        self.clicksPerMinuteMax = clicksPerMinuteMax
        self.keyCountMax = keyCountMax
    }
}

// MARK: As in a segment header

extension CountingPolicy {
    /// Of a segment whose header was lost: any age, and all that is a matter of policy.
    static let unknown = CountingPolicy(ageMicrosecondsMax: nil)

    private static var undeterminedBit: UInt8 { 1 }
    private static var notSetBit: UInt8 { 2 }
    private static var outsideBit: UInt8 { 4 }
    private static var sessionsBit: UInt8 { 8 }
    static let flagsMax: UInt64 = 15

    /// What is on.
    var flags: UInt8 {
        get {
            (countsUndetermined ? Self.undeterminedBit : 0)
                | (countsConsentNotSet ? Self.notSetBit : 0)
                | (refusesOutsideWindow ? Self.outsideBit : 0)
                | (sessions.isOn ? Self.sessionsBit : 0)
        }
        set {
            countsUndetermined = newValue & Self.undeterminedBit != 0
            countsConsentNotSet = newValue & Self.notSetBit != 0
            refusesOutsideWindow = newValue & Self.outsideBit != 0
            sessions.isOn = newValue & Self.sessionsBit != 0
        }
    }

    /// 0 for any age.
    var age: Int64 {
        get { ageMicrosecondsMax ?? 0 }
        set { ageMicrosecondsMax = newValue == 0 ? nil : newValue }
    }

    var keys: UInt64 {
        get { UInt64(keyCountMax) }
        set { keyCountMax = Int(clamping: newValue) }
    }

    var sessionKeys: UInt64 {
        get { UInt64(sessions.keyCountMax) }
        set { sessions.keyCountMax = Int(clamping: newValue) }
    }
}
