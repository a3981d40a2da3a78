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
        let bytes = try bytes(of: path, byteCountMax: byteCountMax, "config file", limit: "1 MiB")
        return try parse(bytes, path: path)
    }

    /// What a file holds, and no more than a byte beyond what is allowed, which tells enough of any longer file or of a
    /// device; `nil` if it cannot be read, or is a pipe, which may never end.
    static func bytes(of path: String, byteCountMax: Int) -> Data? {
        // SAFETY: the path is copied by the kernel.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if descriptor < 0 { return nil }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT != S_IFIFO else {
            return nil
        }
        return try? file.read(upToCount: byteCountMax + 1) ?? Data()
    }

    /// All of a file that a setting names.
    ///
    /// - Parameters:
    ///   - what: what it is called in messages.
    ///   - limit: what the limit is called there, if not by its bytes.
    /// **Errors** `Fault` with `.configuration`.
    static func bytes(
        of path: String, byteCountMax: Int, _ what: String, limit: String? = nil
    ) throws(Fault) -> Data {
        guard let data = bytes(of: path, byteCountMax: byteCountMax) else {
            throw Fault(
                .configuration,
                "the \(what) cannot be read, \(path), check that it is there, readable, and no pipe"
            )
        }
        guard data.count <= byteCountMax else {
            let limit = limit ?? "\(byteCountMax) bytes"
            throw Fault(
                .configuration, "the \(what) is over \(limit), \(path), name the right file")
        }
        return data
    }

    static func parse(_ bytes: Data, path: String) throws(Fault) -> SettingLayer {
        let object: [String: Value]
        do {
            object = try JSONDecoder().decode([String: Value].self, from: bytes)
        } catch {
            throw Fault(
                .configuration,
                "the config file is not a JSON object, \(path), \(reason(in: bytes))")
        }
        // The decoder takes both; what scans the keys, and other programs, would not.
        if bytes.contains(0) {
            throw Fault(.configuration, "the config file is not UTF-8, \(path), save it as UTF-8")
        }
        let keys = TopLevelKeys(bytes)
        if keys.hasCommaAtEnd {
            throw Fault(
                .configuration,
                "the config file is not a JSON object, \(path), "
                    + "remove the comma before a closing bracket")
        }
        if let key = keys.repeated {
            throw Fault(
                .configuration, "duplicate key '\(key)', \(path), remove one of the two")
        }
        var layer = SettingLayer(.file(path: path))
        for (key, value) in object.sorted(by: { $0.key < $1.key }) {
            guard let setting = Setting.named(key) else {
                throw Fault(
                    .configuration,
                    "unknown key '\(key)', \(path), see 'ingestd --help' for the options")
            }
            guard let text = value.text else {
                throw Fault(
                    .configuration, "invalid value, \(path): \(key), give \(setting.wanted)")
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
                return "correct it: \(detail)"
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

/// The keys of a JSON object in their order, repeats included, which a decoder into a dictionary drops
/// silently.
struct TopLevelKeys {
    private(set) var keys: [String] = []
    /// Whether a comma stands before a closing bracket.
    private(set) var hasCommaAtEnd = false

    /// - Parameter bytes: an object of valid JSON in UTF-8.
    init(_ bytes: Data) {
        let bytes = [UInt8](bytes)
        var depth = 0
        var at = 0
        var last: UInt8 = 0
        while at < bytes.count {
            let byte = bytes[at]
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                if last == UInt8(ascii: ",") { hasCommaAtEnd = true }
            case UInt8(ascii: "\""):
                let end = Self.endOfString(bytes, from: at)
                if depth == 1, Self.isKey(bytes, endingAt: end) { append(bytes[at..<end]) }
                at = end - 1
            default: break
            }
            if !Self.isSpace(byte) { last = byte }
            at += 1
        }
    }

    /// The first key that comes a second time.
    var repeated: String? {
        var seen: Set<String> = []
        return keys.first { !seen.insert($0).inserted }
    }

    /// As the decoder reads it, its escapes undone.
    private mutating func append(_ literal: ArraySlice<UInt8>) {
        if let key = try? JSONDecoder().decode(String.self, from: Data(literal)) {
            keys.append(key)
        }
    }

    /// The place after the closing quote.
    private static func endOfString(_ bytes: [UInt8], from start: Int) -> Int {
        var at = start + 1
        while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
            at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(bytes.count, at + 1)
    }

    /// Whether a colon follows, and not a comma or the end.
    private static func isKey(_ bytes: [UInt8], endingAt end: Int) -> Bool {
        bytes[end...].first { !isSpace($0) } == UInt8(ascii: ":")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}
