// sender → [socket] → packet → decode → …

import Glibc
import IngestFormat
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
    /// Another refusal of the kernel, or of the network.
    case socket(call: String, address: String, errno: Int32)
    /// An option is outside its bounds. Nothing was opened.
    case badOption(name: String, got: String, allowed: String)
    /// The receiver refuses this sender's epoch or sequences for good (status 3).
    case refused(sender: UInt64, epoch: UInt64, cause: RefusalCause)
    /// The receiver has a packet of this sender and epoch that was never sent from here: its spool was copied.
    case unknownPackets(sender: UInt64, sequence: UInt64, next: UInt64)
    /// The receiver has lost what it had acked: it stands at `floor`, all below `base` was acked. Nobody holds these
    /// events any more.
    case ackedDataLost(sender: UInt64, floor: UInt64, base: UInt64)
    /// Nothing was heard while packets waited for an answer.
    case noAnswer(address: String, seconds: UInt64)
    /// Answers come, but this packet, sent again and again, is not acked, nor is any other.
    case noProgress(address: String, sequence: UInt64, byteCount: Int)
    /// `close` had to end before everything was acked.
    case deadline(unackedPackets: UInt64)
    /// The spool holds packets of another sender than the one that is asked for.
    case otherSender(path: String, asked: UInt64, found: UInt64)
    /// The spool cannot be used, or not now. Packets that it holds are sent by the next start.
    case spool(path: String, SpoolFailure)
    /// The keys file, if there is one, or its key cannot be used.
    case keys(message: String)
    /// The task that waited was cancelled. The event was not taken; the sender goes on.
    case cancelled
    /// The sender was closed before.
    case closed

    /// Why a receiver refuses an epoch or its sequences.
    public enum RefusalCause: Equatable, Sendable {
        /// It knows this later epoch of the sender: another process has the same id, or has started since.
        case newerEpoch(UInt64)
        /// The epoch is more than a day ahead of this machine's clock: that was wrong when the spool was begun, or is now.
        case clock
        /// The sender was away for longer than the receiver remembers, or a sequence came with other bytes: two processes
        /// have one id, or a spool was copied.
        case reused
    }

    public enum SpoolFailure: Equatable, Sendable {
        /// Another sender uses it; its process id if it could be read.
        case inUse(pid: Int32?)
        /// The bytes at `offset` of the file are not what was written there.
        case damaged(offset: UInt64, detail: String)
        /// No room for more packets. The sender goes on with those it has, and tries again.
        case diskFull
        /// A sync failed: what was written last may be on disk, or not.
        case durabilityLost(call: String, errno: Int32)
        /// More than a start can read.
        case tooLarge(byteCountMax: Int)
        /// The directory is not there and cannot be made.
        case missing
        case io(call: String, errno: Int32)
    }
}

extension ClientError {
    /// The same in the words of a sender.
    package init(spool error: StorageError) {
        self =
            switch error {
            case .locked(let path, let holder): .spool(path: path, .inUse(pid: holder))
            case .corrupt(let path, let offset, let detail):
                .spool(path: path, .damaged(offset: offset, detail: detail))
            case .newerFormat(let path, let version):
                .spool(path: path, .damaged(offset: 0, detail: "format \(version)"))
            case .diskFull(let path, _, _): .spool(path: path, .diskFull)
            case .durabilityLost(let path, let call, let errno):
                .spool(path: path, .durabilityLost(call: call, errno: errno))
            case .overLimit(let path, _):
                .spool(path: path, .tooLarge(byteCountMax: Limits.spoolByteCountMax))
            case .notFound(let path), .missingDirectory(let path), .missingManifest(let path, _):
                .spool(path: path, .missing)
            case .alreadyExists(let path): .spool(path: path, .io(call: "open", errno: EEXIST))
            case .io(let path, let call, let errno):
                .spool(path: path, .io(call: call, errno: errno))
            }
    }

    /// A spool's packets are tagged by another key than the sender's, by other bytes of it, or (`nil`) by none.
    static func spooledUnder(_ id: UInt16?, path: String) -> ClientError {
        let (tag, key) =
            id.map { ("that are tagged by key \($0)", "with that key") }
            ?? ("without a tag", "without a key")
        return .keys(message: "the spool holds packets \(tag), \(path), send them \(key) first")
    }

    package init(keys error: KeysError) { self = .keys(message: "\(error)") }

    /// Whether the same bytes may be taken later: the receiver starts again, a cable is plugged in again, a firewall or a
    /// route is being changed. What the network answers to one packet ends no sender.
    var isTemporary: Bool {
        switch self {
        case .notListening: true
        case .socket(_, _, let errno): ![EBADF, ENOTSOCK, EFAULT].contains(errno)
        default: false
        }
    }

    /// Whether the kernel knows no way to the address, or has lost its own.
    var isUnreachable: Bool {
        guard case .socket(_, _, let errno) = self else { return false }
        return IngestClient.isUnreachable(errno)
    }

    /// The same, where a new attempt to connect has found none: of why there is none, what was said before says more.
    func orBetter(_ before: ClientError?) -> ClientError {
        guard case .socket(_, _, EDESTADDRREQ) = self, let before else { return self }
        return before
    }

    /// The program's exit code for this error (the table is in docs/sending.md).
    package var exitCode: Int32 {
        switch self {
        case .badAddress, .badOption: 64
        case .unresolved, .notListening, .noAnswer, .noProgress, .deadline, .refused,
            .unknownPackets:
            69
        case .ackedDataLost: 71
        case .otherSender, .keys: 78
        case .spool(_, let failure): failure.exitCode
        case .socket(_, _, let errno): IngestClient.isUnreachable(errno) ? 69 : 74
        case .closed, .cancelled: 74
        }
    }
}

extension ClientError.SpoolFailure {
    fileprivate var exitCode: Int32 {
        switch self {
        case .inUse: 69
        case .damaged: 65
        case .missing: 66
        case .durabilityLost: 71
        case .diskFull, .tooLarge, .io: 74
        }
    }
}
