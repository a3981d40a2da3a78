// sender → [socket] → packet → decode → …

import Glibc
import IngestKeys
import IngestStorage

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
    /// The receiver refuses this sender's epoch or sequences for good (status 3): another sender has the same id,
    /// or the epoch is forgotten. `known` is the epoch that the receiver knows.
    case refused(sender: UInt64, epoch: UInt64, known: UInt64)
    /// The receiver has packets of this sender and epoch that were never sent from here: its spool was copied.
    case unknownPackets(sender: UInt64, floor: UInt64, next: UInt64)
    /// The receiver has lost what it had acked: it stands at `floor`, all below `base` was acked. Nobody holds these
    /// events any more.
    case ackedDataLost(sender: UInt64, floor: UInt64, base: UInt64)
    /// Nothing was heard while packets waited for an answer.
    case noAnswer(address: String, seconds: UInt64)
    /// `close` had to end before everything was acked.
    case deadline(unackedPackets: UInt64)
    /// The spool holds packets of another sender than the one that is asked for.
    case otherSender(path: String, asked: UInt64, found: UInt64)
    /// The spool cannot be used, or not any longer. Packets that it holds are sent by the next start.
    case spool(message: String, exitCode: Int32)
    /// The keys file or its key cannot be used.
    case keys(message: String)
    /// The sender was closed before.
    case closed
}

extension ClientError {
    /// The same in the words of a sender.
    package init(spool error: StorageError) {
        let message =
            switch error {
            case .locked(let path, let holder):
                "another sender\(holder.map { " (pid \($0))" } ?? "") uses this spool, \(path), wait for its"
                    + " end or use another directory"
            case .durabilityLost(let path, let call, let errno):
                "durability lost: \(call): \(systemMessage(errno)), \(path), check the disk, then send again"
            case .overLimit(let path, let detail):
                "\(detail), \(path), use another directory"
            default: "\(error)"
            }
        self = .spool(message: message, exitCode: error.exitCode)
    }

    package init(keys error: KeysError) { self = .keys(message: "\(error)") }

    /// Whether the same bytes may be taken later: the receiver starts again, a cable is plugged in again.
    var isTemporary: Bool {
        switch self {
        case .notListening: true
        case .socket(_, _, let errno):
            isUnreachable(errno) || errno == ENOBUFS || errno == ENOMEM || errno == EAGAIN
        default: false
        }
    }
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
        case .refused(let sender, let epoch, let known):
            "the receiver refuses sender \(sender) with epoch \(epoch) (it knows \(known)), give every"
                + " sender an id and a spool of its own; what is not acked is not counted"
        case .unknownPackets(let sender, let floor, let next):
            "the receiver has \(floor) packets of sender \(sender), of which only \(next) were sent from"
                + " here, never copy a spool: remove it and send again what is missing"
        case .ackedDataLost(let sender, let floor, let base):
            "the receiver has lost packets \(floor) to \(base - 1) of sender \(sender), which it had acked,"
                + " check its disk and send these events again"
        case .noAnswer(let address, let seconds):
            "no answer from \(address) for \(seconds) s, check that ingestd runs there, its keys and the"
                + " network"
        case .deadline(let unackedPackets):
            "\(unackedPackets) packets are not acked in the time given, send them again"
        case .otherSender(let path, let asked, let found):
            "the spool holds packets of sender \(found), not \(asked), \(path), send as that one first"
        case .spool(let message, _), .keys(let message):
            message
        case .closed:
            "the sender is closed, open another one"
        }
    }

    /// The program's exit code for this error (the table is in docs/sending.md).
    package var exitCode: Int32 {
        switch self {
        case .badAddress, .badOption: 64
        case .unresolved, .notListening, .noAnswer, .deadline, .refused, .unknownPackets: 69
        case .ackedDataLost: 71
        case .otherSender, .keys: 78
        case .spool(_, let exitCode): exitCode
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
