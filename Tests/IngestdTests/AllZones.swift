import Foundation
import Glibc
import IngestFormat
import IngestPipeline

@testable import Ingestd

/// All zones that are installed, each content once, and what the C library says of them. Changes the process's `TZ`.
struct AllZones {
    private let names: [String]
    private let offsets: [ZoneOffsets]

    struct Wrong: Error, CustomStringConvertible {
        let description: String
    }

    /// Runs a check, and ends the process with 1 if it finds anything.
    static func run(_ check: (AllZones) throws -> Void) {
        do { try check(AllZones()) } catch {
            print("AllZones: \(error)")
            exit(1)
        }
    }

    /// Reads all of them the way the daemon does, with the `TZ` that the process has.
    init() throws {
        var (names, offsets, known): ([String], [ZoneOffsets], Set<Data>) = ([], [], [])
        let root = URL(fileURLWithPath: ZoneSettings.systemPath)
        for path in FileManager.default.enumerator(atPath: root.path)! {
            guard let name = ZoneName((path as! String).utf8),
                let data = try? Data(contentsOf: root.appending(path: name.text)),
                data.starts(with: "TZif".utf8), known.insert(data).inserted
            else { continue }
            names.append(name.text)
            offsets.append(try ZoneFile.decode([UInt8](data)))
        }
        guard names.count > 300 else { throw Wrong(description: "\(names.count) zones") }
        (self.names, self.offsets) = (names, offsets)
    }

    private static let hour: Int64 = 3_600
    private static let dayMicroseconds: Int64 = 86_400_000_000

    // MARK: The C library

    private func use(_ index: Int) {
        setenv("TZ", ":\(ZoneSettings.systemPath)/\(names[index])", 1)
        tzset()
    }

    private static func local(_ seconds: Int64) -> tm {
        var (time, parts) = (time_t(seconds), tm())
        localtime_r(&time, &parts)
        return parts
    }

    private static func dayByC(_ microseconds: Int64) -> Int32 {
        let (seconds, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        let parts = local(rest < 0 ? seconds - 1 : seconds)
        let day = CivilDate.day(
            year: Int(parts.tm_year) + 1_900, Int(parts.tm_mon) + 1, Int(parts.tm_mday))
        return Int32(day!)
    }

    // MARK: Checks

    /// Days by the settings path, about all changes of offset and the midnights next to them.
    func checkDays() throws {
        let calendars = try names.map { name in
            var settings = DaemonSettings()
            settings.zoneName = name
            return try ZoneSettings.read(settings).calendars[0]
        }
        for (index, name) in names.enumerated() {
            use(index)
            for instant in Self.instants(about: offsets[index].changes.map(\.start)) {
                let (got, expected) = (
                    calendars[index].span(of: instant), Self.dayByC(instant)
                )
                guard got.day == expected, got.contains(instant) else {
                    throw Wrong(description: "\(name) at \(instant): \(got), not \(expected)")
                }
            }
        }
    }

    /// Instants at, a microsecond and a second before, and some hours about others.
    private static func instants(about times: [Int64]) -> [Int64] {
        let seconds: [Int64] = [-24 * hour, -1, 0, 1, 24 * hour]
        let distances: [Int64] = seconds.flatMap { [$0 * 1_000_000 - 1, $0 * 1_000_000] }
        return (times + [0, Limits.timestampMicrosecondsMax])
            .flatMap { time in distances.map { time + $0 } }
            .filter { (0...Limits.timestampMicrosecondsMax).contains($0) }
    }

    /// That the offsets of the C library change where the table says, and nowhere else.
    func checkChanges() throws {
        for (index, name) in names.enumerated() {
            use(index)
            let end = Limits.timestampMicrosecondsMax / 1_000_000
            var found: [Int64] = []
            var (before, offset) = (Int64(0), Self.local(0).tm_gmtoff)
            // No zone has three changes in ten days.
            for now in stride(from: 0, through: end, by: 10 * 86_400) {
                let new = Self.local(now).tm_gmtoff
                if new != offset {
                    var (low, high) = (before, now)
                    while high - low > 1 {
                        let middle = (low + high) / 2
                        if Self.local(middle).tm_gmtoff == offset {
                            low = middle
                        } else {
                            high = middle
                        }
                    }
                    found.append(high * 1_000_000)
                }
                (before, offset) = (now, new)
            }
            let changes = offsets[index].changes.map(\.start)
            guard Set(found).isSubset(of: changes) else {
                let missing = Set(found).subtracting(changes).sorted()
                throw Wrong(description: "\(name) misses \(missing)")
            }
            for change in changes {
                let offsets = [-1, 0].map { Self.local(change / 1_000_000 + $0).tm_gmtoff }
                guard offsets[0] != offsets[1] else {
                    throw Wrong(description: "\(name) has a change at \(change) that is none")
                }
            }
        }
    }

    /// A change from each zone to another one on dates about its own changes of offset, against the rule in plain words.
    func checkZoneChanges() throws {
        for new in names.indices {
            let old = (new + names.count / 2) % names.count
            for change in Self.some(offsets[new].changes) {
                for from in [-1, 0, 1].map({ change.date + $0 }) {
                    try check(old, new, from: from, about: change.start)
                }
            }
        }
    }

    private static func some(_ changes: [ZoneOffsets.Change]) -> [(start: Int64, date: Int32)] {
        let step = max(1, changes.count / 6)
        return stride(from: 0, to: changes.count, by: step).map {
            let start = changes[$0].start
            return (start, Int32((start + 43_200_000_000) / dayMicroseconds))
        }
    }

    private func check(_ old: Int, _ new: Int, from: Int32, about change: Int64) throws {
        let calendar = BusinessCalendar(offsets[old], changes: [(from, offsets[new])])
        use(new)
        let seam = Self.firstInstant(of: from)
        let instants = Self.instants(about: [change, seam])
        let byNew = instants.map { Self.dayByC($0) }
        use(old)
        for (instant, newDay) in zip(instants, byNew) {
            let expected =
                instant < seam ? min(Self.dayByC(instant), from - 1) : max(newDay, from)
            let got = calendar.span(of: instant)
            guard got.day == expected, got.contains(instant) else {
                throw Wrong(
                    description: "\(names[old]) to \(names[new]) from \(from) at \(instant): "
                        + "\(got), not \(expected)")
            }
        }
    }

    /// The first instant whose date in the zone in use is this or a later one, found step by step.
    private static func firstInstant(of day: Int32) -> Int64 {
        var second = Int64(day) * 86_400 - 36 * hour
        for step in [hour / 4, 60, 1] {
            while dayByC(second * 1_000_000) < day { second += step }
            second -= step
        }
        return (second + 1) * 1_000_000
    }
}
