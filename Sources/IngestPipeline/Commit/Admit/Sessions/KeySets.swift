// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// What lies in a set of `KeySets`: plain memory, of which all zeros mean that a place is free.
protocol KeySetElement: BitwiseCopyable {
    /// A free place.
    init()
    /// What it is found by; 0 = none.
    var key: UInt32 { get }
    /// The place of the first element of a leaf that has this key; of key 0 it is the first that is free.
    static func place(of key: UInt32, in leaf: UnsafeMutablePointer<Self>) -> Int?
}

extension KeySetElement {
    /// Of a leaf.
    fileprivate static var leafCount: Int { 64 / MemoryLayout<Self>.stride }

    static func place(of key: UInt32, in leaf: UnsafeMutablePointer<Self>) -> Int? {
        // SAFETY: a leaf has as many elements.
        for place in 0..<leafCount where unsafe leaf[place].key == key { return place }
        return nil
    }
}

/// A key alone, of which a leaf is compared as a whole.
///
/// **Layout** 4 bytes; plain old data.
struct BareKey: KeySetElement {
    var key: UInt32 = 0

    @inline(__always)
    static func place(of key: UInt32, in leaf: UnsafeMutablePointer<BareKey>) -> Int? {
        // SAFETY: a leaf is a cache line of 16 such numbers.
        let bits = unsafe ingest_numbers_scan(
            UnsafeRawPointer(leaf).assumingMemoryBound(to: UInt32.self), key)
        return bits == 0 ? nil : bits.trailingZeroBitCount
    }
}

/// A set of `KeySets`; of all zeros: an empty one.
struct KeySet: BitwiseCopyable {
    fileprivate var root = KeySetNode.none

    var isEmpty: Bool {
        @inline(__always) get { root == .none }
    }
}

/// Which node of a trie is meant: the number of a leaf plus 1, or that of an inner one with bit 31 set.
struct KeySetNode: BitwiseCopyable, Equatable {
    var bits: UInt32

    static let none = KeySetNode(bits: 0)
    private static let innerBit: UInt32 = 1 << 31
    static func leaf(_ number: UInt32) -> KeySetNode { KeySetNode(bits: number &+ 1) }
    static func inner(_ number: UInt32) -> KeySetNode { KeySetNode(bits: number | innerBit) }

    var isInner: Bool {
        @inline(__always) get { bits & Self.innerBit != 0 }
    }
    var leafNumber: Int {
        @inline(__always) get { Int(bits) &- 1 }
    }
    var innerNumber: Int {
        @inline(__always) get { Int(bits & ~Self.innerBit) }
    }
}

/// Many sets of keys in memory that they share: most have some keys, some have thousands. Owned by one stage.
///
/// **Layout** A set is a hash trie of cache lines. A leaf has as many elements as fit a line, in the order in which they came.
/// When it is full, an inner node of 16 children takes its place, and each element goes to the child that the next 4 bits of
/// its key's hash say. Nodes that are given back serve any set, so that sets of all sizes share the memory well.
///
/// **Cost** A find or an insert in a small set: one miss, which a load ahead hides; one more for each level of a larger one. An
/// insert moves the elements of one leaf at most, but where their hashes agree. A leaf a set at least; where leaves were just
/// split about 45 bytes a key of 4.
@safe struct KeySets<Element: KeySetElement>: ~Copyable {
    private var leaves = NodeMemory<Element>(elementCount: leafCount)
    private var inners = NodeMemory<KeySetNode>(elementCount: childCount)
    private let leafCountMax: Int
    /// Who sends keys must not know which of them lie together.
    private let seed = UInt64.random(in: 0...UInt64.max)

    /// Nodes that sets have.
    var nodeCount: Int { leaves.count + inners.count }

    private static var leafCount: Int { Element.leafCount }
    private static var childCount: Int { 16 }
    private static var childBitCount: UInt64 { 4 }

    /// - Parameter leafCountMax: leaves of all sets, 1 … 2^30.
    init(leafCountMax: Int) {
        precondition(64 % MemoryLayout<Element>.stride == 0 && 1...1 << 30 ~= leafCountMax)
        self.leafCountMax = leafCountMax
    }

    @inline(__always)
    private func hash(_ key: UInt32) -> UInt64 { SplitMix.finish(UInt64(key) ^ seed) }

    @inline(__always)
    private static func child(_ hash: UInt64, _ level: UInt64) -> Int {
        Int(truncatingIfNeeded: hash &>> (level &* childBitCount)) & (childCount &- 1)
    }

    /// The line that `find` will look at first, to be loaded ahead; `nil` for an empty set.
    @inline(__always)
    func firstLine(of set: KeySet) -> CacheLine? {
        if set.isEmpty { return nil }
        // SAFETY: the number is that of a node of the set.
        return set.root.isInner
            ? unsafe CacheLine(inners.node(set.root.innerNumber))
            : unsafe CacheLine(leaves.node(set.root.leafNumber))
    }

    /// The element of a key, > 0. Valid until the next insert.
    @inline(__always)
    func find(_ key: UInt32, in set: KeySet) -> UnsafeMutablePointer<Element>? {
        if set.isEmpty { return nil }
        var node = set.root
        if node.isInner { node = leaf(of: key, below: node) }
        if node == .none { return nil }
        // SAFETY, of all uses: nodes lead to nodes of the same set, and a node has so many elements.
        let leaf = unsafe leaves.node(node.leafNumber)
        return unsafe Element.place(of: key, in: leaf).map { unsafe leaf + $0 }
    }

    // Inlined: a call were given a copy of the sets, 160 bytes.
    @inline(__always)
    private func leaf(of key: UInt32, below inner: KeySetNode) -> KeySetNode {
        var (node, level) = (inner, 0 as UInt64)
        let hash = hash(key)
        while node.isInner {
            node = unsafe inners.node(node.innerNumber)[Self.child(hash, level)]
            level &+= 1
        }
        return node
    }

    /// Adds an element whose key is not in the set.
    /// - Returns: whether there was room.
    mutating func insert(_ element: Element, into set: inout KeySet) -> Bool {
        let hash = hash(element.key)
        var level: UInt64 = 0
        // Of an inner node; `nil` is the root.
        var place: (inner: Int, child: Int)?
        while true {
            let node = place.map { unsafe inners.node($0.inner)[$0.child] } ?? set.root
            if node.isInner {
                place = (node.innerNumber, Self.child(hash, level))
                level &+= 1
            } else if node == .none {
                guard let new = makeLeaf() else { return false }
                unsafe leaves.node(new.leafNumber)[0] = element
                put(new, at: place, of: &set)
                return true
            } else if let free = freePlace(in: node) {
                unsafe leaves.node(node.leafNumber)[free] = element
                return true
            } else {
                guard let inner = split(node, level) else { return false }
                put(inner, at: place, of: &set)
            }
        }
    }

    private mutating func put(
        _ node: KeySetNode, at place: (inner: Int, child: Int)?, of set: inout KeySet
    ) {
        guard let place else { return set.root = node }
        unsafe inners.node(place.inner)[place.child] = node
    }

    private func freePlace(in leaf: KeySetNode) -> Int? {
        unsafe Element.place(of: 0, in: leaves.node(leaf.leafNumber))
    }

    private mutating func makeLeaf() -> KeySetNode? {
        guard leaves.count < leafCountMax else { return nil }
        return .leaf(leaves.take(filledWith: Element()))
    }

    /// Puts a full leaf's elements into leaves of an inner node of that level.
    /// - Returns: the inner node; `nil` if there is no room, and then nothing has changed.
    private mutating func split(_ leaf: KeySetNode, _ level: UInt64) -> KeySetNode? {
        guard leaves.count + Self.leafCount <= leafCountMax else { return nil }
        let inner = KeySetNode.inner(inners.take(filledWith: .none))
        for i in 0..<Self.leafCount {
            let element = unsafe leaves.node(leaf.leafNumber)[i]
            let child = Self.child(hash(element.key), level)
            var node = unsafe inners.node(inner.innerNumber)[child]
            if node == .none {
                node = .leaf(leaves.take(filledWith: Element()))
                unsafe inners.node(inner.innerNumber)[child] = node
            }
            // There is room, since the leaf held no more than fit one.
            let free = freePlace(in: node)!
            unsafe leaves.node(node.leafNumber)[free] = element
        }
        leaves.giveBack(UInt32(leaf.leafNumber))
        return inner
    }

    /// Empties a set. A small one is not looked at.
    mutating func removeAll(of set: inout KeySet) {
        giveBack(set.root)
        set = KeySet()
    }

    private mutating func giveBack(_ node: KeySetNode) {
        if node == .none { return }
        guard node.isInner else { return leaves.giveBack(UInt32(node.leafNumber)) }
        for child in 0..<Self.childCount {
            giveBack(unsafe inners.node(node.innerNumber)[child])
        }
        inners.giveBack(UInt32(node.innerNumber))
    }
}

/// Nodes of one kind, each of so many elements on a cache line of its own.
@safe struct NodeMemory<Element: BitwiseCopyable>: ~Copyable {
    private var memory = LineMemory<Element>(capacity: 1 << 12)
    private var free = LineMemory<UInt32>(capacity: 1 << 10)
    private var freeCount = 0
    private var usedCount = 0
    private let elementCount: Int

    init(elementCount: Int) { self.elementCount = elementCount }

    /// Nodes that were taken and not given back.
    var count: Int { usedCount - freeCount }
    /// One more than the greatest number that was ever taken.
    var endNumber: Int { usedCount }

    @inline(__always)
    func node(_ number: Int) -> UnsafeMutablePointer<Element> {
        // SAFETY: numbers are those of nodes that were taken.
        unsafe memory.base + number &* elementCount
    }

    /// The number of a node whose elements are those that it had before, if it had any.
    mutating func take() -> UInt32 {
        guard freeCount > 0 else {
            memory.reserve((usedCount + 1) * elementCount, keeping: usedCount * elementCount)
            usedCount += 1
            return UInt32(usedCount - 1)
        }
        freeCount -= 1
        // What is taken next: it may have been free for a long time.
        if freeCount > 0 { unsafe ingest_prefetch(node(Int(free.base[freeCount - 1]))) }
        return unsafe free.base[freeCount]
    }

    mutating func take(filledWith element: Element) -> UInt32 {
        let number = take()
        unsafe node(Int(number)).update(repeating: element, count: elementCount)
        return number
    }

    mutating func giveBack(_ number: UInt32) {
        free.reserve(freeCount + 1, keeping: freeCount)
        unsafe free.base[freeCount] = number
        freeCount += 1
    }
}
