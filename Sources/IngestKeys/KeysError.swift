// packet → [tag] → decode → …

import Glibc
import IngestFormat

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
