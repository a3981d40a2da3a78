/// Draws the events of a load that come a second time, each by its own number: a share of all that can, which are those
/// behind the first round of the pool. What they repeat is of the first round, in which nothing repeats.
struct RepeatDraw {
    private let round: UInt64
    /// Of 2^64 draws.
    private let drawnMax: UInt64

    /// - Parameters:
    ///   - share: 0 ... 0.5.
    ///   - round: events in the pool, 1 or more.
    init(share: Double, round: UInt64) {
        self.round = round
        drawnMax = UInt64(share * 0x1p64)
    }

    /// The number of the event that this one repeats, or its own.
    func original(of event: UInt64) -> UInt64 {
        guard drawnMax > 0, event >= round, SeededRandom.mix(event ^ 0x5EED_0F_4E9EA7) < drawnMax
        else {
            return event
        }
        return event % round
    }
}
