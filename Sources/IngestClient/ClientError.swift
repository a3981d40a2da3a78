// sender → [socket] → packet → decode → …

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
            "\(call) to \(address) failed: \(systemMessage(errno))"
        case .closed:
            "the sender is closed, open another one"
        }
    }

    /// The program's exit code for this error (see the table of exit codes in README).
    package var exitCode: Int32 {
        switch self {
        case .badAddress: 64
        case .unresolved, .notListening: 69
        case .socket(_, _, let errno): isUnreachable(errno) ? 69 : 74
        case .closed: 74
        }
    }
}

/// The text with everything that a terminal could act on escaped.
private func quoted(_ text: String) -> String { text.debugDescription }
