import TestSupport

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// What a start finds in a spool, with the packets read from where the index has them.
struct OpenedSpool {
    let spool: Spool<SimulatedFileSystem>
    let left: SpoolContent
    let packets: [SpooledPacket]

    init(_ opened: Spool<SimulatedFileSystem>.Opened, in files: SimulatedFileSystem) throws {
        (spool, left) = (opened.spool, opened.left)
        var found: [SpooledPacket] = []
        var records: [SpoolRecord] = []
        _ = try SpoolScan(files: files, isReadOnly: true).run { records.append($0) }
        for record in records where !opened.left.packets.isEmpty {
            let entry = opened.left.packets[record.sequence]
            var bytes: [UInt8] = []
            try spool.read(entry.place, byteCount: Int(entry.byteCount), into: &bytes)
            found.append(
                SpooledPacket(
                    bytes: bytes, eventCount: Int(entry.eventCount), note: record.packet.note))
        }
        packets = found
    }

    /// A spool in which an earlier start has left these packets.
    init(holding packets: [SpooledPacket], from first: UInt64 = 0) throws {
        let identity = SampleEvents.identity()
        let files = SimulatedFileSystem(seed: 1)
        do {
            let spool = try Spool.open(
                files, sender: identity.sender, random: identity.sender, epoch: identity.epoch,
                fileByteCountMax: 64
            ).spool
            for sequence in 0..<first {
                try spool.append([SpoolTests.packet(sequence, identity: identity)])
            }
            try spool.append(packets)
            try spool.retire(below: first)
        }
        let killed = files.disk.kill()
        let opened = try Spool.open(
            killed, sender: identity.sender, random: identity.sender, epoch: identity.epoch)
        try self.init(opened, in: killed)
    }

    var firstSequence: UInt64 { left.packets.start }
    var note: SpoolNote { left.note }
    var hasEnded: Bool { left.hasEnded }
    /// The sequences that are damaged.
    var damaged: [UInt64] { left.damage.flatMap { Array($0.sequences) } }
}
