import IngestPipeline

/// One thing that can be set: its name, its bounds, its default and what it is for.
///
/// The name with `--` before it is the option, as it is it is a key of the config file, and in capitals
/// after `INGESTD_` it is the environment variable.
struct Setting<Value: Sendable>: AnySetting {
    let name: String
    let purpose: String
    /// What a good value looks like: ends an error message and stands in the help.
    let wanted: String
    /// How the help calls the value.
    let valueName: String
    /// `nil` for a setting that somebody has to give.
    let defaultText: String?
    /// The value behind a text, or `nil` if it is not a good one.
    let parse: @Sendable (String) -> Value?

    func accepts(_ text: String) -> Bool { parse(text) != nil }
}

/// A setting of any type, for what treats all alike: the environment, the file, the help.
protocol AnySetting: Sendable {
    var name: String { get }
    var purpose: String { get }
    var wanted: String { get }
    var valueName: String { get }
    var defaultText: String? { get }
    func accepts(_ text: String) -> Bool
}

extension AnySetting {
    var environmentName: String { "INGESTD_" + name.uppercased().replacing("-", with: "_") }

    /// The text of `--help`: purpose, what is accepted, default.
    var helpText: String {
        let text = "\(purpose) Takes \(wanted)."
        guard let defaultText else { return text }
        return "\(text) (default: \(defaultText))"
    }
}

// MARK: The kinds of values

extension Setting where Value == Int {
    init(_ name: String, _ purpose: String, in range: ClosedRange<Int>, default number: Int) {
        self.name = name
        self.purpose = purpose
        wanted = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        valueName = "n"
        defaultText = String(number)
        parse = { text in
            guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
                return nil
            }
            return Int(text).flatMap { range.contains($0) ? $0 : nil }
        }
    }
}

extension Setting where Value == Bool {
    init(_ name: String, _ purpose: String, default isYes: Bool) {
        self.name = name
        self.purpose = purpose
        wanted = "yes or no"
        valueName = "yes|no"
        defaultText = isYes ? "yes" : "no"
        parse = { text in
            switch text {
            case "yes": true
            case "no": false
            default: nil
            }
        }
    }
}

extension Setting where Value == SocketAddress {
    init(_ name: String, _ purpose: String, default address: String) {
        self.name = name
        self.purpose = purpose
        wanted = "HOST:PORT such as \(address)"
        valueName = "host:port"
        defaultText = address
        parse = { try? SocketAddress($0) }
    }
}

extension Setting where Value == SocketAddress? {
    /// An address, or `off`.
    init(_ name: String, _ purpose: String, default address: String) {
        self.name = name
        self.purpose = purpose
        wanted = "HOST:PORT such as \(address), or off"
        valueName = "host:port|off"
        defaultText = address
        parse = { text in
            if text == "off" { return .some(nil) }
            return (try? SocketAddress(text)).map { .some($0) }
        }
    }
}

extension Setting where Value == String {
    /// A path; somebody has to give it.
    init(_ name: String, _ purpose: String) {
        self.name = name
        self.purpose = purpose
        wanted = "the path of a directory"
        valueName = "dir"
        defaultText = nil
        parse = { $0.isEmpty || $0.utf8.contains(0) ? nil : $0 }
    }
}

extension Setting where Value == String? {
    /// A file; nobody has to give one.
    init(_ name: String, _ purpose: String) {
        self.name = name
        self.purpose = purpose
        wanted = "the path of a file"
        valueName = "file"
        defaultText = nil
        parse = { $0.isEmpty || $0.utf8.contains(0) ? nil : .some($0) }
    }
}

extension Setting where Value == BusinessZone {
    init(_ name: String, _ purpose: String, default identifier: String) {
        self.name = name
        self.purpose = purpose
        wanted = "UTC or an IANA name such as Europe/Berlin"
        valueName = "zone"
        defaultText = identifier
        parse = { BusinessZone(identifier: $0) }
    }
}

/// What becomes of events that are too old to be compared.
enum OutsideWindow: String, Sendable, CaseIterable {
    case count
    case refuse
}

extension Setting where Value == OutsideWindow {
    init(_ name: String, _ purpose: String, default value: OutsideWindow) {
        self.name = name
        self.purpose = purpose
        wanted = "count or refuse"
        valueName = "count|refuse"
        defaultText = value.rawValue
        parse = { OutsideWindow(rawValue: $0) }
    }
}
