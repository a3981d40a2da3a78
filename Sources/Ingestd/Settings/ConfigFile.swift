import Foundation

/// The config file: one JSON object whose keys are the option names.
///
///     { "data": "/var/lib/ingestd", "udp": "127.0.0.1:4810", "count-undetermined": false }
enum ConfigFile {
    /// A config file of a megabyte is not a config file.
    private static let byteCountMax = 1 << 20

    /// Reads the file as a layer.
    ///
    /// **Errors** `Fault` with `.configuration`: the file cannot be read, is no JSON object, or has a key
    /// that is no setting or a value that is neither text, number nor true/false.
    static func read(path: String) throws(Fault) -> SettingLayer {
        let bytes: Data
        do {
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            // One byte more than is allowed tells enough of any longer file, or of a device.
            bytes = try file.read(upToCount: byteCountMax + 1) ?? Data()
        } catch {
            throw Fault(
                .configuration,
                "the config file cannot be read, \(path), check that it is there and readable")
        }
        guard bytes.count <= byteCountMax else {
            throw Fault(
                .configuration, "the config file is over 1 MiB, \(path), name the right file")
        }
        return try parse(bytes, path: path)
    }

    static func parse(_ bytes: Data, path: String) throws(Fault) -> SettingLayer {
        let object: [String: Value]
        do {
            object = try JSONDecoder().decode([String: Value].self, from: bytes)
        } catch {
            throw Fault(
                .configuration,
                "the config file is not an object of JSON, \(path), \(reason(in: bytes))")
        }
        if let key = TopLevelKeys(bytes).repeated {
            throw Fault(
                .configuration, "key '\(key)' comes twice, \(path), leave the one that is meant")
        }
        var layer = SettingLayer(.file(path: path))
        for (key, value) in object.sorted(by: { $0.key < $1.key }) {
            guard let setting = Settings.all.first(where: { $0.name == key }) else {
                throw Fault(
                    .configuration,
                    "unknown key '\(key)', \(path), see 'ingestd --help' for the options")
            }
            guard let text = value.text else {
                throw Fault(
                    .configuration, "\(path): \(key) is not one value, give \(setting.wanted)")
            }
            layer.texts[key] = text
        }
        return layer
    }

    /// Where the file stops being JSON, which the decoder does not say.
    private static func reason(in bytes: Data) -> String {
        do {
            _ = try JSONSerialization.jsonObject(with: bytes)
        } catch {
            if let detail = (error as NSError).userInfo["NSDebugDescription"] as? String {
                return "mend it: \(detail)"
            }
        }
        return "write it as { \"option-name\": value, … }"
    }

    /// A JSON value as the text that the same option would have on the command line.
    private struct Value: Decodable {
        let text: String?

        init(from decoder: any Decoder) throws {
            guard let single = try? decoder.singleValueContainer() else {
                text = nil
                return
            }
            // In this order: a Boolean is not taken for a number, nor a whole number for a fraction.
            if let isTrue = try? single.decode(Bool.self) {
                text = isTrue ? "yes" : "no"
            } else if let number = try? single.decode(Int.self) {
                text = String(number)
            } else if let number = try? single.decode(Double.self) {
                text = String(number)
            } else {
                text = try? single.decode(String.self)
            }
        }
    }
}
