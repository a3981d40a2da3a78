// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The bytewise order of `{businessId}#{date}`, as stretches: days of one business that nothing comes
/// between.
///
/// It is not the order of (business, date): `a!` comes before `a`, and where `a` and `a#2026-05` are both
/// businesses, all of the second come between two days of the first. A business is *inside* another one if
/// its name is that one's, `#`, and more; all its ids fall between the same two days of the outer one.
///
/// **Cost** The names; 24 bytes a business, and as many for each that is inside another.
struct DayOrder {
    struct Stretch {
        /// Index into `businesses`.
        let business: Int
        let ordinal: UInt32
        let days: Range<Int32>
    }

    private let businesses: [(ordinal: UInt32, text: [UInt8])]
    /// In the order of the ids.
    private(set) var stretches: [Stretch] = []

    private static let first = Limits.businessDays.lowerBound
    private static let end = Limits.businessDays.upperBound + 1
    private static let mark = UInt8(ascii: "#")

    /// - Parameter texts: the businesses, each once.
    init(_ texts: [(ordinal: UInt32, text: [UInt8])]) {
        var sorted = texts
        let ranks = NameOrder.ranks(of: texts.map { $0.text + [Self.mark] })
        for (index, rank) in ranks.enumerated() { sorted[Int(rank)] = texts[index] }
        businesses = sorted
        // The businesses that the present one is inside of, and the day that each has come to.
        var outer: [(business: Int, next: Int32)] = []
        for index in sorted.indices {
            while let last = outer.last, !isInside(index, last.business) {
                close(last)
                outer.removeLast()
            }
            if let last = outer.last {
                let next = max(last.next, firstDay(of: last.business, after: index))
                append(last.business, last.next..<next)
                outer[outer.count - 1].next = next
            }
            outer.append((index, Self.first))
        }
        for last in outer.reversed() { close(last) }
    }

    func text(ofStretch number: Int) -> [UInt8] { businesses[stretches[number].business].text }

    private mutating func close(_ last: (business: Int, next: Int32)) {
        append(last.business, last.next..<max(last.next, Self.end))
    }

    private mutating func append(_ business: Int, _ days: Range<Int32>) {
        if days.isEmpty { return }
        stretches.append(
            Stretch(business: business, ordinal: businesses[business].ordinal, days: days))
    }

    private func isInside(_ inner: Int, _ outer: Int) -> Bool {
        let prefix = businesses[outer].text
        let text = businesses[inner].text
        return text.count > prefix.count && text[prefix.count] == Self.mark
            && text.starts(with: prefix)
    }

    /// The first day of `outer` whose id comes after all those of `inner`, which is inside of it.
    private func firstDay(of outer: Int, after inner: Int) -> Int32 {
        let rest = Array(businesses[inner].text.dropFirst(businesses[outer].text.count + 1))
        var low = Self.first
        var high = Self.end
        while low < high {
            let middle = low + (high - low) / 2
            let date = Array(CivilDay(dayNumber: middle).description.utf8)
            // Dates have no `#`, so that this decides for every day of the inner one.
            if NameOrder.precedes(date, rest + [Self.mark]) == true {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }
}
