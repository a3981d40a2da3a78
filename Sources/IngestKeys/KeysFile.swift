// packet → [tag] → decode → …

import Glibc
import IngestFormat

/// One key of a keys file: what it tags, and for whom it holds.
///
/// A class, so that a look-up per packet retains once.
package final class PacketKey: Sendable {
    /// 1 … 65,535, as in the packet's header.
    package let id: UInt16
    package let tag: TagKey
    /// The only sender that may use this key; `nil` = any.
    package let sender: SenderID?
    /// The only business whose events this key may send, as UTF-8; `nil` = any.
    package let business: [UInt8]?

    package init(id: UInt16, key: [UInt8], sender: SenderID? = nil, business: [UInt8]? = nil) {
        self.id = id
        tag = TagKey(key)
        self.sender = sender
        self.business = business
    }

    /// Whether a packet of this sender may be tagged with this key.
    package func isFor(_ sender: SenderID) -> Bool { self.sender == nil || self.sender == sender }
}

/// The keys that a daemon takes packets under, or a sender's own: a text file, read whole.
///
/// **Layout** A line a key, fields apart by blanks: `KEY_ID HEX_KEY [sender=ID|*] [business=ID|*]`; empty
/// lines, and what follows a `#` at the start of a field, mean nothing. The page is docs/format/keys.md.
///
/// **Cost** A look-up is one load from a table of 128 KiB and one of a list.
package struct KeysFile: Sendable {
    /// In the file's order.
    package let keys: [PacketKey]
    /// By key id: one more than the place in `keys`, 0 = none.
    private let places: [UInt16]

    /// The key with this id; `nil` if there is none, and for 0.
    package subscript(id: UInt16) -> PacketKey? {
        let place = places[Int(id)]
        return place == 0 ? nil : keys[Int(place) - 1]
    }

    /// - Parameters:
    ///   - bytes: what the file holds.
    ///   - path: for messages only.
    ///
    /// **Errors** `KeysError.line` for the first line that breaks a rule, `.noKeys`.
    package init(_ bytes: [UInt8], path: String) throws(KeysError) {
        var keys: [PacketKey] = []
        var places = [UInt16](repeating: 0, count: 1 << 16)
        var keyCounts: [SenderID: Int] = [:]
        var number = 0
        for line in bytes.lines {
            number += 1
            do throws(KeysError.Fault) {
                guard let key = try KeyLine(line)?.key else { continue }
                guard places[Int(key.id)] == 0 else { throw .repeatedID(key.id) }
                if let sender = key.sender {
                    keyCounts[sender, default: 0] += 1
                    if keyCounts[sender, default: 0] > Limits.senderKeyCountMax {
                        throw .tooManyKeys(sender)
                    }
                }
                keys.append(key)
                places[Int(key.id)] = UInt16(keys.count)
            } catch {
                throw .line(path: path, number: number, error)
            }
        }
        if keys.isEmpty { throw .noKeys(path: path) }
        self.keys = keys
        self.places = places
    }
}

extension KeysFile {
    /// Reads a file that its owner alone can read: mode 0400 or 0600.
    ///
    /// **Errors** Those of `init`, and `unreadable`, `notAFile`, `mode`, `tooLarge`.
    package init(path: String) throws(KeysError) {
        // Non-blocking: the path may be a pipe without a writer.
        // SAFETY: the path is copied by the kernel.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .unreadable(path: path, errno: errno) }
        defer { _ = close(descriptor) }
        // Checked on the descriptor: the path may be replaced meanwhile.
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0 else {
            throw .unreadable(path: path, errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notAFile(path: path) }
        let mode = status.st_mode & 0o7777
        guard mode == 0o400 || mode == 0o600 else { throw .mode(path: path, mode: mode) }
        try self.init(Self.bytes(descriptor, path), path: path)
    }

    private static func bytes(_ descriptor: Int32, _ path: String) throws(KeysError) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            // SAFETY: at most the piece's own bytes are written.
            let count = unsafe piece.withUnsafeMutableBytes {
                unsafe read(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0 {
                if errno == EINTR { continue }
                throw .unreadable(path: path, errno: errno)
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= Limits.keysFileByteCountMax else {
                throw .tooLarge(path: path, byteCountMax: Limits.keysFileByteCountMax)
            }
        }
    }
}

/// One line, field by field.
private struct KeyLine {
    private var sender: SenderID?
    private var business: [UInt8]?
    private var named: Set<String> = []
    private let id: UInt16
    private let bytes: [UInt8]

    var key: PacketKey { PacketKey(id: id, key: bytes, sender: sender, business: business) }

    /// `nil` for a line without fields.
    init?(_ line: ArraySlice<UInt8>) throws(KeysError.Fault) {
        let fields = line.fields
        guard let first = fields.first else { return nil }
        guard let id = decimal(first), (1...65_535).contains(id) else { throw .id }
        guard fields.count >= 2 else { throw .noKey }
        self.id = UInt16(id)
        bytes = try Self.hex(fields[1])
        for (place, field) in fields.enumerated().dropFirst(2) {
            try take(field, place: place + 1)
        }
    }

    private static func hex(_ field: ArraySlice<UInt8>) throws(KeysError.Fault) -> [UInt8] {
        let digits = field.compactMap { digit($0) }
        guard digits.count == field.count else { throw .notHex }
        guard digits.count % 2 == 0 else { throw .halfByte }
        let allowed = Limits.keyByteCountMin...Limits.keyByteCountMax
        guard allowed.contains(digits.count / 2) else {
            throw .keyByteCount(got: digits.count / 2, allowed: allowed)
        }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    private mutating func take(_ field: ArraySlice<UInt8>, place: Int) throws(KeysError.Fault) {
        let parts = field.split(
            separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(decoding: parts[0], as: UTF8.self)
        guard parts.count == 2, name == "sender" || name == "business" else {
            throw .unknownField(place: place)
        }
        guard named.insert(name).inserted else { throw .repeatedField(name) }
        let value = parts[1]
        if value.elementsEqual("*".utf8) { return }
        if name == "sender" {
            guard let id = decimal(value), id > 0 else { throw .sender }
            sender = SenderID(rawValue: id)
        } else {
            guard (1...Limits.nameByteCountMax).contains(value.count),
                String(validating: value, as: UTF8.self) != nil
            else { throw .business }
            business = Array(value)
        }
    }
}

/// A whole number of digits alone; `nil` beyond 64 bits.
private func decimal(_ digits: ArraySlice<UInt8>) -> UInt64? {
    guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
        return nil
    }
    return UInt64(String(decoding: digits, as: UTF8.self))
}

/// Why a keys file is not taken. No message quotes a field of the file: it could be a key in the wrong place.
package enum KeysError: Error, Equatable, Sendable {
    case unreadable(path: String, errno: Int32)
    case notAFile(path: String)
    /// Readable by other users than its owner, or executable.
    case mode(path: String, mode: UInt32)
    case tooLarge(path: String, byteCountMax: Int)
    case noKeys(path: String)
    case line(path: String, number: Int, Fault)
    /// The requested key is not in the file.
    case unknownKey(path: String, id: UInt16)
    /// The requested key belongs to another sender.
    case otherSender(path: String, id: UInt16, sender: SenderID)

    /// What is wrong with a line.
    package enum Fault: Error, Equatable, Sendable {
        case id
        case noKey
        case notHex
        case halfByte
        case keyByteCount(got: Int, allowed: ClosedRange<Int>)
        case repeatedID(UInt16)
        case unknownField(place: Int)
        case repeatedField(String)
        case sender
        case business
        case tooManyKeys(SenderID)
    }
}

extension KeysError: CustomStringConvertible {
    /// What, where, what to do, in one line.
    package var description: String {
        switch self {
        case .unreadable(let path, let errno):
            // SAFETY: strerror returns a string for every number; it is copied at once.
            let reason = unsafe String(cString: strerror(errno))
            return
                "the keys file cannot be read (\(reason)), \(path), check that it is there and readable"
        case .notAFile(let path):
            return "the keys file is not a regular file, \(path), correct the path"
        case .mode(let path, let mode):
            let octal = String(mode, radix: 8)
            return "the keys file has mode 0\(octal), \(path), make it 0400 or 0600"
        case .tooLarge(let path, let byteCountMax):
            return "the keys file is over \(byteCountMax) bytes, \(path), correct the path"
        case .noKeys(let path):
            return "the keys file has no key, \(path), write lines KEY_ID HEX_KEY"
        case .line(let path, let number, let fault):
            return Self.lineText(path: path, number: number, "\(fault)")
        case .unknownKey(let path, let id):
            return "the keys file has no key \(id), \(path), add it or use another"
        case .otherSender(let path, let id, let sender):
            return "key \(id) belongs to sender \(sender.rawValue), \(path), use that sender id"
                + " or another key"
        }
    }
}

extension KeysError {
    /// The text of `line`, for those who keep the fault as text.
    package static func lineText(path: String, number: Int, _ fault: String) -> String {
        "\(path) line \(number): \(fault)"
    }
}

extension KeysError.Fault: CustomStringConvertible {
    package var description: String {
        switch self {
        case .id: "missing key id at the start, write 1 to 65535"
        case .noKey: "missing key after the key id, write it in hexadecimal"
        case .notHex: "the key is not hexadecimal, write it in 0-9 and a-f"
        case .halfByte: "the key has an odd number of digits, write two for each byte"
        case .keyByteCount(let got, let allowed):
            "the key has \(got) bytes, make it \(allowed.lowerBound) to \(allowed.upperBound)"
        case .repeatedID(let id): "duplicate key id \(id), give each key its own"
        case .unknownField(let place):
            "field \(place) is neither sender=ID nor business=ID, correct or remove it"
        case .repeatedField(let name): "duplicate field \(name)=, remove one"
        case .sender: "sender= has no sender id, write 1 to 18446744073709551615, or *"
        case .business: "business= has no business id, write 1 to 128 bytes of UTF-8, or *"
        case .tooManyKeys(let sender):
            "too many keys for sender \(sender.rawValue), keep \(Limits.senderKeyCountMax)"
        }
    }
}
