// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// The keys of a cut in parts, which several cores go through side by side.
///
/// **Cost** A thread a core while it works, where there is more than one part.
struct KeyParts: Sendable {
    /// For each core, so that one that has more to do elsewhere does not hold up the others.
    private static let partCountOfWorker = 4

    let keyCount: Int
    /// Without gaps from 0 on; one at least.
    let parts: [Range<Int>]
    private let workerCount: Int

    /// - Parameter partKeyCountMin: of a part, at least 1; less than two of them are gone through on the
    ///   caller's thread.
    init(
        keyCount: Int, partKeyCountMin: Int, workerCount: Int = Verifier.processorCount
    ) {
        self.keyCount = keyCount
        self.workerCount = workerCount
        let count = max(
            1, min(keyCount / partKeyCountMin, workerCount * Self.partCountOfWorker))
        parts = (0..<count).map { keyCount * $0 / count..<keyCount * ($0 + 1) / count }
    }

    /// Keys as a source is asked for them, the last one with all beyond: rows of keys that there cannot be are
    /// among its own.
    func asked(_ keys: Range<Int>) -> ClosedRange<UInt32> {
        let last = keys.upperBound < keyCount ? UInt32(keys.upperBound - 1) : .max
        return UInt32(keys.lowerBound)...last
    }

    /// What `body` makes of each part, in their order. It is called on several threads at once.
    /// **Errors** the first part's that has one.
    func map<Output: Sendable>(
        _ body: @escaping @Sendable (Int) throws(ReaderError) -> Output
    ) throws(ReaderError) -> [Output] {
        if parts.count == 1 { return [try body(0)] }
        var outputs: [Output] = []
        let work = OrderedWork<Void, Result<Output, ReaderError>>(
            count: parts.count, workerCount: workerCount)
        try work.run { number in
            do throws(ReaderError) { return .success(try body(number)) } catch {
                return .failure(error)
            }
        } take: { (output) throws(ReaderError) in
            outputs.append(try output.get())
            return true
        }
        return outputs
    }
}
