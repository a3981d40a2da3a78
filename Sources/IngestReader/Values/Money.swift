// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// A sum of money, exact: whole micros of one currency unit. One deployment has one currency.
public struct Money: Hashable, Sendable, Comparable {
    /// Millionths of a currency unit.
    public let micros: UInt128

    public init(micros: UInt128) { self.micros = micros }

    public static func < (a: Self, b: Self) -> Bool { a.micros < b.micros }
}

extension Money: CustomStringConvertible {
    /// Decimal text in currency units with at least 2 and at most 6 decimals, never rounded: `12.50`.
    public var description: String {
        if micros == 0 { return "0.00" }
        var rest = micros % 1_000_000
        var width = 6
        while width > 2, rest % 10 == 0 {
            rest /= 10
            width -= 1
        }
        let decimals = String(rest)
        let zeros = String(repeating: "0", count: width - decimals.utf8.count)
        return "\(micros / 1_000_000).\(zeros)\(decimals)"
    }
}

/// A quotient of two counters, kept as the two integers so that comparing is exact: 1/2 and 2/4 are equal.
public struct Rate: Hashable, Sendable, Comparable {
    public let part: UInt64
    /// Never 0: of nothing there is no rate.
    public let whole: UInt64

    /// `nil` where `whole` is 0.
    public init?(_ part: UInt64, of whole: UInt64) {
        guard whole > 0 else { return nil }
        self.part = part
        self.whole = whole
    }

    /// part / whole in ten-thousandths, half rounded up. **Units** may exceed 10,000.
    public var tenThousandths: UInt128 {
        // Nearly always: a division of 128 bits costs as much as the rest of a row's text.
        if part < 1 << 48, whole < 1 << 62 {
            return UInt128((part * 20_000 + whole) / (whole * 2))
        }
        return (UInt128(part) * 20_000 + UInt128(whole)) / (UInt128(whole) * 2)
    }

    /// By the exact quotient, not by the rounded one.
    public static func < (a: Self, b: Self) -> Bool {
        UInt128(a.part) * UInt128(b.whole) < UInt128(b.part) * UInt128(a.whole)
    }

    public static func == (a: Self, b: Self) -> Bool {
        UInt128(a.part) * UInt128(b.whole) == UInt128(b.part) * UInt128(a.whole)
    }

    /// **Cost** That of finding the greatest common divisor.
    public func hash(into hasher: inout Hasher) {
        var (divisor, rest) = (whole, part)
        while rest > 0 { (divisor, rest) = (rest, divisor % rest) }
        hasher.combine(part / divisor)
        hasher.combine(whole / divisor)
    }
}

extension Rate: CustomStringConvertible {
    /// Four decimals: `0.0125`.
    public var description: String {
        if part == 0 { return "0.0000" }
        let value = tenThousandths
        let decimals = String(value % 10_000)
        return "\(value / 10_000)." + String(repeating: "0", count: 4 - decimals.utf8.count)
            + decimals
    }
}
