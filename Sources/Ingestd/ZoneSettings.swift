import IngestFormat
import IngestPipeline

/// Reads the time zones of a daemon's settings: TZif files of the package tzdata, and the zones file. Whatever `TZ` and
/// the machine's own zone are, they play no part.
struct ZoneSettings {
    /// Where tzdata installs one file a zone.
    static let systemPath = "/usr/share/zoneinfo"

    private let directory: String
    private let settings: DaemonSettings
    /// By name, as they were read.
    private var zones: [String: ZoneOffsets] = [ZoneName.utc: .utc]
    private var version: UInt32 = 0

    private init(_ settings: DaemonSettings, directory: String) {
        (self.settings, self.directory) = (settings, directory)
    }

    /// Whether there is a file for a zone. UTC needs none.
    static func isInstalled(_ name: ZoneName) -> Bool {
        name.text == ZoneName.utc
            || ConfigFile.bytes(of: "\(systemPath)/\(name.text)", byteCountMax: 0) != nil
    }

    /// All that days are made from, and its version: the CRC-32C of the zones file, of the name of the zone of businesses
    /// that it does not name, and of the TZif files that are used, in the order of the zones' names.
    ///
    /// **Errors** `Fault` with `.configuration`: a file cannot be read, the zones file breaks a rule or names a zone that
    /// is not installed, a TZif file is damaged.
    static func read(
        _ settings: DaemonSettings, directory: String = systemPath
    ) throws(Fault) -> BusinessZones {
        var reader = ZoneSettings(settings, directory: directory)
        guard settings.zonesPath.isEmpty else { return try reader.readFile() }
        let zone = try reader.zone(settings.zoneName, place: "--time-zone")
        return BusinessZones(zone, version: reader.version)
    }

    private mutating func readFile() throws(Fault) -> BusinessZones {
        let path = settings.zonesPath
        let bytes = try ConfigFile.bytes(
            of: path, byteCountMax: Limits.zonesFileByteCountMax, "zones file")
        let file: ZonesFile
        do throws(ZonesFileError) { file = try ZonesFile(bytes) } catch {
            throw Fault(
                .configuration, "invalid zones file, \(path) line \(error.line), \(error.fault)")
        }
        version = Checksum.crc32c(
            Array(settings.zoneName.utf8), seed: Checksum.crc32c(bytes))
        var lines = [settings.zoneName: "--time-zone"]
        for rule in file.rules.values.joined() where lines[rule.zone] == nil {
            lines[rule.zone] = "\(path) line \(rule.line)"
        }
        for (name, place) in lines.sorted(by: { $0.key < $1.key }) {
            _ = try zone(name, place: place)
        }
        let zone = try zone(settings.zoneName, place: "--time-zone")
        guard let all = BusinessZones(zone, file, zones, version: version) else {
            throw Fault(
                .configuration,
                "over \(Limits.businessCalendarCountMax) different zones and dates, \(path), "
                    + "let more businesses change on the same date")
        }
        return all
    }

    /// A zone by name; one that was not read yet goes into the version.
    /// - Parameter place: what names it, for the message.
    private mutating func zone(_ name: String, place: String) throws(Fault) -> ZoneOffsets {
        if let zone = zones[name] { return zone }
        let path = "\(directory)/\(name)"
        guard let data = ConfigFile.bytes(of: path, byteCountMax: Limits.zoneFileByteCountMax)
        else {
            throw Fault(
                .configuration,
                "unknown time zone '\(name)', \(place), give an IANA name, or install the package tzdata"
            )
        }
        let bytes = [UInt8](data)
        do throws(FormatError) {
            guard bytes.count <= Limits.zoneFileByteCountMax else {
                throw .notThisFile(
                    "byte count", at: 0, got: bytes.count,
                    expected: .exactly(Limits.zoneFileByteCountMax))
            }
            let zone = try ZoneFile.decode(bytes)
            zones[name] = zone
            version = Checksum.crc32c(bytes, seed: Checksum.crc32c(Array(name.utf8), seed: version))
            return zone
        } catch {
            throw Fault(
                .configuration,
                "invalid time zone file: \(error), \(path), reinstall the package tzdata")
        }
    }
}
