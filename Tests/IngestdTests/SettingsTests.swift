import Foundation
import IngestFormat
import IngestPipeline
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Ingestd

/// The three places that settings come from, and what is refused with which exit code.
struct SettingsTests {
    private let data = SettingLayer(.commandLine, ["data": "/tmp/x"])
    private static let flags = Setting.all.filter(\.isFlag).map(\.name)

    @Test func `without settings the documented defaults hold`() throws {
        let settings = try DaemonSettings([data])
        #expect(settings.udp.description == "127.0.0.1:4810")
        #expect(settings.http?.description == "127.0.0.1:4811")
        #expect(settings.commitIntervalMilliseconds == 5)
        #expect(settings.segmentByteCountMax == 268_435_456)
        #expect(settings.compactIntervalSeconds == 1)
        #expect(settings.eventAgeSecondsMax == 604_800)
        #expect(settings.eventLeadSecondsMax == 300)
        #expect(settings.countsUndetermined)
        #expect(settings.countsConsentNotSet)
        #expect(settings.zoneName == "UTC")
        #expect(settings.receiveBufferByteCount == 67_108_864)
        #expect(!settings.acceptsUnauthenticated)
        #expect(!settings.acceptsClock)
        #expect(
            settings.policy
                == CountingPolicy(
                    ageMicrosecondsMax: 604_800_000_000, leadMicrosecondsMax: 300_000_000,
                    countsUndetermined: true, countsConsentNotSet: true,
                    windowMicroseconds: 605_100_000_000, keyCountMax: 67_108_864,
                    refusesOutsideWindow: false))
    }

    @Test func `how far back repeats are looked for is as told`() throws {
        let settings = try DaemonSettings([
            SettingLayer(
                .commandLine,
                [
                    "data": "/tmp/x", "dedup-window-seconds": "7", "dedup-keys-max": "9",
                    "outside-dedup-window": "refuse", "max-event-lead-seconds": "11",
                ])
        ])
        #expect(
            settings.policy
                == CountingPolicy(
                    leadMicrosecondsMax: 11_000_000, windowMicroseconds: 7_000_000,
                    keyCountMax: 9, refusesOutsideWindow: true))
    }

    @Test func `quotas of a key are as told`() throws {
        let told = [
            "data": "/tmp/x", "windows-per-key-max": "9", "new-names-per-minute": "0",
            "new-epochs-per-minute": "3",
        ]
        for (values, windows, names, epochs) in [
            (["data": "/tmp/x"], 4_096, 100_000, 1_000), (told, 9, 0, 3),
        ] {
            let configuration = try DaemonSettings([SettingLayer(.commandLine, values)])
                .pipelineConfiguration(.utc, RewardOwners())
            #expect(configuration.quotas.windowCountMax == windows)
            #expect(configuration.quotas.namesPerMinute == names)
            #expect(configuration.quotas.epochsPerMinute == epochs)
        }
    }

    @Test func `amounts are in units, a million at most unless told`() throws {
        for (text, micros) in [(nil, 1_000_000_000_000), ("7", 7_000_000), ("0", 0)] {
            var values = ["data": "/tmp/x"]
            values["money-max"] = text
            let settings = try DaemonSettings([SettingLayer(.commandLine, values)])
            #expect(
                settings.pipelineConfiguration(.utc, RewardOwners()).moneyMicrosMax == Int64(micros)
            )
        }
    }

    @Test func `the command line wins over the environment and that over the file`() throws {
        let commandLine = SettingLayer(.commandLine, ["data": "/tmp/x", "udp": "127.0.0.1:1"])
        let environment = SettingLayer.environment([
            "INGESTD_UDP": "127.0.0.1:2", "INGESTD_COMMIT_INTERVAL_MS": "20", "PATH": "/bin",
        ])
        let file = try ConfigFile.parse(
            Data(
                """
                {"udp": "127.0.0.1:3", "commit-interval-ms": 30, "max-event-age-seconds": 40}
                """.utf8), path: "c.json")
        let settings = try DaemonSettings([commandLine, environment, file])
        #expect(settings.udp.port == 1)
        #expect(settings.commitIntervalMilliseconds == 20)
        #expect(settings.eventAgeSecondsMax == 40)
    }

    @Test func `a file may say yes, true and numbers as text`() throws {
        let file = try ConfigFile.parse(
            Data(
                """
                {"count-undetermined": false, "count-consent-not-set": "no", "data": "/d",
                 "insecure-accept-unauthenticated": true, "accept-clock": "yes", "commit-interval-ms": "7", "http": "off"}
                """.utf8), path: "c.json")
        let settings = try DaemonSettings([file])
        #expect(!settings.countsUndetermined)
        #expect(!settings.countsConsentNotSet)
        #expect(settings.acceptsUnauthenticated)
        #expect(settings.acceptsClock)
        #expect(settings.commitIntervalMilliseconds == 7)
        #expect(settings.http == nil)
        #expect(settings.dataDirectory == "/d")
    }

    @Test(arguments: [
        ("udp", "127.0.0.1"), ("udp", ":1"), ("udp", "off"), ("udp", "127.0.0.1:65536"),
        ("udp", "127.0.0.1:+1"), ("udp", "::1:1"),
        ("udp", "127.0.0.1:1:1"), ("http", "on"), ("commit-interval-ms", "0"),
        ("commit-interval-ms", "1001"), ("commit-interval-ms", "+5"), ("commit-interval-ms", "5.0"),
        ("commit-interval-ms", ""), ("segment-bytes-max", "65535"),
        ("segment-bytes-max", "1073741825"), ("compact-interval-seconds", "0"),
        ("retention-days", "36501"), ("retention-bytes", "-1"), ("retention-bytes", "1.5"),
        ("max-event-age-seconds", "-1"), ("max-event-lead-seconds", "99999999999999999999"),
        ("count-undetermined", "maybe"), ("count-consent-not-set", "YES"),
        ("time-zone", "Europe/Atlantis"), ("time-zone", "EST"), ("time-zone", "GMT+3"),
        ("time-zone", "right/UTC"), ("time-zone", "Europe"), ("time-zone", "America/Argentina"),
        ("time-zones", ""),
        ("receive-buffer-bytes", "1"), ("data", ""), ("money-max", "1000000001"),
        ("money-max", "-1"),
        ("windows-per-key-max", "0"), ("new-names-per-minute", "5000001"),
    ])
    func `a bad value is 64 on the command line and 78 elsewhere`(name: String, text: String) {
        let places: [(SettingLayer.Origin, ExitReason, String)] = [
            (.commandLine, .usage, "--\(name)"),
            (.environment, .configuration, "INGESTD_"),
            (.file(path: "/etc/c.json"), .configuration, "/etc/c.json: \(name)"),
        ]
        for (origin, status, place) in places {
            let layer = SettingLayer(origin, [name: text])
            let fault = #expect(throws: Fault.self) { try DaemonSettings([data, layer]) }
            #expect(fault?.reason == status)
            #expect(fault?.message.contains(place) == true)
        }
    }

    @Test func `a bad value is refused also where another place hides it`() {
        let file = SettingLayer(.file(path: "c.json"), ["udp": "nonsense"])
        let commandLine = SettingLayer(.commandLine, ["data": "/d", "udp": "127.0.0.1:1"])
        let fault = #expect(throws: Fault.self) { try DaemonSettings([commandLine, file]) }
        #expect(fault?.reason == .configuration)
    }

    @Test func `what is wrong on the command line is said before what is wrong in a file`() {
        let file = SettingLayer(.file(path: "c.json"), ["udp": "nonsense"])
        let commandLine = SettingLayer(.commandLine, ["data": "/d", "commit-interval-ms": "0"])
        let fault = #expect(throws: Fault.self) { try DaemonSettings([commandLine, file]) }
        #expect(fault?.reason == .usage)
        #expect(fault?.message.contains("--commit-interval-ms") == true)
    }

    @Test func `why a text is no address is said`() {
        let reasons = ["127.0.0.1": "not an address", "no.such.host.invalid:1": "[^)]+"]
        for (text, reason) in reasons {
            let layer = SettingLayer(.commandLine, ["udp": text])
            let message = #expect(throws: Fault.self) { try DaemonSettings([data, layer]) }?.message
            let pattern = "invalid value '\(text)' \\(\(reason)\\), --udp, give HOST:PORT such as"
            let found = message?.range(of: pattern, options: .regularExpression)
            #expect(found != nil, "\(message ?? "")")
        }
    }

    @Test(arguments: ["udp", "http"])
    func `with keys an address beyond loopback needs no asking`(name: String) {
        let layer = SettingLayer(.commandLine, ["data": "/d", name: "0.0.0.0:4810", "keys": "/k"])
        #expect(throws: Never.self) { try DaemonSettings([layer]) }
    }

    @Test func `a missing directory is wrong usage`() {
        let fault = #expect(throws: Fault.self) { try DaemonSettings([]) }
        #expect(fault?.reason == .usage)
        #expect(fault?.message.contains("--data is required") == true)
    }

    @Test(arguments: ["udp", "http"])
    func `an address beyond loopback has to be asked for`(name: String) throws {
        let open = SettingLayer(.commandLine, ["data": "/d", name: "0.0.0.0:4810"])
        let fault = #expect(throws: Fault.self) { try DaemonSettings([open]) }
        #expect(fault?.reason == .configuration)
        let asked = SettingLayer(.environment, ["insecure-accept-unauthenticated": "yes"])
        #expect(try DaemonSettings([open, asked]).acceptsUnauthenticated)
        for address in ["127.7.7.7:4810", "[::1]:4810", "localhost:0"] {
            let local = SettingLayer(.commandLine, ["data": "/d", name: address])
            #expect(throws: Never.self) { try DaemonSettings([local]) }
        }
    }

    @Test(arguments: [
        ("{\"udpp\": 1}", "udpp"), ("{\"config\": \"x\"}", "config"), ("{\"udp\": null}", "udp"),
        ("{\"udp\": [\"127.0.0.1:1\"]}", "udp"), ("{\"udp\": {}}", "udp"), ("[]", "JSON"),
        ("", "JSON"), ("{\"udp\": ", "JSON"), ("{} trailing", "JSON"),
        ("{\"commit-interval-ms\":5,}", "comma"), ("{\"udp\":\"127.0.0.1:0\" , \n}", "comma"),
        ("{\"udp\": \"127.0.0.1:0\", \"udp\" : \"0.0.0.0:0\"}", "udp"),
        ("{\"u\\u0064p\": \"127.0.0.1:0\", \"udp\": \"127.0.0.1:0\"}", "udp"),
    ])
    func `a file that is not an object of settings is refused by name`(json: String, word: String) {
        let fault = #expect(throws: Fault.self) {
            try ConfigFile.parse(Data(json.utf8), path: "/etc/c.json")
        }
        #expect(fault?.reason == .configuration)
        #expect(fault?.message.contains("/etc/c.json") == true)
        #expect(fault?.message.contains(word) == true)
    }

    @Test func `keys are those of the object itself, whatever stands in its values`() {
        let json = #"{"a":"a\":","b" : ["a",{"a":1}], "c":{"b":[]},"a":2}"#
        let keys = TopLevelKeys(Data(json.utf8))
        #expect(keys.keys == ["a", "b", "c", "a"])
        #expect(keys.repeated == "a")
        #expect(TopLevelKeys(Data("{\"a".utf8)).keys.isEmpty)
        #expect(!keys.hasCommaAtEnd && !TopLevelKeys(Data(#"{"a":",}"}"#.utf8)).hasCommaAtEnd)
    }

    @Test func `a file in UTF-16 is refused`() throws {
        let bytes = try #require("{\"udp\":\"127.0.0.1:0\"}".data(using: .utf16LittleEndian))
        let fault = #expect(throws: Fault.self) { try ConfigFile.parse(bytes, path: "/etc/c.json") }
        #expect(fault?.reason == .configuration && fault?.message.contains("UTF-8") == true)
    }

    @Test func `a file that is over a mebibyte is not read to its end`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("config.json", repeatElement(0x20, count: 1 << 20 + 1))
        for path in [path, "/dev/zero"] {
            let fault = #expect(throws: Fault.self) { try ConfigFile.read(path: path) }
            #expect(fault?.reason == .configuration)
            #expect(fault?.message.contains("1 MiB") == true)
        }
    }

    @Test func `a fault is one line whatever it quotes`() {
        #expect(Fault(.usage, "a\nb\r\nc").line == "ingestd: a\\nb\\r\\nc")
        let hostile = "\u{1B}]0;x\u{9B}31m" + String(repeating: "x", count: 1 << 20)
        let line = Fault(.usage, "invalid value '\(hostile)', --udp, give HOST:PORT").line
        #expect(line.hasPrefix("ingestd: invalid value '\\u{1b}]0;x\\u{9b}31mx"))
        #expect(line.hasSuffix("--udp, give HOST:PORT"))
        #expect(line.utf8.count < 2_100)
    }

    @Test func `a line of the log is one line whatever it quotes`() {
        let kept = KeptLines()
        var logger = Logger(label: "test") { _ in LineLogHandler(KeepingHandler(kept: kept)) }
        logger.logLevel = .info
        logger.warning("a\n\u{1B}[31m\u{85}\(String(repeating: "y", count: 1 << 20)) end")
        logger.debug("below the level")
        #expect(kept.lines.count == 1)
        #expect(kept.lines[0].hasPrefix("a\\n\\u{1b}[31m\\u{85}yyy"))
        #expect(kept.lines[0].hasSuffix("yyy end"))
        #expect(kept.lines[0].utf8.count <= 2_000)
    }

    @Test func `the last line tells what a run has refused, and nothing when it has nothing`() {
        let counters = PipelineCounters()
        counters.events.add(.counted, 5)
        counters.events.add(.notViewable, 5)
        counters.packetsOfCommit.add(.accepted, 5)
        #expect(RefusalSummary(counters).text.isEmpty)
        counters.events.add(.tooEarly)
        counters.events.add(.malformed, 2)
        counters.packetsOfReceive.add(.shed, 3)
        counters.packetsOfCommit.add(.shed, 4)
        #expect(
            RefusalSummary(counters).text
                == "1 event as too_early, 2 events as malformed, 7 datagrams as shed")
    }

    @Test func `every setting is an option, and the help says its default`() {
        let help = IngestdCommand.helpMessage(for: RunCommand.self, columns: 400)
        for setting in Setting.all {
            #expect(help.contains("--\(setting.name)"), "\(setting.name)")
            #expect(help.contains(setting.helpText), "\(setting.name)")
        }
    }

    @Test func `every option reaches the layer under its own name`() throws {
        var arguments: [String] = []
        for setting in Setting.all where !Self.flags.contains(setting.name) {
            arguments += ["--\(setting.name)", "text of \(setting.name)"]
        }
        arguments += Self.flags.map { "--\($0)" }
        let layer = try RunOptions.parse(arguments).layer
        #expect(layer.texts.count == Setting.all.count)
        for (name, text) in layer.texts where !Self.flags.contains(name) {
            #expect(text == "text of \(name)")
        }
        #expect(Self.flags.allSatisfy { layer.texts[$0] == "yes" })
    }

    @Test func `a variable that is no setting is named, one that is is not`() {
        let variables = ["INGESTD_UDP": "", "INGESTD_CONFIG": "", "INGESTD_PORT": "", "HOME": ""]
        #expect(SettingLayer.unknownVariables(variables) == ["INGESTD_PORT"])
    }
}

private final class KeptLines: Sendable {
    private let kept = Mutex<[String]>([])
    func keep(_ line: String) { kept.withLock { $0.append(line) } }
    var lines: [String] { kept.withLock { $0 } }
}

private struct KeepingHandler: LogHandler {
    let kept: KeptLines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { kept.keep(event.message.description) }
}
