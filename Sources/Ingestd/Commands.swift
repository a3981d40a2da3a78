import ArgumentParser
import Foundation
import IngestFormat
import IngestKeys

/// The command line of `ingestd`.
struct IngestdCommand: ParsableCommand {
    /// The release, and the versions of what it reads and writes.
    static let version =
        "ingestd \(Release.version), packets \(Release.packetVersion), files \(FileEnvelope.version)"

    static let configuration = CommandConfiguration(
        commandName: "ingestd",
        abstract: "Counts ad events that arrive over UDP, from a durable log.",
        version: version,
        subcommands: [RunCommand.self, CheckConfigCommand.self])

    /// Inserts the `run` that may be left out, so that `ingestd --help` too is about its options. (A
    /// default subcommand of the parser would show the root's help, which has none.)
    static func withRun(_ arguments: [String]) -> [String] {
        let known = ["run", "check-config", "help", "--version"]
        if let first = arguments.first, known.contains(first) { return arguments }
        return ["run"] + arguments
    }
}

/// `ingestd run`, or `ingestd` alone: the daemon.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Receives, counts and stores ad events until it is stopped.",
        usage: """
            ingestd [run] --data <dir> [options]
            ingestd check-config --config <file>
            """,
        discussion: """
            Options come from the command line, from INGESTD_* environment variables (--udp is \
            INGESTD_UDP, --time-zone is INGESTD_TIME_ZONE) or from the config file, in that order. When \
            it is ready it prints one line of JSON on standard output; logs go to standard error. SIGTERM \
            stops it cleanly.
            """,
        version: IngestdCommand.version)

    @Option(help: "A JSON file with any of these options as keys, without the dashes before them.")
    var config: String?
    @OptionGroup var options: RunOptions

    func run() throws {
        try ProcessSignals.prepare()
        let environment = ProcessInfo.processInfo.environment
        var layers = [options.layer, SettingLayer.environment(environment)]
        if let path = config ?? environment[SettingLayer.configVariable] {
            layers.append(try ConfigFile.read(path: path))
        }
        let unknown = SettingLayer.unknownVariables(environment)
        try Daemon(DaemonSettings(layers), unknownVariables: unknown).runUntilStopped()
        // exit(3) waits for the stream of a log line that nobody takes.
        _exit(EXIT_SUCCESS)
    }
}

/// The options of `ingestd run`, one for each row of `Setting.all`, all as text: `DaemonSettings` parses them by the
/// same rules as the environment and the file.
///
/// The parser finds options by reflection, and reads them by coding keys; both are given by the table here
/// (docs/workarounds.md).
struct RunOptions: ParsableArguments, CustomReflectable {
    var layer = SettingLayer(.commandLine)

    init() {}

    var customMirror: Mirror {
        Mirror(
            self,
            children: Setting.all.map { setting in
                let name = NameSpecification.customLong(setting.name)
                let help = ArgumentHelp("\(setting.helpText)", valueName: setting.valueName)
                return setting.isFlag
                    ? (setting.name, Flag(wrappedValue: false, name: name, help: help))
                    : (setting.name, Option(name: name, help: help) as Option<String?>)
            })
    }

    init(from decoder: any Decoder) throws {
        let options = try decoder.container(keyedBy: Key.self)
        for setting in Setting.all {
            let key = Key(stringValue: setting.name)
            layer.texts[setting.name] =
                setting.isFlag
                ? try options.decode(Flag<Bool>.self, forKey: key).wrappedValue ? "yes" : nil
                : try options.decode(Option<String?>.self, forKey: key).wrappedValue
        }
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

/// `ingestd check-config`: would this file be accepted?
struct CheckConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Checks whether a config file would be accepted; starts nothing.")

    @Option(help: "The file to check.") var config: String

    func run() throws {
        var layer = try ConfigFile.read(path: config)
        // The directory may come from the command line later; everything else has to be whole.
        layer.texts["data"] = layer.texts["data"] ?? "."
        let settings = try DaemonSettings([layer])
        _ = try settings.readKeys()
        _ = try ZoneSettings.read(settings)
        _ = try settings.readOwners()
        print("\(config): ok")
    }
}
