// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// What lies in a set of `KeySets`: plain memory, of which all zeros mean that nothing is there.
protocol KeySetElement: BitwiseCopyable {
    /// Of nothing, which lies where a set has room.
    init()
    /// What it is found by; 0 = nothing.
    var key: UInt32 { get }
}

/// A set of `KeySets`; of all zeros: an empty one.
struct KeySet: BitwiseCopyable {
    fileprivate(set) var count: UInt32 = 0
    fileprivate var firstLine: UInt32 = 0
}

/// Many sets of keys in memory that they share: most have some keys, each may have millions. Owned by one stage.
///
/// **Layout** A set has 2^n cache lines side by side. A key lies in the line that its hash says, in the first place that was
/// free, or where the line was full in the next one, round the end. Three quarters full, a set moves to twice as many
/// lines. Lines that were given back serve sets of as many lines.
///
/// **Cost** A find or an insert: one miss, which `prefetch` hides. 4/3 to 8/3 of the element a key, a line at least.
@safe struct KeySets<Element: KeySetElement>: ~Copyable {
    private var memory = LineMemory<Element>(capacity: 1 << 12)
    private var usedLineCount = 0
    private let lineCountMax: Int
    /// First lines of memory that sets of 2^n lines have given back, by n.
    private var freeLines = [[UInt32]](repeating: [], count: UInt32.bitWidth)

    private static var lineElementCount: Int { 64 / MemoryLayout<Element>.stride }
    /// Keys that a line has at most on average.
    private static var fillOfLine: UInt32 { UInt32(lineElementCount) * 3 / 4 }

    /// - Parameter lineCountMax: lines of all sets, below 2^32.
    init(lineCountMax: Int) { self.lineCountMax = lineCountMax }

    /// Of the number of lines of a set with so many keys.
    @inline(__always)
    private static func power(_ count: UInt32) -> Int {
        let lineCount = (count &+ fillOfLine &- 1) / fillOfLine
        return lineCount <= 1 ? 0 : UInt32.bitWidth &- (lineCount &- 1).leadingZeroBitCount
    }

    @inline(__always)
    private static func home(_ key: UInt32, _ power: Int) -> Int {
        Int(truncatingIfNeeded: (UInt64(key &* 0x9E37_79B1) &<< UInt64(power)) &>> 32)
    }

    @inline(__always)
    private func place(_ firstLine: UInt32, _ line: Int) -> UnsafeMutablePointer<Element> {
        // SAFETY, of all uses: the lines of a set are ours, and a line's elements are in it.
        unsafe memory.base + (Int(firstLine) &+ line) &* Self.lineElementCount
    }

    /// Starts the load of the line that `find` will look at first.
    /// - Parameter key: asked for only where the set has several lines; `nil` if it is not known.
    @inline(__always)
    func prefetch(_ set: KeySet, _ key: @autoclosure () -> UInt32?) {
        guard set.count > 0 else { return }
        let power = Self.power(set.count)
        let line = power == 0 ? 0 : key().map { Self.home($0, power) } ?? 0
        unsafe ingest_prefetch(place(set.firstLine, line))
    }

    /// The element of a key, > 0. Valid until the next insert.
    @inline(__always)
    func find(_ key: UInt32, in set: KeySet) -> UnsafeMutablePointer<Element>? {
        if set.count == 0 { return nil }
        let power = Self.power(set.count)
        let found = unsafe walk(to: key, set.firstLine, power)
        return unsafe found.pointee.key == key ? found : nil
    }

    /// Where a key lies, or may be put: of each set a quarter is free.
    @inline(__always)
    private func walk(
        to key: UInt32, _ firstLine: UInt32, _ power: Int
    ) -> UnsafeMutablePointer<Element> {
        var line = Self.home(key, power)
        while true {
            let place = unsafe place(firstLine, line)
            for i in 0..<Self.lineElementCount {
                let found = unsafe place[i].key
                if found == key || found == 0 { return unsafe place + i }
            }
            line = (line &+ 1) & ((1 &<< power) &- 1)
        }
    }

    /// Adds an element whose key is not in the set.
    /// - Returns: whether there was room.
    mutating func insert(_ element: Element, into set: inout KeySet) -> Bool {
        let power = Self.power(set.count &+ 1)
        if set.count == 0 || power > Self.power(set.count) {
            guard let larger = allocate(power) else { return false }
            moveElements(of: set, to: larger, power)
            removeAll(of: set)
            set.firstLine = larger
        }
        unsafe walk(to: element.key, set.firstLine, power).pointee = element
        set.count &+= 1
        return true
    }

    private func moveElements(of set: KeySet, to larger: UInt32, _ power: Int) {
        guard set.count > 0 else { return }
        let old = unsafe place(set.firstLine, 0)
        for i in 0..<Self.lineElementCount << Self.power(set.count) {
            let element = unsafe old[i]
            if element.key != 0 {
                unsafe walk(to: element.key, larger, power).pointee = element
            }
        }
    }

    /// Gives back the memory of a set, which is empty from then on; without a look at it.
    mutating func removeAll(of set: KeySet) {
        if set.count > 0 { freeLines[Self.power(set.count)].append(set.firstLine) }
    }

    /// The first of 2^`power` lines, all of nothing.
    private mutating func allocate(_ power: Int) -> UInt32? {
        let firstLine: UInt32
        if let free = freeLines[power].popLast() {
            firstLine = free
            // What is needed next: it was not looked at for long.
            if let next = freeLines[power].last { unsafe ingest_prefetch(place(next, 0)) }
        } else {
            let end = usedLineCount + 1 << power
            guard end <= lineCountMax else { return nil }
            memory.reserve(
                end * Self.lineElementCount, keeping: usedLineCount * Self.lineElementCount)
            firstLine = UInt32(usedLineCount)
            usedLineCount = end
        }
        unsafe place(firstLine, 0).update(
            repeating: Element(), count: Self.lineElementCount << power)
        return firstLine
    }
}
