/// SplitMix64: the same numbers from the same seed on every machine.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mix(state)
    }

    /// A bijection of 64-bit numbers: distinct numbers in, distinct numbers out.
    static func mix(_ number: UInt64) -> UInt64 {
        var z = number
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// 0 ..< 1, 53 bits.
    mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}

/// Which of `count` things comes next: each as likely as the other, by Zipf's law, or each in its turn.
struct Popularity {
    enum Shape: String, CaseIterable { case uniform, zipf, turns }

    private let count: Int
    /// Whose turn it is; `nil` where it is drawn.
    private var turn: Int?
    /// Cumulated weights; empty if uniform.
    private var cumulated: [Double] = []

    init(_ shape: Shape, count: Int) {
        precondition(count > 0)
        self.count = count
        if shape == .turns { turn = 0 }
        guard shape == .zipf else { return }
        var sum = 0.0
        cumulated = (1...count).map { rank in
            sum += 1 / Double(rank)
            return sum
        }
    }

    /// 0 ..< count; with Zipf, 0 is the most frequent.
    mutating func draw(_ random: inout SeededRandom) -> Int {
        if let turn {
            self.turn = (turn + 1) % count
            return turn
        }
        guard let total = cumulated.last else { return Int(random.next() % UInt64(count)) }
        let goal = random.unit() * total
        var low = 0
        var high = count - 1
        while low < high {
            let middle = (low + high) / 2
            if cumulated[middle] <= goal { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
