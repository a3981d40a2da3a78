// packet → decode → ring → [admit → block → segment] → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// One ack on its way to a sender.
struct Answer: Sendable {
    let ack: AckPacket
    let peer: ingest_peer
    /// The words of the bitmap behind the first, in the list's memory.
    fileprivate(set) var words: Range<Int> = 0..<0
    let furtherWordCountMax: Int

    /// `nil` if the packet that is answered was smaller than any answer.
    init?(_ ack: AckPacket, to source: PacketSource) {
        let count = AckPacket.furtherWordCount(
            fitting: source.byteCount, hasTag: source.isTagged)
        guard let count else { return nil }
        var ack = ack
        ack.keyID = source.keyID
        ack.hasTag = source.isTagged
        self.ack = ack
        peer = source.peer
        furtherWordCountMax = count
    }
}

/// The acks that are true once a block is durable. It travels with the block's slot, from the commit stage,
/// which knows what has arrived, to the sync stage, which knows when that is durable.
///
/// **Cost** Kept from block to block; 80 bytes an answer and 8 a word, of which there are `wordCountMax` and one an answer at most.
package struct AnswerList: Sendable {
    private(set) var answers: [Answer] = []
    private var words: [UInt64] = []
    private static let wordCountMax = 1 << 17

    package var isEmpty: Bool { answers.isEmpty }

    mutating func append(_ answer: Answer) {
        var answer = answer
        answer.words = words.count..<words.count + 1
        words.append(0)
        answers.append(answer)
    }

    /// - Parameter window: `ack.floor` is its floor.
    mutating func append(_ ack: AckPacket, _ window: SequenceWindow, to source: PacketSource) {
        guard var answer = Answer(ack, to: source) else { return }
        let start = words.count
        var sequence = window.floor
        repeat {
            words.append(window.word(from: sequence))
            sequence += 64
        } while sequence < window.end && words.count - start <= answer.furtherWordCountMax
            && words.count < Self.wordCountMax
        answer.words = start..<words.count
        answers.append(answer)
    }

    mutating func removeAll() {
        answers.removeAll(keepingCapacity: true)
        words.removeAll(keepingCapacity: true)
    }

    /// Writes the packet of an answer, without its tag.
    /// - Returns: its bytes.
    @unsafe func encode(_ answer: Answer, into packet: UnsafeMutableRawBufferPointer) -> Int {
        // SAFETY: the caller's memory holds any ack.
        unsafe answer.ack.encode(into: packet, furtherWordCount: answer.words.count - 1) {
            words[answer.words.lowerBound + $0]
        }
    }
}
