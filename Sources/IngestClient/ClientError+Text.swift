// sender → [socket] → packet → decode → …

import Glibc

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
            "\(name) is \(got), give \(allowed)"
        case .refused(let sender, let epoch, let cause):
            "the receiver refuses sender \(sender) with epoch \(epoch): \(cause.description);"
                + " what is not acked is not counted"
        case .unknownPackets(let sender, let sequence, let next):
            "the receiver has packet \(sequence) of sender \(sender), of which only those below \(next)"
                + " were sent from here, never copy a spool: remove it and send again what is missing"
        case .ackedDataLost(let sender, let floor, let base):
            "the receiver has lost packets \(floor) to \(base - 1) of sender \(sender), which it had acked,"
                + " check its disk and send these events again"
        case .noAnswer(let address, let seconds):
            "no answer from \(address) for \(seconds) s, check that ingestd runs there, its keys and the"
                + " network"
        case .noProgress(let address, let sequence, let byteCount):
            "\(address) answers, but does not take packet \(sequence) of \(byteCount) bytes, check the keys,"
                + " and whether packets of that size pass the network"
        case .deadline(let unackedPackets):
            "\(unackedPackets) packets are not acked in the time given, send them again"
        case .otherSender(let path, let asked, let found):
            "the spool holds packets of sender \(found), not \(asked), \(path), send as that one first"
        case .spool(let path, let failure): failure.description(path)
        case .keys(let message): message
        case .cancelled:
            "the task was cancelled, the event was not taken: send it again"
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
            "the epoch is over a day ahead of this clock, set the clock; if it was wrong when the spool was"
                + " begun, remove the spool"
        case .reused:
            "it was away for longer than is remembered, or its id is used twice or its spool copied, remove"
                + " the spool or take another id"
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
            "corrupt: \(detail), \(path) at byte \(offset), restore the file from a copy"
        case .diskFull:
            "the spool's disk is full, \(path), free space on this file system; nothing that was taken is"
                + " lost"
        case .durabilityLost(let call, let errno):
            "durability lost: \(call): \(systemMessage(errno)), \(path), check the disk, then send again"
        case .tooLarge(let byteCountMax):
            "a spool of over \(byteCountMax) bytes, \(path), use another directory"
        case .missing:
            "no such directory, \(path), check that it is no file and that its parent is there"
        case .io(let call, let errno):
            "\(call) failed: \(systemMessage(errno)), \(path), check the disk and the permissions"
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
