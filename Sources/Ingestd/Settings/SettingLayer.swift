/// What one place says about the settings, still as text.
struct SettingLayer {
    let origin: Origin
    /// By the setting's name.
    var texts: [String: String]

    enum Origin: Equatable {
        case commandLine
        case environment
        case file(path: String)
        case defaults
    }

    init(_ origin: Origin, _ texts: [String: String] = [:]) {
        self.origin = origin
        self.texts = texts
    }

    static var defaults: SettingLayer {
        var layer = SettingLayer(.defaults)
        for setting in Settings.all { layer.texts[setting.name] = setting.defaultText }
        return layer
    }

    /// The settings among the environment variables.
    static func environment(_ variables: [String: String]) -> SettingLayer {
        var layer = SettingLayer(.environment)
        for setting in Settings.all {
            layer.texts[setting.name] = variables[setting.environmentName]
        }
        return layer
    }

    /// The environment's way to name the config file.
    static let configVariable = "INGESTD_CONFIG"

    /// Variables that begin like a setting and are none: logged, not refused, because container
    /// platforms make up such names for a service that is called ingestd.
    static func unknownVariables(_ variables: [String: String]) -> [String] {
        let known = Set(Settings.all.map(\.environmentName) + [configVariable])
        return variables.keys.filter { $0.hasPrefix("INGESTD_") && !known.contains($0) }.sorted()
    }

    /// Judges every value of the layer, also those that an earlier layer hides, so that a mistake in a
    /// file shows when it is made and not when the option that hid it is dropped.
    func check() throws(Fault) {
        for setting in Settings.all {
            guard let text = texts[setting.name] else { continue }
            if !setting.accepts(text) { throw refusal(of: text, for: setting) }
        }
    }

    func refusal(of text: String, for setting: any AnySetting) -> Fault {
        Fault(status, "'\(text)' is no good value, \(place(of: setting)), give \(setting.wanted)")
    }

    /// How this layer's user wrote the setting.
    private func place(of setting: any AnySetting) -> String {
        switch origin {
        case .commandLine, .defaults: "--\(setting.name)"
        case .environment: setting.environmentName
        case .file(let path): "\(path): \(setting.name)"
        }
    }

    /// A value on the command line is wrong usage; anywhere else the configuration is wrong.
    private var status: ExitReason { origin == .commandLine ? .usage : .configuration }
}
