import Foundation
import IngestFormat
import IngestKeys
import IngestPipeline

/// What one place says about the settings, still as text.
struct SettingLayer {
    enum Origin: Equatable {
        case commandLine
        case environment
        case file(path: String)
    }

    let origin: Origin
    /// By the setting's name.
    var texts: [String: String]

    init(_ origin: Origin, _ texts: [String: String] = [:]) {
        self.origin = origin
        self.texts = texts
    }

    /// The settings among the environment variables.
    static func environment(_ variables: [String: String]) -> SettingLayer {
        var layer = SettingLayer(.environment)
        for setting in Setting.all {
            layer.texts[setting.name] = variables[setting.environmentName]
        }
        return layer
    }

    /// The environment's way to name the config file.
    static let configVariable = "INGESTD_CONFIG"

    /// Variables that begin like a setting and are none: logged, not refused, because container
    /// platforms make up such names for a service that is called ingestd.
    static func unknownVariables(_ variables: [String: String]) -> [String] {
        let known = Set(Setting.all.map(\.environmentName) + [configVariable])
        return variables.keys.filter { $0.hasPrefix("INGESTD_") && !known.contains($0) }.sorted()
    }

    /// A value on the command line is wrong usage; anywhere else the configuration is wrong.
    func refusal(of text: String, for setting: Setting, _ invalid: Setting.Invalid) -> Fault {
        let place =
            switch origin {
            case .commandLine: "--\(setting.name)"
            case .environment: setting.environmentName
            case .file(let path): "\(path): \(setting.name)"
            }
        return Fault(
            origin == .commandLine ? .usage : .configuration,
            "invalid value '\(text)'\(invalid.reason.map { " (\($0))" } ?? ""), \(place), "
                + "give \(setting.wanted)")
    }
}

/// The settings as values; each field begins with its default.
struct DaemonSettings {
    var dataDirectory = ""
    var udp = SocketAddress.loopback(port: 4810)
    /// `nil` when it is off.
    var http: SocketAddress? = .loopback(port: 4811)
    var commitIntervalMilliseconds = 5
    var segmentByteCountMax = Limits.segmentByteCountDefault
    var compactIntervalSeconds = 1
    /// 0 = rows do not expire by age.
    var retentionDayCount = 400
    /// 0 = rows do not expire by size.
    var retentionByteCount = 0
    /// 0 = no limit.
    var eventAgeSecondsMax = 604_800
    var eventLeadSecondsMax = 300
    var countsUndetermined = true
    var countsConsentNotSet = true
    var dedupWindowSeconds = 605_100
    var dedupKeyCountMax = 1 << 26
    var refusesOutsideWindow = false
    var looksAtSessions = true
    var sessionTimeoutSeconds = 600
    /// 0 = no limit, as the next two.
    var clickIntervalMilliseconds = 1_000
    var sessionImpressionsPerMinuteMax = 120
    var sessionClicksPerMinuteMax = 30
    var sessionKeyCountMax = 1 << 24
    var rewardKeyCountMax = 1_000_000
    var quotas = PipelineConfiguration().quotas
    /// Units of a currency.
    var moneyMax = 1_000_000
    var campaignKeyCountMax = Limits.attributionCountMax
    var zoneName = ZoneName.utc
    /// Empty: no business has a zone of its own.
    var zonesPath = ""
    /// Empty: each reward is owned by the business that the log says.
    var ownersPath = ""
    /// Empty: senders are not authenticated.
    var keysPath = ""
    /// Ignored, as there is no HTTP server.
    var apiKeysPath = ""
    var receiveBufferByteCount = 64 << 20
    var acceptsUnauthenticated = false
    var acceptsClock = false

    /// The defaults of the fields.
    init() {}

    /// - Parameter layers: the first that gives a setting wins; the defaults come after all of them. Every value
    ///   is checked, layer by layer, also one that an earlier layer hides, so that a mistake in a file shows when it is
    ///   made, and one on the command line first.
    ///
    /// **Errors** `Fault`: `.usage` for a value of the command line or a missing one, `.configuration` for
    /// a value of the other places or an address beyond loopback without keys.
    init(_ layers: [SettingLayer]) throws(Fault) {
        self.init()
        var given: Set<String> = []
        for layer in layers {
            for setting in Setting.all {
                guard let text = layer.texts[setting.name] else { continue }
                var changed = self
                if let invalid = setting.store(text, &changed) {
                    throw layer.refusal(of: text, for: setting, invalid)
                }
                if given.insert(setting.name).inserted { self = changed }
            }
        }
        if dataDirectory.isEmpty {
            throw Fault(.usage, "--data is required, command line, give the path of a directory")
        }
        try refuseOpenAddresses()
    }

    /// Without keys everything that reaches a port is counted, so an address beyond loopback has to be asked for.
    private func refuseOpenAddresses() throws(Fault) {
        if acceptsUnauthenticated || !keysPath.isEmpty { return }
        for (option, address) in [("--udp", udp), ("--http", http)] {
            guard let address, !address.isLoopback else { continue }
            throw Fault(
                .configuration,
                "authentication required: \(option) \(address) is not a loopback address and no keys are given, "
                    + "use a loopback address, --keys FILE or --insecure-accept-unauthenticated")
        }
    }

    /// `nil` without `--keys`.
    func readKeys() throws(Fault) -> KeysFile? {
        if keysPath.isEmpty { return nil }
        do { return try KeysFile(path: keysPath) } catch {
            throw Fault(.configuration, "\(error)")
        }
    }

    /// **Errors** `Fault` with `.configuration`.
    func readOwners() throws(Fault) -> RewardOwners {
        if ownersPath.isEmpty { return RewardOwners() }
        let bytes = try ConfigFile.bytes(
            of: ownersPath, byteCountMax: Limits.ownersFileByteCountMax, "reward owners file")
        do throws(RewardOwners.Fault) { return try RewardOwners([UInt8](bytes)) } catch {
            throw Fault(
                .configuration,
                "invalid reward owners file, \(ownersPath) line \(error.line), \(error)")
        }
    }

    // MARK: In the pipeline's units

    var policy: CountingPolicy {
        CountingPolicy(
            ageMicrosecondsMax: eventAgeSecondsMax == 0
                ? nil : Int64(eventAgeSecondsMax) * 1_000_000,
            leadMicrosecondsMax: Int64(eventLeadSecondsMax) * 1_000_000,
            countsUndetermined: countsUndetermined, countsConsentNotSet: countsConsentNotSet,
            windowMicroseconds: Int64(dedupWindowSeconds) * 1_000_000,
            keyCountMax: dedupKeyCountMax, refusesOutsideWindow: refusesOutsideWindow,
            sessions: SessionPolicy(
                isOn: looksAtSessions, timeoutSeconds: UInt32(sessionTimeoutSeconds),
                clickIntervalMilliseconds: UInt32(clickIntervalMilliseconds),
                impressionsPerMinuteMax: UInt32(sessionImpressionsPerMinuteMax),
                clicksPerMinuteMax: UInt32(sessionClicksPerMinuteMax),
                keyCountMax: sessionKeyCountMax))
    }

    var attributionBound: AttributionBound {
        var bound = AttributionBound()
        bound.countMax = campaignKeyCountMax
        return bound
    }

    /// - Parameters:
    ///   - zones, owners: as read for these settings.
    func pipelineConfiguration(
        _ zones: BusinessZones, _ owners: RewardOwners
    ) -> PipelineConfiguration {
        var configuration = PipelineConfiguration()
        (configuration.zones, configuration.owners) = (zones, owners)
        configuration.rewardKeyCountMax = rewardKeyCountMax
        configuration.quotas = quotas
        configuration.moneyMicrosMax = Int64(moneyMax) * 1_000_000
        configuration.segmentByteCountMax = segmentByteCountMax
        configuration.commitIntervalNanoseconds = UInt64(commitIntervalMilliseconds) * 1_000_000
        configuration.compactIntervalNanoseconds = UInt64(compactIntervalSeconds) * 1_000_000_000
        configuration.retention = RetentionPolicy(
            dayCountMax: retentionDayCount, byteCountMax: UInt64(retentionByteCount),
            acceptsClock: acceptsClock)
        return configuration
    }
}

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
        let bytes = [UInt8](
            try ConfigFile.bytes(
                of: path, byteCountMax: Limits.zonesFileByteCountMax, "zones file"))
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
