import IngestFormat
import IngestPipeline

/// One option of the daemon: the row from which the command line, the environment, the config file, `--help` and
/// `check-config` come. A new option is a field of `DaemonSettings` and a row of `all`.
///
/// The name with `--` before it is the option, as it is it is a key of the config file, and in capitals
/// after `INGESTD_` it is the environment variable.
struct Setting: Sendable {
    typealias Path<Value> = any WritableKeyPath<DaemonSettings, Value> & Sendable

    let name: String
    let purpose: String
    /// What a valid value looks like: ends an error message and stands in the help.
    let wanted: String
    /// How the help calls the value; `nil` for a flag, which has none on the command line.
    let valueName: String?
    /// `nil` for an option without a default.
    let defaultText: String?
    /// Stores the value behind a text, or says why the text is no valid one.
    let store: @Sendable (String, inout DaemonSettings) -> Invalid?

    /// A text that is no valid value.
    struct Invalid: Sendable {
        /// `nil` where `wanted` says it all.
        var reason: String?
    }

    var environmentName: String { "INGESTD_" + name.uppercased().replacing("-", with: "_") }
    var isFlag: Bool { valueName == nil }

    /// The text of `--help`.
    var helpText: String {
        if isFlag { return purpose }
        return "\(purpose) Takes \(wanted)." + (defaultText.map { " (default: \($0))" } ?? "")
    }

    static func named(_ name: String) -> Setting? { all.first { $0.name == name } }

    static let all: [Setting] = [
        .path(
            "data", \.dataDirectory, "the path of a directory", "dir",
            "The data directory; created if missing."),
        .address("udp", "Where packets are received; port 0 picks a free one."),
        .addressOrOff(
            "http", "Reserved for an HTTP server, which does not exist yet: accepted and ignored."),
        .number(
            "commit-interval-ms", \.commitIntervalMilliseconds, 1...1_000,
            "Longest time that an event waits for its group commit."),
        .number(
            "segment-bytes-max", \.segmentByteCountMax,
            Limits.segmentByteCountMin...Limits.segmentByteCountMax,
            "Size at which a segment file is sealed and the next one begun."),
        .number(
            "compact-interval-seconds", \.compactIntervalSeconds, 1...3_600,
            "Shortest time between two generations of sealed segments."),
        .number(
            "retention-days", \.retentionDayCount, 0...36_500,
            "Days for which rows are kept; 0 disables the limit."),
        .number(
            "retention-bytes", \.retentionByteCount, 0...Int.max,
            "Bytes of segments to keep, the newest; 0 disables the limit."),
        .number(
            "max-event-age-seconds", \.eventAgeSecondsMax, 0...10_000_000_000,
            "Events older than this are refused; 0 disables the limit."),
        .number(
            "max-event-lead-seconds", \.eventLeadSecondsMax, 0...31_622_400,
            "Events further in the future than this are refused."),
        .choice(
            "count-undetermined", \.countsUndetermined, yesNo,
            "Whether impressions without viewability count."),
        .choice(
            "count-consent-not-set", \.countsConsentNotSet, yesNo,
            "Whether events whose consent is not set count."),
        .number(
            "dedup-window-seconds", \.dedupWindowSeconds, 1...316_224_000,
            "Seconds for which an event id is kept after its commit, to recognise repeats."),
        .number(
            "dedup-keys-max", \.dedupKeyCountMax, 1...1 << 30,
            "Maximum number of event ids kept, the newest; 16 bytes of memory each."),
        .choice(
            "outside-dedup-window", \.refusesOutsideWindow, [("count", false), ("refuse", true)],
            "What happens to an event whose id is older than the ids that are kept."),
        .choice(
            "session-rule", \.looksAtSessions, yesNo,
            "Whether an impression of a reward counts once a session, and rates in a session are limited."
        ),
        .number(
            "session-timeout-seconds", \.sessionTimeoutSeconds, 1...86_400,
            "A session ends when none of its events was received for so long."),
        .number(
            "click-interval-ms", \.clickIntervalMilliseconds, 0...3_600_000,
            "A click nearer to the last one on its reward in the session is invalid traffic; 0 disables the limit."
        ),
        .number(
            "session-impressions-per-minute-max", \.sessionImpressionsPerMinuteMax, 0...65_535,
            "Impressions of a session beyond this in a minute are invalid traffic; 0 disables the limit."
        ),
        .number(
            "session-clicks-per-minute-max", \.sessionClicksPerMinuteMax, 0...65_535,
            "Clicks of a session beyond this in a minute are invalid traffic; 0 disables the limit."
        ),
        .number(
            "session-keys-max", \.sessionKeyCountMax, 1...1 << 28,
            "Sessions, and rewards in them, kept at most; 10 to 80 bytes of memory each, more where there are few."
        ),
        .number(
            "reward-keys-max", \.rewardKeyCountMax, 1...Limits.keyCountMax,
            "Maximum number of rewards of one business with counters of their own; further ones are counted as (other)."
        ),
        .number(
            "campaign-keys-max", \.campaignKeyCountMax, 0...Limits.attributionCountMax,
            "Maximum number of combinations of reward, campaign and source with counters of their own; further ones are "
                + "counted as (other)."),
        .number(
            "windows-per-key-max", \.quotas.windowCountMax, 1...Limits.windowCountMax,
            "Senders, each with its epoch, that are known at a time under one key; packets of further ones are shed."
        ),
        .number(
            "new-names-per-minute", \.quotas.namesPerMinute, 0...5_000_000,
            "Names not known before that the senders of one key may give in a minute, ten minutes' worth at once; while "
                + "it has none left its packets with new rewards are shed. 0 disables the limit."),
        .number(
            "new-epochs-per-minute", \.quotas.epochsPerMinute, 0...5_000_000,
            "Epochs, one for each start of a sender, that the senders of one key may begin in a minute, ten minutes' worth "
                + "at once; while it has none left new ones are shed. 0 disables the limit."),
        .number(
            "money-max", \.moneyMax, 0...Int(Limits.moneyMicrosMax / 1_000_000),
            "Revenue, and spend, of one event at most, each in units of its currency; an event with more is malformed."
        ),
        .zone,
        .path(
            "time-zones", \.zonesPath, "the path of a file", "file",
            "Time zones of businesses, a line each: businessId IANA/Zone [from=YYYY-MM-DD]. SIGHUP reloads it."
        ),
        .path(
            "reward-owners", \.ownersPath, "the path of a file", "file",
            "Businesses that own rewards, a line each: rewardId businessId, in the place of those that they were first "
                + "counted for. A key bound to a business adds only to rewards that it owns. SIGHUP reloads it."
        ),
        .path(
            "keys", \.keysPath, "the path of a file", "file",
            "Keys of senders, a line each: KEY_ID HEX_KEY [sender=ID|*] [business=ID|*]. With it, packets "
                + "without a valid tag are dropped; SIGHUP reloads it."),
        .path(
            "api-keys", \.apiKeysPath, "the path of a file", "file",
            "Reserved for keys of an HTTP server, which does not exist yet: accepted and ignored."),
        .number(
            "receive-buffer-bytes", \.receiveBufferByteCount, 65_536...1_073_741_823,
            "Receive buffer to ask the kernel for."),
        .flag(
            "insecure-accept-unauthenticated", \.acceptsUnauthenticated,
            "Allows addresses beyond loopback without keys: events of any sender are counted."),
        .flag(
            "accept-clock", \.acceptsClock,
            "Believes the clock although it is behind the log's last block, or days past it."),
    ]

    // MARK: Kinds of values

    private static let yesNo = [("yes", true), ("no", false)]

    private static func number(
        _ name: String, _ path: Path<Int>, _ range: ClosedRange<Int>, _ purpose: String
    ) -> Setting {
        Setting(
            name: name, purpose: purpose,
            wanted: "a whole number from \(range.lowerBound) to \(range.upperBound)",
            valueName: "n", defaultText: "\(DaemonSettings()[keyPath: path])"
        ) { text, settings in
            guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let number = Int(text), range.contains(number)
            else { return Invalid() }
            settings[keyPath: path] = number
            return nil
        }
    }

    private static func choice(
        _ name: String, _ path: Path<Bool>, _ choices: [(text: String, value: Bool)],
        _ purpose: String
    ) -> Setting {
        let texts = choices.map(\.text)
        let value = DaemonSettings()[keyPath: path]
        return Setting(
            name: name, purpose: purpose, wanted: texts.joined(separator: " or "),
            valueName: texts.joined(separator: "|"),
            defaultText: choices.first { $0.value == value }?.text
        ) { text, settings in
            guard let choice = choices.first(where: { $0.text == text }) else { return Invalid() }
            settings[keyPath: path] = choice.value
            return nil
        }
    }

    /// On the command line without a value, elsewhere `yes` or `no`; off by default.
    private static func flag(_ name: String, _ path: Path<Bool>, _ purpose: String) -> Setting {
        let choice = choice(name, path, yesNo, purpose)
        return Setting(
            name: name, purpose: purpose, wanted: choice.wanted, valueName: nil, defaultText: nil,
            store: choice.store)
    }

    private static func path(
        _ name: String, _ path: Path<String>, _ wanted: String, _ valueName: String,
        _ purpose: String
    ) -> Setting {
        Setting(
            name: name, purpose: purpose, wanted: wanted, valueName: valueName, defaultText: nil
        ) { text, settings in
            guard !text.isEmpty, !text.utf8.contains(0) else { return Invalid() }
            settings[keyPath: path] = text
            return nil
        }
    }

    private static func address(_ name: String, _ purpose: String) -> Setting {
        let address = "\(DaemonSettings().udp)"
        return Setting(
            name: name, purpose: purpose, wanted: "HOST:PORT such as \(address)",
            valueName: "host:port", defaultText: address
        ) { text, settings in
            storeAddress(text) { settings.udp = $0 }
        }
    }

    private static func addressOrOff(_ name: String, _ purpose: String) -> Setting {
        let address = DaemonSettings().http?.description
        return Setting(
            name: name, purpose: purpose, wanted: "HOST:PORT such as \(address ?? ""), or off",
            valueName: "host:port|off", defaultText: address
        ) { text, settings in
            if text == "off" {
                settings.http = nil
                return nil
            }
            return storeAddress(text) { settings.http = $0 }
        }
    }

    private static func storeAddress(
        _ text: String, _ store: (SocketAddress) -> Void
    ) -> Invalid? {
        do throws(SocketError) {
            store(try SocketAddress(text))
            return nil
        } catch .badAddress(_, let reason) {
            return Invalid(reason: reason)
        } catch {
            return Invalid(reason: "\(error)")
        }
    }

    private static let zone = Setting(
        name: "time-zone",
        purpose: "The zone whose midnight begins a day of businesses without a zone of their own.",
        wanted: "UTC or an IANA name such as Europe/Berlin", valueName: "zone", defaultText: "UTC"
    ) { text, settings in
        guard let zone = ZoneName(text.utf8) else { return Invalid() }
        guard ZoneSettings.isInstalled(zone) else {
            return Invalid(reason: "not in \(ZoneSettings.systemPath), of the package tzdata")
        }
        settings.zoneName = zone.text
        return nil
    }
}
