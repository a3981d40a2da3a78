// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// The greatest elements of many, at most `capacity` of them.
///
/// **Cost** One comparison for an element that is not among them, log2(capacity) for one that is.
struct BoundedHeap<Element: Comparable> {
    private let capacity: Int
    /// As a heap: the least first.
    private(set) var elements: [Element] = []

    init(capacity: Int) { self.capacity = capacity }

    var count: Int { elements.count }
    var least: Element? { elements.first }

    mutating func insert(_ element: Element) {
        if elements.count < capacity {
            elements.append(element)
            raise(elements.count - 1)
        } else if let least, least < element {
            elements[0] = element
            sink()
        }
    }

    private mutating func raise(_ start: Int) {
        var place = start
        while place > 0, elements[place] < elements[(place - 1) / 2] {
            elements.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink() {
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < elements.count {
                if elements[child] < elements[least] { least = child }
            }
            if least == place { return }
            elements.swapAt(place, least)
            place = least
        }
    }
}

extension BoundedHeap: Sendable where Element: Sendable {}
