import ArgumentParser

/// The options of `ingestd run`. All are texts here: what they mean is judged once, in `DaemonSettings`, by
/// the same rules as the environment and the file.
struct RunOptions: ParsableArguments {
    @Option(help: Settings.data.help) var data: String?
    @Option(help: Settings.udp.help) var udp: String?
    @Option(help: Settings.http.help) var http: String?
    @Option(help: "A JSON file with any of these options as keys, without the dashes before them.")
    var config: String?
    @Option(name: Settings.commitInterval.option, help: Settings.commitInterval.help)
    var commitInterval: String?
    @Option(name: Settings.segmentBytesMax.option, help: Settings.segmentBytesMax.help)
    var segmentBytesMax: String?
    @Option(name: Settings.compactInterval.option, help: Settings.compactInterval.help)
    var compactInterval: String?
    @Option(name: Settings.retentionDays.option, help: Settings.retentionDays.help)
    var retentionDays: String?
    @Option(name: Settings.retentionBytes.option, help: Settings.retentionBytes.help)
    var retentionBytes: String?
    @Option(name: Settings.maxEventAge.option, help: Settings.maxEventAge.help)
    var maxEventAge: String?
    @Option(name: Settings.maxEventLead.option, help: Settings.maxEventLead.help)
    var maxEventLead: String?
    @Option(name: Settings.countUndetermined.option, help: Settings.countUndetermined.help)
    var countUndetermined: String?
    @Option(name: Settings.countConsentNotSet.option, help: Settings.countConsentNotSet.help)
    var countConsentNotSet: String?
    @Option(name: Settings.dedupWindow.option, help: Settings.dedupWindow.help)
    var dedupWindow: String?
    @Option(name: Settings.dedupKeysMax.option, help: Settings.dedupKeysMax.help)
    var dedupKeysMax: String?
    @Option(name: Settings.outsideDedupWindow.option, help: Settings.outsideDedupWindow.help)
    var outsideDedupWindow: String?
    @Option(name: Settings.timeZone.option, help: Settings.timeZone.help)
    var timeZone: String?
    @Option(help: Settings.keys.help) var keys: String?
    @Option(name: Settings.receiveBufferBytes.option, help: Settings.receiveBufferBytes.help)
    var receiveBufferBytes: String?
    @Flag(
        name: Settings.acceptUnauthenticated.option,
        help: "Receives beyond loopback too, where whoever reaches the port is counted.")
    var acceptUnauthenticated = false
    @Flag(
        name: Settings.acceptClock.option,
        help: "Starts at once where the clock is behind the log's last block, instead of waiting.")
    var acceptClock = false

    /// What was given on the command line, as the first layer.
    var layer: SettingLayer {
        var texts: [String: String] = [:]
        texts[Settings.data.name] = data
        texts[Settings.udp.name] = udp
        texts[Settings.http.name] = http
        texts[Settings.commitInterval.name] = commitInterval
        texts[Settings.segmentBytesMax.name] = segmentBytesMax
        texts[Settings.compactInterval.name] = compactInterval
        texts[Settings.retentionDays.name] = retentionDays
        texts[Settings.retentionBytes.name] = retentionBytes
        texts[Settings.maxEventAge.name] = maxEventAge
        texts[Settings.maxEventLead.name] = maxEventLead
        texts[Settings.countUndetermined.name] = countUndetermined
        texts[Settings.countConsentNotSet.name] = countConsentNotSet
        texts[Settings.dedupWindow.name] = dedupWindow
        texts[Settings.dedupKeysMax.name] = dedupKeysMax
        texts[Settings.outsideDedupWindow.name] = outsideDedupWindow
        texts[Settings.timeZone.name] = timeZone
        texts[Settings.keys.name] = keys
        texts[Settings.receiveBufferBytes.name] = receiveBufferBytes
        texts[Settings.acceptUnauthenticated.name] = acceptUnauthenticated ? "yes" : nil
        texts[Settings.acceptClock.name] = acceptClock ? "yes" : nil
        return SettingLayer(.commandLine, texts)
    }

    /// All layers in their order, the file read if one is named.
    func layers(environment: [String: String]) throws(Fault) -> [SettingLayer] {
        var layers = [layer, SettingLayer.environment(environment)]
        if let path = config ?? environment[SettingLayer.configVariable] {
            layers.append(try ConfigFile.read(path: path))
        }
        return layers
    }
}

extension AnySetting {
    fileprivate var option: NameSpecification { .customLong(name) }

    fileprivate var help: ArgumentHelp { ArgumentHelp(helpText, valueName: valueName) }
}
