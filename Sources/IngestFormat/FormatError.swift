// packet → decode → ring → admit → [block] → [segment] → compaction → [snapshot] → [query]

/// Why bytes that came from a disk were rejected: one error for every file kind, told apart by what
/// the reader should do. It knows nothing of files; who reads one adds its name.
///
/// **Errors** `torn`: the bytes end early; at the end of the log that is an unfinished write, anywhere
/// else it is damage. `corrupt`: whole, but wrong: put it aside and report it. `newerFormat`: sound, but
/// written by a later release: stop, and say which one is needed. `notThisFile`: sound, but of another
/// kind, directory or place: it was copied or renamed.
///
/// **Cost** A plain value; nothing is allocated (the names of fields are literals).
package enum FormatError: Error, Hashable, Sendable {
    case torn(FormatFault)
    case corrupt(FormatFault)
    case newerFormat(FormatFault)
    case notThisFile(FormatFault)

    package var fault: FormatFault {
        switch self {
        case .torn(let fault), .corrupt(let fault), .newerFormat(let fault),
            .notThisFile(let fault):
            fault
        }
    }

    /// The same error `byteCount` bytes further on: for a decoder of bytes that lie inside a file.
    package func moved(by byteCount: Int) -> FormatError {
        var fault = fault
        fault.offset += byteCount
        return switch self {
        case .torn: .torn(fault)
        case .corrupt: .corrupt(fault)
        case .newerFormat: .newerFormat(fault)
        case .notThisFile: .notThisFile(fault)
        }
    }

    package static func corrupt(
        _ field: String, at offset: Int, got: some BinaryInteger, expected: FormatFault.Expectation
    ) -> FormatError {
        .corrupt(FormatFault(field, at: offset, got: got, expected: expected))
    }

    /// The bytes end at `available` where at least `needed` were announced.
    package static func torn(
        _ field: String, at offset: Int, available: Int, needed: Int
    ) -> FormatError {
        .torn(FormatFault(field, at: offset, got: available, expected: .atLeast(needed)))
    }

    package static func newerFormat(
        _ field: String, at offset: Int, got: some BinaryInteger, expected: FormatFault.Expectation
    ) -> FormatError {
        .newerFormat(FormatFault(field, at: offset, got: got, expected: expected))
    }

    package static func notThisFile(
        _ field: String, at offset: Int, got: some BinaryInteger, expected: FormatFault.Expectation
    ) -> FormatError {
        .notThisFile(FormatFault(field, at: offset, got: got, expected: expected))
    }
}

/// Where and in what the bytes differ from what the format asks for.
package struct FormatFault: Hashable, Sendable {
    /// What the value was held against. Values are shown as the 64 bits they have.
    package enum Expectation: Hashable, Sendable {
        case value(UInt64)
        case max(UInt64)
        case min(UInt64)

        package static func exactly(_ value: some BinaryInteger) -> Self {
            .value(UInt64(truncatingIfNeeded: value))
        }
        package static func atMost(_ value: some BinaryInteger) -> Self {
            .max(UInt64(truncatingIfNeeded: value))
        }
        package static func atLeast(_ value: some BinaryInteger) -> Self {
            .min(UInt64(truncatingIfNeeded: value))
        }
    }

    /// The field, as the format page names it.
    package let field: String
    /// Of the field, from the start of what was decoded. Bytes.
    package var offset: Int
    package let got: UInt64
    package let expected: Expectation

    package init(
        _ field: String, at offset: Int, got: some BinaryInteger, expected: Expectation
    ) {
        self.field = field
        self.offset = offset
        self.got = UInt64(truncatingIfNeeded: got)
        self.expected = expected
    }
}

extension FormatFault: CustomStringConvertible {
    /// One line without the file's name: `header checksum at offset 12: got 0x1f, expected 0x2e`.
    package var description: String {
        let text =
            switch expected {
            case .value(let value): "expected 0x\(String(value, radix: 16))"
            case .max(let value): "expected at most 0x\(String(value, radix: 16))"
            case .min(let value): "expected at least 0x\(String(value, radix: 16))"
            }
        return "\(field) at offset \(offset): got 0x\(String(got, radix: 16)), \(text)"
    }
}

extension FormatError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .torn: "torn: \(fault)"
        case .corrupt: "corrupt: \(fault)"
        case .newerFormat: "of a newer format: \(fault)"
        case .notThisFile: "not what was expected here: \(fault)"
        }
    }
}
