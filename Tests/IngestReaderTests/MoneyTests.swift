import IngestReader
import Testing

@Suite struct MoneyTests {
    @Test(
        "Money has two to six decimals and is never rounded",
        arguments: [
            (0, "0.00"), (1, "0.000001"), (10, "0.00001"), (100_000, "0.10"), (1_000_000, "1.00"),
            (12_500_000, "12.50"), (12_345_678, "12.345678"), (12_345_600, "12.3456"),
            (999_999, "0.999999"), (UInt128(UInt64.max), "18446744073709.551615"),
            (UInt128(UInt64.max) + 1, "18446744073709.551616"),
            (.max, "340282366920938463463374607431768.211455"),
        ] as [(UInt128, String)])
    func money(micros: UInt128, text: String) {
        #expect(Money(micros: micros).description == text)
    }

    @Test(
        "The rate has four decimals, half rounded up, by whole numbers alone",
        arguments: [
            (0, 1, "0.0000"), (1, 1, "1.0000"), (1, 3, "0.3333"), (2, 3, "0.6667"),
            (1, 20_000, "0.0001"), (1, 20_001, "0.0000"), (80, 20_000, "0.0040"),
            (3, 2, "1.5000"), (UInt64.max, 1, "18446744073709551615.0000"),
            (UInt64.max, UInt64.max, "1.0000"), (12_345, 100_000, "0.1235"),
            (12_344, 100_000, "0.1234"),
        ])
    func rate(part: UInt64, whole: UInt64, text: String) {
        #expect(Rate(part, of: whole)?.description == text)
    }

    @Test("Of nothing there is no rate")
    func noRate() {
        #expect(Rate(5, of: 0) == nil)
    }

    @Test("Rates compare by the exact quotient")
    func exactComparison() throws {
        let a = try #require(Rate(.max - 1, of: .max))
        let b = try #require(Rate(.max, of: .max))
        #expect(a < b)
        #expect(!(b < a))
        #expect(a.description == b.description)
    }

    @Test("Of two rates one is less, or they are equal and hash alike")
    func oneOrder() throws {
        let sides: [UInt64] = [0, 1, 2, 3, 4, 6, .max / 3, .max - 1, .max]
        let rates = sides.flatMap { part in
            sides.compactMap { Rate(part, of: $0) }
        }
        for a in rates {
            for b in rates {
                #expect([a < b, a == b, b < a].count { $0 } == 1, "\(a) \(b)")
                if a == b { #expect(a.hashValue == b.hashValue) }
            }
        }
        #expect(
            Rate(1, of: 2)
                == Rate(2, of: 4))
    }
}
