// [address] → socket

/// HOST:PORT as a person writes it: a name or an IPv4 address as it is, an IPv6 address in brackets.
package struct SocketAddressText: Equatable, Sendable {
    package let host: String
    /// 1 … 65,535: nothing can be sent to port 0.
    package let port: UInt16

    /// **Errors** `ClientError.badAddress`.
    package init(_ text: String) throws(ClientError) {
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...]), port > 0,
            text[text.index(after: colon)...].allSatisfy(\.isNumber),
            let host = Self.host(text[..<colon])
        else { throw .badAddress(text) }
        self.host = host
        self.port = port
    }

    /// `nil` for an empty host, half a bracket, or an IPv6 address without brackets, whose last group
    /// could not be told from a port.
    private static func host(_ text: Substring) -> String? {
        if text.hasPrefix("[") {
            guard text.hasSuffix("]"), text.count > 2 else { return nil }
            let inner = text.dropFirst().dropLast()
            guard inner.contains(":"), !inner.contains(where: { "[]".contains($0) }) else {
                return nil
            }
            return String(inner)
        }
        guard !text.isEmpty, !text.contains(where: { ":[]".contains($0) }) else { return nil }
        return String(text)
    }
}
