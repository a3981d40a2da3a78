// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

import SystemPackage

/// What can go wrong with the daemon's socket. `description` is one line, *what, where, what to do*;
/// `exitCode` is the one a program ends with.
package enum SocketError: Error, Equatable, Sendable {
    /// The text is no HOST:PORT.
    case badAddress(text: String, reason: String)
    /// Another program has the port.
    case addressInUse(address: String)
    /// The address is not one of this machine's, or the port is not allowed to this user.
    case cannotBind(address: String, errno: Int32)
    /// A call on a bound socket failed in a way that does not pass.
    case failed(address: String, call: String, errno: Int32)
    /// No memory for the receive buffers.
    case noMemory(byteCount: Int)

    init(binding address: SocketAddress, errno code: Int32) {
        self =
            Errno(rawValue: code) == .addressInUse
            ? .addressInUse(address: address.description)
            : .cannotBind(address: address.description, errno: code)
    }

    /// The exit code of the command line's contract.
    package var exitCode: Int32 {
        switch self {
        case .badAddress: 64
        case .addressInUse, .cannotBind: 69
        case .failed, .noMemory: 74
        }
    }
}

extension SocketError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .badAddress(let text, let reason):
            "not an address: \(reason), \"\(text)\", give HOST:PORT, with IPv6 as [::1]:4810"
        case .addressInUse(let address):
            "the address is in use, udp \(address), stop the program that has it or give another --udp"
        case .cannotBind(let address, let errno):
            "cannot bind: \(Self.text(errno)), udp \(address), give an address of this machine and a "
                + "port that this user may use"
        case .failed(let address, let call, let errno):
            "\(call) failed: \(Self.text(errno)), udp \(address), start again; what was acked is safe"
        case .noMemory(let byteCount):
            "no memory for \(byteCount) bytes of receive buffers, udp, free memory on this machine"
        }
    }

    private static func text(_ errno: Int32) -> String {
        "\(Errno(rawValue: errno).description) (\(errno))"
    }
}
