/// SplitMix64: every run from the same seed is the same, on every machine. For tests only, never for secrets.
///
/// **Source** Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }

    /// 0 ..< `bound`, 0 for a bound of 0.
    package mutating func below(_ bound: UInt64) -> UInt64 {
        bound == 0 ? 0 : next().multipliedFullWidth(by: bound).high
    }

    /// 0 ..< `bound`, 0 for a bound of 0.
    package mutating func below(_ bound: Int) -> Int { Int(below(UInt64(bound))) }

    /// `true` once in `n` on average.
    package mutating func oneIn(_ n: Int) -> Bool { below(n) == 0 }

    package mutating func bytes(count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }
}
