// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat

/// What the next block or segment of the log must begin with; `nil` where what came before cannot be believed, or
/// is not known.
struct Chain: Sendable, Equatable {
    var previousChecksum: UInt32?
    var nextName: UInt32?
    var nextKey: UInt32?
    /// Of the last block.
    var commitEpoch: UInt64?
    /// What a manifest says of the epoch where its cut is here: that of the last block; behind a segment
    /// without blocks, that of its header.
    var endEpoch: UInt64?
    /// Whether blocks were lost behind the last one: the next segment's header then holds the checksum
    /// of a block that is no more.
    var endsInLoss = false

    static let unknown = Chain()
    /// Before the first segment.
    static let start = Chain(previousChecksum: 0, nextName: 1, nextKey: 0, endEpoch: 0)

    /// Behind a block.
    init(after header: BlockHeader) {
        self.init(
            previousChecksum: header.headerChecksum, nextName: header.nextName.rawValue,
            nextKey: header.nextKey.rawValue, commitEpoch: header.context.commitEpoch,
            endEpoch: header.context.commitEpoch)
    }

    init(
        previousChecksum: UInt32? = nil, nextName: UInt32? = nil, nextKey: UInt32? = nil,
        commitEpoch: UInt64? = nil, endEpoch: UInt64? = nil, endsInLoss: Bool = false
    ) {
        self.previousChecksum = previousChecksum
        self.nextName = nextName
        self.nextKey = nextKey
        self.commitEpoch = commitEpoch
        self.endEpoch = endEpoch
        self.endsInLoss = endsInLoss
    }

    /// Reports in what a block or a segment's header does not go on from here.
    func check(_ opening: Opening, in file: String, _ report: inout VerifyReport) {
        let offset = opening.offset
        report.expect(
            opening.previousChecksum, endsInLoss ? nil : previousChecksum,
            "checksum of the block before", in: file, at: offset)
        report.expect(opening.firstName, nextName, "first name", in: file, at: offset)
        report.expect(opening.firstKey, nextKey, "first key", in: file, at: offset)
    }

    /// Reports a block whose commit epoch does not come after the last one's.
    func checkEpoch(_ opening: Opening, in file: String, _ report: inout VerifyReport) {
        guard let epoch = opening.commitEpoch, let last = commitEpoch, epoch <= last else { return }
        report.add(
            Finding(
                .corruption, file: file, offset: opening.offset, what: "commit epoch",
                got: "\(epoch)", expected: "more than \(last)"))
    }

    /// What a block or a segment's header says of the log before it.
    struct Opening: Sendable {
        let previousChecksum: UInt32
        let firstName: UInt32
        let firstKey: UInt32
        /// Of a block.
        var commitEpoch: UInt64?
        /// In the file.
        let offset: UInt64

        init(_ header: SegmentHeader) {
            previousChecksum = header.previousChecksum
            firstName = header.firstName.rawValue
            firstKey = header.firstKey.rawValue
            offset = 0
        }

        init(_ header: BlockHeader, at offset: UInt64) {
            previousChecksum = header.context.previousChecksum
            firstName = header.context.firstName.rawValue
            firstKey = header.context.firstKey.rawValue
            commitEpoch = header.context.commitEpoch
            self.offset = offset
        }
    }
}

extension VerifyReport {
    mutating func expect<Value: Equatable>(
        _ got: Value, _ expected: Value?, _ what: String, in file: String, at offset: UInt64?
    ) {
        guard let expected, got != expected else { return }
        add(
            Finding(
                .corruption, file: file, offset: offset, what: what, got: "\(got)",
                expected: "\(expected)"))
    }
}
