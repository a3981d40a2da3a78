// The registry of everything that reads bytes which somebody else wrote. A decoder is in it with a
// function that runs it on any bytes and traps when an answer cannot be right; `swift test` runs all of
// them for a moment, `scripts/fuzz` for as long as it is told, with libFuzzer and AddressSanitizer.

/// One decoder, as a fuzzer sees it.
package struct FuzzTarget: Sendable {
    package let name: String
    /// Well-formed inputs, from which mutation starts.
    package let seeds: @Sendable () -> [[UInt8]]
    /// Runs the decoder and checks its answer. The buffer is of just the input's size, so that a
    /// sanitizer sees a read past it.
    package let run: @Sendable (UnsafeRawBufferPointer) -> Void

    package init(
        name: String, seeds: @escaping @Sendable () -> [[UInt8]],
        run: @escaping @Sendable (UnsafeRawBufferPointer) -> Void
    ) {
        self.name = name
        self.seeds = seeds
        self.run = run
    }

    /// Runs the target on a copy of `input` in memory of its own.
    package func run(_ input: [UInt8]) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: input.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyBytes(from: input)
        run(UnsafeRawBufferPointer(copy))
    }
}

package enum FuzzRegistry {
    /// Every decoder. Add a new one here, and its file beside this.
    package static let targets: [FuzzTarget] = [
        .packetHeader, .ack, .events, .jsonEvents, .segmentRecovery, .segmentFooter, .run,
        .namesRun,
        .expiredRun, .manifest, .durableMark, .fileName,
    ]

    /// A target with a planted failure: where it passes, the fuzzing itself is broken.
    package static let canary = FuzzTarget(
        name: "canary", seeds: { [[0, 1, 2, 3]] },
        run: { bytes in
            fuzzExpect(bytes.count < 4 || bytes[1] & 0x81 != 0x80, "the planted failure")
        })

    package static func target(named name: String) -> FuzzTarget? {
        (targets + [canary]).first { $0.name == name }
    }
}

/// Stops the process where an answer cannot be right, in release builds too.
package func fuzzExpect(
    _ condition: Bool, _ message: @autoclosure () -> String, file: StaticString = #file,
    line: UInt = #line
) {
    if !condition { fatalError("fuzz: \(message())", file: file, line: line) }
}
