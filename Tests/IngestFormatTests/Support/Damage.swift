import IngestFormat

/// Ways to damage bytes, and what a decoder did not notice.
enum Damage {
    /// The bits (8 a byte, lowest first) that can be flipped without `decode` throwing.
    static func unseenFlips(
        _ bytes: [UInt8], _ decode: ([UInt8]) throws -> Void
    ) -> [Int] {
        (0..<bytes.count * 8).filter { bit in
            var damaged = bytes
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            return accepts(damaged, decode)
        }
    }

    /// The lengths, less than all, to which the bytes can be cut without `decode` throwing.
    static func unseenCuts(
        _ bytes: [UInt8], _ decode: ([UInt8]) throws -> Void
    ) -> [Int] {
        (0..<bytes.count).filter { accepts(Array(bytes.prefix($0)), decode) }
    }

    private static func accepts(_ bytes: [UInt8], _ decode: ([UInt8]) throws -> Void) -> Bool {
        do {
            try decode(bytes)
            return true
        } catch {
            return false
        }
    }

    /// Which case of error `decode` throws, and in which field; `nil` if it throws none.
    static func error(_ decode: () throws -> Void) -> FormatError? {
        do {
            try decode()
            return nil
        } catch {
            return error as? FormatError
        }
    }
}

extension FormatError {
    /// The case and the field alone: `corrupt row count`.
    var summary: String {
        let name =
            switch self {
            case .torn: "torn"
            case .corrupt: "corrupt"
            case .newerFormat: "newerFormat"
            case .notThisFile: "notThisFile"
            }
        return "\(name) \(fault.field)"
    }
}
