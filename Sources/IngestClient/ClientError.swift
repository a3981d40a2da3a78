// sender → [socket] → packet → decode → …

import Glibc

/// Why a sender could not open, send or close. What was sent before stays sent.
public enum ClientError: Error, Equatable, Sendable {
    /// The text is not HOST:PORT. Nothing was opened; ask for another address.
    case badAddress(String)
    /// The host has no address, or none that a socket could be made for; `reason` is the system's word.
    case unresolved(address: String, reason: String)
    /// The machine answered that no process receives on that port. Start the daemon, then send again.
    case notListening(address: String)
    /// Another refusal of the kernel.
    case socket(call: String, address: String, errno: Int32)
    /// An option is outside its bounds. Nothing was opened.
    case badOption(name: String, got: UInt64, allowed: ClosedRange<UInt64>)
    /// The sender was closed before.
    case closed
}

extension ClientError: CustomStringConvertible {
    /// What, where, what to do, in one line.
    public var description: String {
        switch self {
        case .badAddress(let text):
            "\(quoted(text)) is not HOST:PORT, write 127.0.0.1:4810 or [::1]:4810"
        case .unresolved(let address, let reason):
            "no address for \(quoted(address)): \(reason), check the host name"
        case .notListening(let address):
            "nobody receives on \(address), start ingestd there or correct the address"
        case .socket(let call, let address, let errno):
            "\(call) to \(address) failed: \(systemMessage(errno)), \(advice(errno))"
        case .badOption(let name, let got, let allowed):
            "\(name) is \(got), give \(allowed.lowerBound) to \(allowed.upperBound)"
        case .closed:
            "the sender is closed, open another one"
        }
    }

    /// The program's exit code for this error (the table is in docs/sending.md).
    package var exitCode: Int32 {
        switch self {
        case .badAddress, .badOption: 64
        case .unresolved, .notListening: 69
        case .socket(_, _, let errno): isUnreachable(errno) ? 69 : 74
        case .closed: 74
        }
    }
}

/// What to do about a refusal of the kernel.
private func advice(_ errno: Int32) -> String {
    if isUnreachable(errno) { return "check the network and the route to that address" }
    switch errno {
    case EMSGSIZE: return "send smaller packets"
    case EACCES, EPERM: return "check this machine's firewall"
    default: return "send again what was not reported as sent"
    }
}

/// The text with everything that a terminal could act on escaped.
private func quoted(_ text: String) -> String { text.debugDescription }
