// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
// The names of all files of a data directory: the only place that makes or parses them.

/// A number that names one run or names run: from 1, growing over the directory's life, never reused.
/// The manifest holds the next one to be given.
package struct FileNumber: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    /// The number after this one.
    package var next: FileNumber { FileNumber(rawValue: rawValue &+ 1) }
}

/// The number of a manifest: 0 is made with the directory, +1 each, never reused.
package struct Generation: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    /// The number after this one.
    package var next: Generation { Generation(rawValue: rawValue &+ 1) }
}

/// What a run holds. The raw value is on disk; the name is part of file names.
package enum TableKind: UInt8, Sendable, CaseIterable {
    /// Counters by `KeyOrdinal`, over all days.
    case rewards = 1
    /// Counters by (business `NameOrdinal`, day).
    case days = 2
    /// Counters by (`KeyOrdinal`, day): what segment footers hold too.
    case rewardDays = 3
    /// As `rewardDays`, of segments whose rows have expired, with their ledger: a part of the log.
    case expired = 4
    /// Names and keys of a range of ordinals.
    case names = 5
    /// As `names`, of segments whose rows have expired: a part of the log.
    case expiredNames = 6

    package var name: String {
        switch self {
        case .rewards: "rewards"
        case .days: "days"
        case .rewardDays: "reward-days"
        case .expired: "expired"
        case .names: "names"
        case .expiredNames: "expired-names"
        }
    }

    /// Whether rows have a day beside their ordinal.
    package var hasDay: Bool { self == .days || self == .rewardDays || self == .expired }
    /// Whether it holds names and keys, and no counters.
    package var isNames: Bool { self == .names || self == .expiredNames }
    /// Whether it can be made again from the rest.
    package var isDerived: Bool { self != .expired && self != .expiredNames }
    /// The tables of counters, in the order in which they are published.
    package static let counterTables: [TableKind] = [.rewards, .days, .rewardDays]
}

/// One name in a data directory, parsed. Every file that ingestd makes there has exactly one name, and
/// a name that does not parse is not ours.
///
/// **Layout** `%010u.segment`, `%010llu.manifest` (generation), `%010llu.<table>.run` (file number), each also
/// with `.tmp` behind it while it is written; `LOCK`, `durable-mark`, `reserve`, `leases`, `session-keys`, `aside`. Numbers
/// are decimal with at least ten digits, so that names sort by number up to 9,999,999,999.
package indirect enum FileName: Hashable, Sendable {
    /// Locked by the daemon that owns the directory, whose process id it holds for messages.
    case lock
    case durableMark
    /// Zeros that hold room back on the disk.
    case reserve
    /// Empty; readers lock the bytes of the numbers of the segments that they read.
    case leases
    /// The keys of the pseudonyms of sessions.
    case sessionKeys
    /// The folder for what was found bad; nothing in it is read again.
    case aside
    case segment(SegmentNumber)
    case manifest(Generation)
    case run(TableKind, FileNumber)
    /// A file that is being written; at start it belongs to nobody. Never of a temporary, the lock or
    /// the folder.
    case temporary(FileName)

    /// Parses a directory entry's name.
    ///
    /// Only the one spelling that `text` makes is accepted: no sign, no missing or further zeros, no
    /// other case, no number that does not exist (segment 0, file number 0).
    /// **Errors** `nil` for every other name, of any length and any bytes; the file is not ours.
    package init?(_ text: String) {
        let bytes = Array(text.utf8.prefix(Self.byteCountMax + 1))
        guard bytes.count <= Self.byteCountMax, let name = Self.parse(bytes[...]) else {
            return nil
        }
        self = name
    }

    /// The name as it stands in the directory.
    package var text: String {
        switch self {
        case .lock: "LOCK"
        case .durableMark: "durable-mark"
        case .reserve: "reserve"
        case .leases: "leases"
        case .sessionKeys: "session-keys"
        case .aside: "aside"
        case .segment(let number): Self.digits(UInt64(number.rawValue)) + ".segment"
        case .manifest(let generation): Self.digits(generation.rawValue) + ".manifest"
        case .run(let table, let number): Self.digits(number.rawValue) + ".\(table.name).run"
        case .temporary(let name): name.text + ".tmp"
        }
    }

    /// The longest name, of 20 digits: `….expired-names.run.tmp`.
    package static let byteCountMax = 20 + 18 + 4

    private static func digits(_ number: UInt64) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, 10 - text.count)) + text
    }
}

extension FileName {
    private static func parse(_ bytes: ArraySlice<UInt8>) -> FileName? {
        if let stem = strip(".tmp", from: bytes) {
            guard let name = parseLasting(stem) else { return nil }
            switch name {
            case .segment, .manifest, .run, .durableMark, .sessionKeys: return .temporary(name)
            case .lock, .leases, .aside, .reserve, .temporary: return nil
            }
        }
        return parseLasting(bytes)
    }

    private static func parseLasting(_ bytes: ArraySlice<UInt8>) -> FileName? {
        for fixed in [FileName.lock, .durableMark, .reserve, .leases, .sessionKeys, .aside]
        where bytes.elementsEqual(fixed.text.utf8) {
            return fixed
        }
        if let number = number(before: ".segment", in: bytes) {
            guard number > 0, let short = UInt32(exactly: number) else { return nil }
            return .segment(SegmentNumber(rawValue: short))
        }
        if let number = number(before: ".manifest", in: bytes) {
            return .manifest(Generation(rawValue: number))
        }
        for table in TableKind.allCases {
            if let number = number(before: ".\(table.name).run", in: bytes), number > 0 {
                return .run(table, FileNumber(rawValue: number))
            }
        }
        return nil
    }

    private static func strip(_ ending: String, from bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>?
    {
        guard bytes.count > ending.utf8.count,
            bytes.suffix(ending.utf8.count).elementsEqual(ending.utf8)
        else { return nil }
        return bytes.dropLast(ending.utf8.count)
    }

    /// The number in front of `ending`, `nil` unless it is spelled as `digits` spells it.
    private static func number(before ending: String, in bytes: ArraySlice<UInt8>) -> UInt64? {
        guard let stem = strip(ending, from: bytes), (10...20).contains(stem.count) else {
            return nil
        }
        var value: UInt64 = 0
        for byte in stem {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = tens.addingReportingOverflow(UInt64(byte & 15))
            if overflow || carry { return nil }
            value = sum
        }
        guard stem.count == 10 || stem.first != UInt8(ascii: "0") else { return nil }
        return value
    }
}
