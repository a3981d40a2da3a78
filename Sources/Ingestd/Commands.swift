import ArgumentParser
import Foundation

/// The command line of `ingestd`. Without a subcommand it is `run`, so that `--help` shows the options that
/// nearly everybody looks for.
struct IngestdCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingestd",
        abstract: "Counts ad events that arrive over UDP, from a durable log.",
        discussion: """
            Options come from the command line, from INGESTD_* environment variables (--udp is \
            INGESTD_UDP, --time-zone is INGESTD_TIME_ZONE) or from the config file, in that order. When \
            it is ready it prints one line of JSON on standard output; logs go to standard error. SIGTERM \
            stops it cleanly.
            """,
        version: Version.text,
        subcommands: [RunCommand.self, CheckConfigCommand.self])

    @OptionGroup var options: RunOptions

    func run() throws { try options.run() }
}

/// `ingestd run`: the same by its full name.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Receives, counts and stores events until it is told to stop (the default).")

    @OptionGroup var options: RunOptions

    func run() throws { try options.run() }
}

extension RunOptions {
    fileprivate func run() throws(Fault) {
        ProcessState.prepare()
        let environment = ProcessInfo.processInfo.environment
        let settings = try DaemonSettings(try layers(environment: environment))
        let unknown = SettingLayer.unknownVariables(environment)
        try Daemon(settings, unknownVariables: unknown).runUntilStopped()
    }
}

/// `ingestd check-config`: would this file be accepted?
struct CheckConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Says whether a config file would be accepted; starts nothing.")

    @Option(help: "The file to check.") var config: String

    func run() throws {
        var layer = try ConfigFile.read(path: config)
        // The directory may come from the command line later; everything else has to be whole.
        layer.texts[Settings.data.name] = layer.texts[Settings.data.name] ?? "."
        _ = try DaemonSettings([layer])
        print("\(config): ok")
    }
}
