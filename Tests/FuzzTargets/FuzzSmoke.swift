import TestSupport

/// A few seconds of fuzzing without a fuzzer: each seed, then mutations of it. The same inputs on every
/// run, so that a failure can be repeated.
package enum FuzzSmoke {
    package static func run(_ target: FuzzTarget, mutationCount: Int) {
        let seeds = target.seeds()
        for seed in seeds { target.run(seed) }
        target.run([])
        var random = SeededRandom(seed: 1)
        for _ in 0..<mutationCount {
            var input = seeds[random.below(seeds.count)]
            for _ in 0..<1 + random.below(4) { mutate(&input, &random) }
            target.run(input)
        }
    }

    private static let interesting: [UInt8] = [
        0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5C, 0x7B, 0x7D, 0x0A,
    ]

    private static func mutate(_ input: inout [UInt8], _ random: inout SeededRandom) {
        let at = random.below(input.count + 1)
        guard at < input.count else {
            input.append(UInt8(random.below(256)))
            return
        }
        switch random.below(7) {
        case 0: input[at] ^= 1 << UInt8(random.below(8))
        case 1: input[at] = UInt8(random.below(256))
        case 2: input[at] = interesting[random.below(interesting.count)]
        case 3: input.remove(at: at)
        case 4: input.insert(interesting[random.below(interesting.count)], at: at)
        case 5: input.removeSubrange(at..<min(input.count, at + 1 + random.below(16)))
        default:
            let end = min(input.count, at + 1 + random.below(32))
            input.insert(contentsOf: input[at..<end], at: random.below(input.count))
        }
    }
}
