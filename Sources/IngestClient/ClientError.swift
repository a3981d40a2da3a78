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
    /// The receiver has a packet of this sender and epoch that was never sent from here, or is not here any more: its spool was
    /// copied, or has lost its end, of which `cut` tells where this start has seen it.
    indirect case unknownPackets(
        sender: UInt64, sequence: UInt64, next: UInt64, cut: SpoolDamage? = nil)
    /// The receiver has lost packets `first` to `end` - 1, or some of them, all but `unacked` of which had been acked. Nobody
    /// holds their events any more. `EventSender.acceptReceiver` goes on with the rest.
    case ackedDataLost(
        sender: UInt64, epoch: UInt64, first: UInt64, end: UInt64, unacked: UInt64,
        cause: LossCause)
    /// The receiver does not know the packets of this version (status 5).
    case unsupported(address: String)
    /// Nothing was heard while packets waited for an ack.
    case noAnswer(address: String, seconds: UInt64)
    /// The receiver answers, and takes nothing, or its disk does not.
    case notTaken(address: String, cause: BlockCause, seconds: UInt64)
    /// Acks come, but this packet, sent again and again, is not acked, nor is any other.
    case noProgress(address: String, sequence: UInt64, byteCount: Int)
    /// `close` had to end before everything was acked, or before the receiver had said what became of it.
    case deadline
    /// `close` failed: of the events that were taken so many, in so many packets, are not known to be durable. Some of them may
    /// be, and be counted; with a spool the next sender sends those that are in it.
    indirect case notAcked(events: UInt64, packets: UInt64, cause: ClientError)
    /// The spool holds packets of another sender than the one that is asked for.
    case otherSender(path: String, asked: UInt64, found: UInt64)
    /// The spool cannot be used, or not now. Packets that it holds are sent by the next start.
    case spool(path: String, SpoolFailure)
    /// A keys file or its key cannot be used.
    case keys(path: String, KeysFailure)
    /// The task that waited was cancelled; the sender goes on. The event of a `send` was not taken; a `close` can be called
    /// again.
    case cancelled
    /// The sender was closed before.
    case closed

    /// Why a receiver refuses an epoch or its sequences.
    public enum RefusalCause: Equatable, Sendable {
        /// It knows this later epoch of the sender: another process has the same id, or has started since.
        case newerEpoch(UInt64)
        /// The epoch is more than ten minutes ahead of this machine's clock: that was wrong when the spool was begun, or is now.
        case clock
        /// The sender was away for longer than the receiver remembers, or a sequence came with other bytes: two processes
        /// have one id, or a spool was copied.
        case reused
    }

    /// How a receiver shows that it has lost acked data.
    public enum LossCause: Equatable, Sendable {
        /// It has the directory that had acked, in an earlier state: restored from a copy, or a disk that lost writes.
        case olderCopy
        /// It has another directory, or none of this sender.
        case otherDirectory
        /// It has less than an earlier start of the sender had heard of. The spool does not say from which directory.
        case lessThanAcked
    }

    /// Why a receiver takes nothing. It may end by itself.
    public enum BlockCause: Equatable, Sendable {
        /// Its ring is full, its disk takes long, or the key has no room for another sender or name.
        case busy
        case diskFull
        /// It has given its room to other senders.
        case noCredit
    }

    public enum SpoolFailure: Equatable, Sendable {
        /// Another sender uses it; its process id if it could be read.
        case inUse(pid: Int32?)
        /// What stands at `offset` of the file is whole, and does not belong there: something else wrote it.
        case damaged(offset: UInt64, detail: String)
        /// No room for more packets. The sender goes on with those it has, and tries again.
        case diskFull
        /// A sync failed: what was written last may be on disk, or not.
        case durabilityLost(call: String, errno: Int32)
        /// The directory is not there and cannot be made.
        case missing
        case io(call: String, errno: Int32)
    }

    /// Why a keys file, or a key of it, cannot be used.
    public enum KeysFailure: Equatable, Sendable {
        case unreadable(errno: Int32)
        case notAFile
        /// Others than its owner can read it.
        case mode(UInt32)
        case tooLarge(byteCountMax: Int)
        case noKeys
        case line(number: Int, fault: String)
        case noSuchKey(id: UInt16)
        /// The key is for another sender alone.
        case otherSender(id: UInt16, sender: UInt64)
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
            case .diskFull(let path, _, _, _): .spool(path: path, .diskFull)
            case .durabilityLost(let path, let call, let errno):
                .spool(path: path, .durabilityLost(call: call, errno: errno))
            case .overLimit(let path, let detail), .removed(let path, let detail):
                .spool(path: path, .damaged(offset: 0, detail: detail))
            case .notFound(let path), .missingDirectory(let path), .missingManifest(let path, _),
                .foreignDirectory(let path, _):
                .spool(path: path, .missing)
            case .alreadyExists(let path): .spool(path: path, .io(call: "open", errno: EEXIST))
            case .io(let path, let call, let errno):
                .spool(path: path, .io(call: call, errno: errno))
            }
    }

    package init(keys error: KeysError) {
        self =
            switch error {
            case .unreadable(let path, let errno): .keys(path: path, .unreadable(errno: errno))
            case .notAFile(let path): .keys(path: path, .notAFile)
            case .mode(let path, let mode): .keys(path: path, .mode(mode))
            case .tooLarge(let path, let max): .keys(path: path, .tooLarge(byteCountMax: max))
            case .noKeys(let path): .keys(path: path, .noKeys)
            case .line(let path, let number, let fault):
                .keys(path: path, .line(number: number, fault: "\(fault)"))
            case .unknownKey(let path, let id): .keys(path: path, .noSuchKey(id: id))
            case .otherSender(let path, let id, let sender):
                .keys(path: path, .otherSender(id: id, sender: sender.rawValue))
            }
    }

    /// Whether it is what a receiver says of this sender, or has lost: time does not mend it.
    var isOfReceiver: Bool {
        switch self {
        case .refused, .unknownPackets, .ackedDataLost, .unsupported: true
        default: false
        }
    }

    /// Whether the same bytes may be taken later: the receiver starts again, a cable is plugged in again, a firewall or a
    /// route is being changed. A network error of one packet ends no sender.
    var isTemporary: Bool {
        switch self {
        case .notListening: true
        case .socket(_, _, let errno): ![EBADF, ENOTSOCK, EFAULT].contains(errno)
        case .unresolved: true
        default: false
        }
    }

    /// Whether the kernel knows no way to the address, or has lost its own.
    var isUnreachable: Bool {
        switch self {
        case .socket(_, _, let errno): IngestClient.isUnreachable(errno)
        case .unresolved: true
        default: false
        }
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
        case .unresolved, .notListening, .noAnswer, .notTaken, .noProgress, .deadline, .refused,
            .unknownPackets, .unsupported:
            69
        case .ackedDataLost: 71
        case .notAcked(_, _, let cause): cause.exitCode
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
        case .diskFull, .io: 74
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
            "receiver unreachable: nothing listens on \(address), start ingestd there or correct the address"
        case .socket(let call, let address, let errno):
            "\(call) to \(address) failed: \(systemMessage(errno)), \(advice(errno))"
        case .badOption(let name, let got, let allowed):
            "\(name) is \(got), give \(allowed)"
        case .refused(let sender, let epoch, let cause):
            "the receiver refuses sender \(sender) with epoch \(epoch): \(cause.description);"
                + " some of what is not acked may have been counted, which ingest-reader ledger shows"
        case .unknownPackets(let sender, let sequence, let next, let cut):
            "the receiver has packet \(sequence) of sender \(sender), of which only those below \(next)"
                + " were sent from here, "
                + (cut.map {
                    "the spool has lost its last \($0.cutByteCount) bytes, \($0.path) at byte \($0.offset), check the disk"
                } ?? "a spool must not be copied or lose its end")
                + ": remove it and send again what is missing"
        case .ackedDataLost(let sender, let epoch, let first, let end, let unacked, let cause):
            "acked data is lost: \(cause.description); packets \(first) to \(end - min(end, 1)) of sender"
                + " \(sender), epoch \(epoch), had been acked\(unacked > 0 ? " but for \(unacked)" : "")"
                + "; restore the receiver's directory, or accept the"
                + " loss (--accept-receiver) and send these events again"
        case .unsupported(let address):
            "\(address) does not know packets of this version, update ingestd there"
        case .noAnswer(let address, let seconds):
            "no answer from \(address) for \(seconds) s, check that ingestd runs there, its keys and the"
                + " network"
        case .notTaken(let address, let cause, let seconds):
            "\(address) has acked nothing for \(seconds) s: \(cause.description)"
        case .noProgress(let address, let sequence, let byteCount):
            "\(address) answers, but does not ack packet \(sequence) of \(byteCount) bytes, check the keys,"
                + " and whether packets of that size pass the network"
        case .deadline:
            "the time to close was up, close again, or with a spool open it again"
        case .notAcked(let events, let packets, let cause):
            "\(cause); \(events) event\(events == 1 ? "" : "s") in \(packets) packet\(packets == 1 ? "" : "s") not acked, which may have been"
                + " counted all the same"
        case .otherSender(let path, let asked, let found):
            "the spool holds packets of sender \(found), not \(asked), \(path), send as that one first"
        case .spool(let path, let failure): failure.description(path)
        case .keys(let path, let failure): failure.description(path)
        case .cancelled:
            "the task was cancelled, the event of a send was not accepted: send it again; after a close: close again"
        case .closed:
            "the sender is closed, open another one"
        }
    }
}

extension ClientError.RefusalCause {
    fileprivate var description: String {
        switch self {
        case .newerEpoch(let known):
            "it knows epoch \(known), give every sender an id and a spool of its own"
        case .clock:
            "the epoch is over ten minutes ahead of this clock, set the clock; if it was wrong when the spool was"
                + " begun, remove the spool"
        case .reused:
            "it was away for longer than is remembered, or its id is used twice or its spool copied, remove"
                + " the spool or take another id; or this clock is over ten minutes ahead of the receiver's,"
                + " which 'ingest-send check' shows"
        }
    }
}

extension ClientError.LossCause {
    fileprivate var description: String {
        switch self {
        case .olderCopy: "the receiver is in an earlier state than the one that acked"
        case .otherDirectory: "the receiver has another directory than the one that acked"
        case .lessThanAcked:
            "the receiver has less than was acked, an earlier state of its directory or another one"
        }
    }
}

extension ClientError.BlockCause {
    fileprivate var description: String {
        switch self {
        case .busy:
            "it is busy or its disk is slow, see its log for the cause, and give it more room or less to do"
        case .diskFull: "its disk is full, free space there"
        case .noCredit: "it has no room for more packets, see whether other senders fill it"
        }
    }
}

extension ClientError.SpoolFailure {
    fileprivate func description(_ path: String) -> String {
        switch self {
        case .inUse(let pid):
            "another sender\(pid.map { " (pid \($0))" } ?? "") uses this spool, \(path), wait for its end"
                + " or use another directory"
        case .damaged(let offset, let detail):
            "corrupt: \(detail), \(path) at byte \(offset), restore this spool as it was, or find by"
                + " ingest-reader reconcile what is not counted, and send that from its source"
        case .diskFull:
            "the spool's disk is full, \(path), free space or inodes on this file system; no accepted event is"
                + " lost"
        case .durabilityLost(let call, let errno):
            "durability lost: \(call): \(systemMessage(errno)), \(path), check the disk, then send again"
        case .missing:
            "no such directory, \(path), check that it is a directory and that its parent exists"
        case .io(let call, let errno):
            "\(call) failed: \(systemMessage(errno)), \(path), check the disk and the permissions"
        }
    }
}

extension ClientError.KeysFailure {
    /// In the words of `KeysError`, where it has them.
    fileprivate func description(_ path: String) -> String {
        switch self {
        case .unreadable(let errno): "\(KeysError.unreadable(path: path, errno: errno))"
        case .notAFile: "\(KeysError.notAFile(path: path))"
        case .mode(let mode): "\(KeysError.mode(path: path, mode: mode))"
        case .tooLarge(let max): "\(KeysError.tooLarge(path: path, byteCountMax: max))"
        case .noKeys: "\(KeysError.noKeys(path: path))"
        case .line(let number, let fault): KeysError.lineText(path: path, number: number, fault)
        case .noSuchKey(let id): "\(KeysError.unknownKey(path: path, id: id))"
        case .otherSender(let id, let sender):
            "\(KeysError.otherSender(path: path, id: id, sender: SenderID(rawValue: sender)))"
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
