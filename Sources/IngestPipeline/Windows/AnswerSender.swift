// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestKeys

/// Makes packets of answers and sends them. The sync queue owns one for the acks of durable blocks, the receive queue one
/// for what it sheds.
///
/// `@unchecked Sendable`: it moves to its queue as a whole; `~Copyable` keeps its memory in one place.
///
/// **Cost** 530 KiB, touched as far as acks need it; about 1 µs an ack, most of it the system call.
@safe struct AnswerSender: ~Copyable, @unchecked Sendable {
    private let socket: any AnswerSocket
    private let keyRing: KeyRing?
    private var keys: KeyRing.Keys?
    private let bytes: UnsafeMutableRawBufferPointer
    private let outgoing: UnsafeMutableBufferPointer<ingest_answer>

    private static let batchCount = Int(INGEST_SEND_COUNT_MAX)
    private static let byteCountMax = AckPacket.byteCount(
        furtherWordCount: AckPacket.furtherWordCountMax, hasTag: true)

    init(socket: any AnswerSocket, keyRing: KeyRing? = nil) {
        self.socket = socket
        self.keyRing = keyRing
        keys = keyRing?.current
        unsafe bytes = .allocate(byteCount: Self.batchCount * Self.byteCountMax, alignment: 64)
        unsafe outgoing = .allocate(capacity: Self.batchCount)
        unsafe outgoing.initialize(repeating: ingest_answer())
    }

    deinit {
        unsafe bytes.deallocate()
        unsafe outgoing.deallocate()
    }

    /// - Returns: how many the socket took.
    @discardableResult
    mutating func send(_ list: AnswerList) -> Int {
        if list.isEmpty { return 0 }
        if let keyRing, var current = keys.take() {
            keyRing.refresh(&current)
            keys = current
        }
        let answers = list.answers
        var sentCount = 0
        var start = 0
        while start < answers.count {
            let count = min(Self.batchCount, answers.count - start)
            for place in 0..<count { put(answers[start + place], of: list, at: place) }
            // SAFETY: `count` of them were set above; their bytes are this sender's own.
            sentCount += unsafe socket.send(UnsafeBufferPointer(rebasing: outgoing[..<count]))
            start += count
        }
        return sentCount
    }

    private mutating func put(_ answer: Answer, of list: AnswerList, at place: Int) {
        let start = place * Self.byteCountMax
        // SAFETY: each place has room for the largest ack; place < batchCount.
        unsafe outgoing[place].bytes = UnsafePointer(
            (bytes.baseAddress! + start).assumingMemoryBound(to: UInt8.self))
        var byteCount = unsafe list.encode(
            answer,
            into: UnsafeMutableRawBufferPointer(
                rebasing: bytes[start..<start + Self.byteCountMax]))
        // Where the key is gone by now the sender will not believe the answer, as it should be.
        if answer.ack.hasTag, let key = keys?[answer.ack.keyID] {
            byteCount += PacketTag.byteCount
            unsafe key.tag.seal(
                UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + byteCount]))
        }
        unsafe outgoing[place].byte_count = UInt32(byteCount)
        unsafe outgoing[place].to = answer.peer
    }
}
