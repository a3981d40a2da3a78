// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

import CIngestLinux

/// An address and port of UDP, IPv4 or IPv6.
package struct SocketAddress: Sendable, CustomStringConvertible {
    var raw: ingest_address

    init(_ raw: ingest_address) { self.raw = raw }

    /// Reads `HOST:PORT`: a name or a number, IPv6 in brackets (`[::1]:4810`), the port 0 … 65535.
    ///
    /// **Errors** `SocketError.badAddress` says what is wrong with the text, or that the name is unknown.
    /// **Cost** A name is looked up by the system's resolver, which may take seconds.
    package init(_ text: String) throws(SocketError) {
        let (host, port) = try Self.split(text)
        var raw = ingest_address()
        // SAFETY: the text is terminated and lives through the call, which writes one address.
        let code = unsafe host.withCString { unsafe ingest_address_resolve($0, port, &raw) }
        guard code == 0 else {
            let reason = unsafe String(cString: ingest_address_error(code))
            throw SocketError.badAddress(text: text, reason: "\(host): \(reason)")
        }
        self.raw = raw
    }

    /// 0 asks for a free port when bound.
    package var port: UInt16 {
        // SAFETY: in these three the call reads one address, which lives through it.
        unsafe withUnsafePointer(to: raw) { unsafe ingest_address_port($0) }
    }

    /// Whether only this machine can reach it.
    package var isLoopback: Bool {
        unsafe withUnsafePointer(to: raw) { unsafe ingest_address_is_loopback($0) }
    }

    /// `127.0.0.1:4810`, `[::1]:4810`.
    package var description: String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            unsafe withUnsafePointer(to: raw) {
                unsafe ingest_address_text($0, text.baseAddress!, text.count)
            }
            return unsafe String(cString: text.baseAddress!)
        }
    }

    private static func split(_ text: String) throws(SocketError) -> (host: String, port: UInt16) {
        func bad(_ reason: String) -> SocketError { .badAddress(text: text, reason: reason) }
        guard let colon = text.lastIndex(of: ":") else { throw bad("the port is missing") }
        let digits = text[text.index(after: colon)...]
        guard let port = UInt16(digits), digits.allSatisfy({ $0.isASCII && $0.isNumber }) else {
            throw bad("the port is not a number from 0 to 65535")
        }
        var host = text[..<colon]
        if host.hasPrefix("[") && host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            throw bad("an IPv6 address needs brackets")
        }
        if host.isEmpty { throw bad("the host is missing") }
        return (String(host), port)
    }
}
