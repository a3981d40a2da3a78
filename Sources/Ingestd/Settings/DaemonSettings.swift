import IngestPipeline

/// The settings as values: the layers laid over each other and every text judged.
struct DaemonSettings {
    let dataDirectory: String
    let udp: SocketAddress
    /// `nil` when it is off.
    let http: SocketAddress?
    let commitIntervalMilliseconds: Int
    let segmentByteCountMax: Int
    let compactIntervalSeconds: Int
    /// 0 keeps rows for ever.
    let retentionDayCount: Int
    /// 0 is no bound.
    let retentionByteCount: Int
    /// 0 takes any age.
    let eventAgeSecondsMax: Int
    let eventLeadSecondsMax: Int
    let countsUndetermined: Bool
    let countsConsentNotSet: Bool
    let dedupWindowSeconds: Int
    let dedupKeyCountMax: Int
    let outsideDedupWindow: OutsideWindow
    let zone: BusinessZone
    /// `nil`: senders are not authenticated.
    let keysPath: String?
    let receiveBufferByteCount: Int
    let acceptsUnauthenticated: Bool
    let acceptsClock: Bool

    /// - Parameter layers: the first that gives a setting wins; the defaults come after all of them.
    ///
    /// **Errors** `Fault`: `.usage` for a value of the command line or a missing one, `.configuration` for
    /// a value of the other places or an address that is open to strangers.
    init(_ layers: [SettingLayer]) throws(Fault) {
        for layer in layers { try layer.check() }
        let chosen = Choice(layers: layers + [.defaults])
        dataDirectory = try chosen.value(Settings.data)
        udp = try chosen.value(Settings.udp)
        http = try chosen.value(Settings.http)
        commitIntervalMilliseconds = try chosen.value(Settings.commitInterval)
        segmentByteCountMax = try chosen.value(Settings.segmentBytesMax)
        compactIntervalSeconds = try chosen.value(Settings.compactInterval)
        retentionDayCount = try chosen.value(Settings.retentionDays)
        retentionByteCount = try chosen.value(Settings.retentionBytes)
        eventAgeSecondsMax = try chosen.value(Settings.maxEventAge)
        eventLeadSecondsMax = try chosen.value(Settings.maxEventLead)
        countsUndetermined = try chosen.value(Settings.countUndetermined)
        countsConsentNotSet = try chosen.value(Settings.countConsentNotSet)
        dedupWindowSeconds = try chosen.value(Settings.dedupWindow)
        dedupKeyCountMax = try chosen.value(Settings.dedupKeysMax)
        outsideDedupWindow = try chosen.value(Settings.outsideDedupWindow)
        zone = try chosen.value(Settings.timeZone)
        keysPath = try chosen.optional(Settings.keys)
        receiveBufferByteCount = try chosen.value(Settings.receiveBufferBytes)
        acceptsUnauthenticated = try chosen.value(Settings.acceptUnauthenticated)
        acceptsClock = try chosen.value(Settings.acceptClock)
        try refuseOpenAddresses()
    }

    /// Without keys whoever reaches the port is counted, so an address that others reach has to be asked
    /// for in so many words. HTTP is not served yet, and has no keys.
    private func refuseOpenAddresses() throws(Fault) {
        if acceptsUnauthenticated { return }
        for (name, address) in [("udp", udp), ("http", http)] {
            guard let address, !address.isLoopback, name == "http" || keysPath == nil else {
                continue
            }
            throw Fault(
                .configuration,
                "--\(name) \(address) can be reached by strangers and senders are not authenticated, "
                    + "use a loopback address\(name == "udp" ? ", --keys FILE" : "") "
                    + "or add --insecure-accept-unauthenticated")
        }
    }

    private struct Choice {
        let layers: [SettingLayer]

        /// `nil` where no layer has it.
        func optional<Value>(_ setting: Setting<Value?>) throws(Fault) -> Value? {
            layers.contains { $0.texts[setting.name] != nil } ? try value(setting) : nil
        }

        func value<Value>(_ setting: Setting<Value>) throws(Fault) -> Value {
            for layer in layers {
                guard let text = layer.texts[setting.name] else { continue }
                guard let value = setting.parse(text) else {
                    throw layer.refusal(of: text, for: setting)
                }
                return value
            }
            throw Fault(
                .usage,
                "--\(setting.name) is missing, command line, give \(setting.wanted)")
        }
    }
}
