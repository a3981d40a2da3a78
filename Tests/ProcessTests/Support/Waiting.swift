import Foundation

/// Waits for a condition. The deadline is generous: only a broken program reaches it.
func eventually(
    withinSeconds seconds: Double = 60, _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = Date(timeIntervalSinceNow: seconds)
    while true {
        if try condition() { return true }
        if Date() > deadline { return false }
        Thread.sleep(forTimeInterval: 0.01)
    }
}

/// A small generator with a seed, so that a failure can be had again.
struct SplitMix64: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
