import ArgumentParser
import Foundation
import IngestKeys

/// The command line of `ingestd`.
struct IngestdCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingestd",
        abstract: "Counts ad events that arrive over UDP, from a durable log.",
        version: Version.text,
        subcommands: [RunCommand.self, CheckConfigCommand.self])

    /// Puts in the `run` that everybody leaves out, so that `ingestd --help` too is about its options. (A
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
        abstract: "Receives, counts and stores ad events until it is told to stop.",
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
        version: Version.text)

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
        let settings = try DaemonSettings([layer])
        do {
            if let keys = settings.keysPath { _ = try KeysFile(path: keys) }
        } catch {
            throw Fault(.configuration, "\(error)")
        }
        print("\(config): ok")
    }
}
