/// An IPv4 address and a UDP or TCP port to listen at.
struct ListenAddress: Equatable, Sendable, CustomStringConvertible {
    /// Dotted decimal, as the kernel writes it.
    let host: String
    /// 0 lets the kernel choose.
    let port: UInt16

    /// Reads `HOST:PORT`; the host is an IPv4 address in dotted decimal, or `localhost`.
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let host = text[..<colon]
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && $0.isNumber }),
            let port = UInt16(digits)
        else { return nil }
        let numeric = host == "localhost" ? "127.0.0.1" : String(host)
        guard Self.octets(of: numeric) != nil else { return nil }
        self.host = numeric
        self.port = port
    }

    var description: String { "\(host):\(port)" }

    /// Whether only programs of this machine can reach the address.
    var isLoopback: Bool { Self.octets(of: host)?[0] == 127 }

    /// Exactly four numbers of 0 … 255: short forms such as `127.1` mean different things to different
    /// programs and are not taken.
    private static func octets(of host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var octets: [UInt8] = []
        for part in parts {
            guard part.count <= 3, part.allSatisfy({ $0.isASCII && $0.isNumber }),
                let octet = UInt8(part)
            else { return nil }
            octets.append(octet)
        }
        return octets
    }
}
