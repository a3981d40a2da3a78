import Foundation
import Glibc
import IngestFormat
import IngestPipeline
import TestSupport
import Testing

@testable import Ingestd

/// Every zone of the package tzdata as the daemon reads it, against the C library, which reads the same files by code of
/// its own. In processes of their own: `TZ` is the process's.
struct BusinessZoneTests {
    @Test(arguments: ["UTC", "Pacific/Kiritimati", "America/St_Johns"])
    func `the days around every change of offset are right whatever TZ is`(zone: String) async {
        await #expect(processExitsWith: .success) { [zone] in
            setenv("TZ", zone, 1)
            tzset()
            AllZones.run { try $0.checkDays() }
        }
    }

    @Test(arguments: ["UTC", "Asia/Tokyo", "America/Sao_Paulo"])
    func `the days around a change of zone are right whatever TZ is`(zone: String) async {
        await #expect(processExitsWith: .success) { [zone] in
            setenv("TZ", zone, 1)
            tzset()
            AllZones.run { try $0.checkZoneChanges() }
        }
    }

    @Test func `no change of offset of any zone is missed`() async {
        await #expect(processExitsWith: .success) { AllZones.run { try $0.checkChanges() } }
    }

    // MARK: What has been a day of its own

    private func calendar(_ name: String) throws -> BusinessCalendar {
        var settings = DaemonSettings()
        settings.zoneName = name
        return try ZoneSettings.read(settings).calendars[0]
    }

    /// Hours of UTC, from an hour on, by the day that they belong to.
    private func hours(_ name: String, from day: Int32, _ count: Int64 = 96) throws -> [Int32: Int]
    {
        var calendar = try calendar(name)
        let first = Int64(day) * 24
        return (first..<first + count).reduce(into: [:]) {
            $0[calendar.day(of: $1 * 3_600_000_000), default: 0] += 1
        }
    }

    @Test func `a day of daylight saving has 23 or 25 hours`() throws {
        // 2026-03-29 and 2026-10-25 are days 20541 and 20751.
        #expect(try hours("Europe/Berlin", from: 20_539)[20_541] == 23)
        #expect(try hours("Europe/Berlin", from: 20_749)[20_751] == 25)
        #expect(try hours("Europe/Berlin", from: 20_598)[20_600] == 24)
    }

    @Test func `Samoa has no 30 December 2011`() throws {
        let found = try hours("Pacific/Apia", from: 15_335, 144)
        #expect(found[15_337] == 24 && found[15_338] == nil && found[15_339] == 24)
    }

    @Test func `São Paulo's clock skipped and repeated the hour at midnight`() throws {
        // 2018-11-04 began at 01:00; 2018-02-17 had its last hour twice.
        #expect(try hours("America/Sao_Paulo", from: 17_837)[17_839] == 23)
        #expect(try hours("America/Sao_Paulo", from: 17_577)[17_579] == 25)
    }

    @Test func `Casablanca leaves its usual time for Ramadan only`() throws {
        // 2025-02-23 at 03:00 back to UTC, 2025-04-06 at 02:00 forward to UTC+1.
        #expect(try hours("Africa/Casablanca", from: 20_140)[20_142] == 25)
        #expect(try hours("Africa/Casablanca", from: 20_182)[20_184] == 23)
    }

    /// A zone, an instant, the date of the microsecond before it, and its own.
    private static let boundaries: [(zone: String, instant: String, before: String, from: String)] =
        [
            ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-29", "2011-12-31"),
            ("Pacific/Apia", "2011-12-31T10:00:00Z", "2011-12-31", "2012-01-01"),
            // Midnight did not exist: the day began at 01:00. In February its last hour came twice.
            ("America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-03", "2018-11-04"),
            ("America/Sao_Paulo", "2018-11-05T02:00:00Z", "2018-11-04", "2018-11-05"),
            ("America/Sao_Paulo", "2018-02-18T02:00:00Z", "2018-02-17", "2018-02-17"),
            ("America/Sao_Paulo", "2018-02-18T03:00:00Z", "2018-02-17", "2018-02-18"),
            // UTC+1 but in Ramadan, when it is UTC.
            ("Africa/Casablanca", "2025-02-22T23:00:00Z", "2025-02-22", "2025-02-23"),
            ("Africa/Casablanca", "2025-02-24T00:00:00Z", "2025-02-23", "2025-02-24"),
            ("Africa/Casablanca", "2025-04-06T00:00:00Z", "2025-04-05", "2025-04-06"),
            ("Africa/Casablanca", "2025-04-06T23:00:00Z", "2025-04-06", "2025-04-07"),
        ]

    @Test(arguments: boundaries)
    func `a day begins at its first microsecond`(
        zone: String, instant: String, before: String, from: String
    ) throws {
        func seconds(_ text: String) throws -> Int64 {
            Int64(try #require(ISO8601DateFormatter().date(from: text)).timeIntervalSince1970)
        }
        var calendar = try calendar(zone)
        let first = try seconds(instant) * 1_000_000
        for (time, date) in [(first - 1, before), (first, from)] {
            let day = try seconds("\(date)T00:00:00Z") / 86_400
            #expect(Int64(calendar.day(of: time)) == day, "\(date)")
        }
    }

    // MARK: Settings

    @Test func `files of zones that cannot be used are 78 and named`() throws {
        let folder = try TemporaryFolder()
        let cases: [(zone: String, file: String?, part: String)] = [
            ("UTC", "b A/None\n", "unknown time zone 'A/None'"),
            ("UTC", "b A/None\n", "zones line 1"),
            ("A/None", nil, "unknown time zone 'A/None', --time-zone"),
            ("UTC", "b A/Torn\n", "invalid time zone file: torn: header"),
            ("UTC", "b A/Long\n", "byte count"),
            ("UTC", "b A/Folder\n", "unknown time zone"),
            ("UTC", "b\n", "zones line 1, missing zone"),
        ]
        let path = try folder.write("zones", "")
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/A/Folder", withIntermediateDirectories: true)
        try Data("TZif2".utf8).write(to: URL(fileURLWithPath: "\(folder.path)/A/Torn"))
        try Data(count: Limits.zoneFileByteCountMax + 1).write(
            to: URL(fileURLWithPath: "\(folder.path)/A/Long"))
        for (zone, file, part) in cases {
            var settings = DaemonSettings()
            settings.zoneName = zone
            if let file {
                _ = try folder.write("zones", file)
                settings.zonesPath = path
            }
            let fault = #expect(throws: Fault.self) {
                try ZoneSettings.read(settings, directory: folder.path)
            }
            #expect(fault?.reason == .configuration)
            #expect(fault?.message.contains(part) == true, "\(fault?.message ?? "")")
        }
        var settings = DaemonSettings()
        settings.zonesPath = "\(folder.path)/none"
        let fault = #expect(throws: Fault.self) { try ZoneSettings.read(settings) }
        #expect(fault?.message.contains("cannot be read") == true)
    }

    @Test func `the version is of the zones file and of the zones in use`() throws {
        let folder = try TemporaryFolder()
        var settings = DaemonSettings()
        #expect(try ZoneSettings.read(settings).version == 0)
        settings.zonesPath = try folder.write("zones", "b Europe/Berlin\n")
        let first = try ZoneSettings.read(settings)
        #expect(try ZoneSettings.read(settings).version == first.version)
        #expect(first.places.count == 1 && first.calendars.count == 2)
        // Also of the zone of all other businesses, where its rules are read anyway.
        settings.zoneName = "Europe/Berlin"
        #expect(try ZoneSettings.read(settings).version != first.version)
        settings.zoneName = DaemonSettings().zoneName
        #expect(try ZoneSettings.read(settings).version == first.version)
        _ = try folder.write("zones", "c Europe/Berlin\n")
        #expect(try ZoneSettings.read(settings).version != first.version)
        settings.zonesPath = ""
        settings.zoneName = "Europe/Berlin"
        let berlin = try ZoneSettings.read(settings).version
        settings.zoneName = "Europe/Paris"
        #expect(try ZoneSettings.read(settings).version != berlin)
        #expect(berlin != 0)
    }
}
