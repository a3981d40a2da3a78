import IngestFormat

/// The events of a load: 90 % impressions, half of them measured (three of four at or above the display
/// threshold), 8 % clicks, 2 % redemptions with revenue and spend; an id and a platform on all. Rewards
/// and businesses have UUIDs or numbers for names; each reward belongs to one business. 120 to 133 bytes an
/// event with UUIDs.
struct EventMix {
    struct Options: Equatable {
        var rewardCount = 100_000
        var businessCount = 1_000
        var popularity = Popularity.Shape.uniform
        var names = NameStyle.uuid
        var seed: UInt64 = 1
        /// Days that event times go through, up to now.
        var dayCount = 0
        /// Sessions that are going on at a time; 0 = events have none.
        var sessionCount = 0
    }

    /// What names look like: `rwd-` and a UUID, or `rwd-` and eight digits.
    enum NameStyle: String, CaseIterable { case uuid, number }

    static let (rewardPrefix, businessPrefix) = ("rwd-", "b-")
    static let (rewardKind, businessKind, eventKind): (UInt64, UInt64, UInt64) = (1, 2, 3)
    private static let platforms = ["iOS", "tvOS", "web", "Android"].map { Array($0.utf8) }
    /// Event times lie up to about a second before the packet leaves.
    private static let ageMicrosecondsMax: UInt64 = 1 << 20

    private let options: Options
    private var popularity: Popularity
    private var random: SeededRandom
    /// The texts of the last event, which its descriptor points into.
    private(set) var bytes: [UInt8] = []
    /// How long before its packet's departure the last event happened, microseconds.
    private(set) var ageMicroseconds: UInt32 = 0

    init(_ options: Options) {
        self.options = options
        popularity = Popularity(options.popularity, count: options.rewardCount)
        random = SeededRandom(seed: options.seed)
    }

    /// Draws the next event. Time and id are placeholders of their final size, to be patched.
    mutating func next() -> EventDescriptor {
        var event = EventDescriptor()
        let reward = popularity.draw(&random)
        bytes.removeAll(keepingCapacity: true)
        (event.rewardOffset, event.rewardByteCount) =
            place(Self.name(Self.rewardPrefix, Self.rewardKind, reward, options.names))
        (event.businessOffset, event.businessByteCount) =
            place(
                Self.name(
                    Self.businessPrefix, Self.businessKind, reward % options.businessCount,
                    options.names))
        (event.eventIDOffset, event.eventIDByteCount) = place([UInt8](repeating: 0xFF, count: 16))
        (event.platformOffset, event.platformByteCount) =
            place(Self.platforms[Int(random.next() % UInt64(Self.platforms.count))])
        if options.sessionCount > 0 {
            (event.sessionOffset, event.sessionByteCount) =
                place([UInt8](repeating: 0x61, count: SessionDraw.idByteCount))
        }
        event.flags = EventDescriptor.Flags.hasEventID
        event.timestampMicroseconds = 1 << 50
        event.consent = Consent.optIn.rawValue
        ageMicroseconds = UInt32(random.next() % Self.ageMicrosecondsMax)
        drawKind(&event)
        return event
    }

    private mutating func drawKind(_ event: inout EventDescriptor) {
        switch random.next() % 100 {
        case 0..<90:
            event.type = EventType.impression.rawValue
            if random.next() & 1 == 0 { drawViewability(&event) }
        case 90..<98:
            event.type = EventType.click.rawValue
        default:
            event.type = EventType.redemption.rawValue
            event.revenueMicros = Int64(random.next() % 200_000_000 + 1_000_000)
            event.spendMicros = Int64(random.next() % 5_000_000 + 10_000)
        }
    }

    private mutating func drawViewability(_ event: inout EventDescriptor) {
        event.flags |= EventDescriptor.Flags.isMeasured
        let isViewable = random.next() % 4 != 0
        event.visiblePartsPerMillion = UInt32(
            isViewable ? 500_000 + random.next() % 500_001 : random.next() % 500_000)
        event.durationMilliseconds = UInt32(
            isViewable ? 1_000 + random.next() % 9_000 : random.next() % 1_000)
    }

    private mutating func place(_ text: [UInt8]) -> (offset: UInt16, byteCount: UInt8) {
        defer { bytes.append(contentsOf: text) }
        return (UInt16(bytes.count), UInt8(text.count))
    }

    /// The name of the reward with this number: 0 is the most frequent, if any is.
    static func rewardName(_ number: Int, _ style: NameStyle = .uuid) -> String {
        String(decoding: name(rewardPrefix, rewardKind, number, style), as: UTF8.self)
    }

    /// `prefix` and eight digits, or 36 characters in the form of a UUID, distinct for distinct numbers
    /// of a kind.
    private static func name(
        _ prefix: String, _ kind: UInt64, _ number: Int, _ style: NameStyle
    ) -> [UInt8] {
        var text = Array((prefix + style.form).utf8)
        unsafe text.withUnsafeMutableBytes { bytes in
            // SAFETY: behind the prefix is the room of the style's form.
            unsafe style.write(
                number, kind, to: bytes.baseAddress! + prefix.utf8.count)
        }
        return text
    }
}

extension EventMix.NameStyle {
    /// Numbers that eight digits hold.
    static let numberCountMax = 100_000_000

    /// What stands in every name of the style, behind its prefix.
    var form: String {
        switch self {
        case .uuid: "00000000-0000-0000-0000-000000000000"
        case .number: "00000000"
        }
    }

    /// Writes the digits of a name over `form`.
    ///
    /// - Parameter kind: distinct for what may have the same numbers.
    ///
    /// **Cost** 4 ns.
    func write(_ number: Int, _ kind: UInt64, to place: UnsafeMutableRawPointer) {
        // SAFETY: all offsets lie in the form, which the caller has room for.
        switch self {
        case .uuid:
            let first = SeededRandom.mix(UInt64(number) << 8 | kind)
            let second = SeededRandom.mix(~(UInt64(number) << 8 | kind))
            let digits = Self.hexDigits(first, second)
            unsafe place.storeBytes(of: digits[0], as: UInt64.self)
            unsafe storeHalves(digits[1], to: place + 9)
            unsafe storeHalves(digits[2], to: place + 19)
            unsafe place.storeBytes(of: digits[3], toByteOffset: 28, as: UInt64.self)
        case .number:
            var rest = UInt32(truncatingIfNeeded: number)
            for offset in stride(from: 7, through: 0, by: -1) {
                unsafe place.storeBytes(
                    of: UInt8(ascii: "0") + UInt8(rest % 10), toByteOffset: offset, as: UInt8.self)
                rest /= 10
            }
        }
    }

    /// Four digits on either side of a dash.
    private func storeHalves(_ digits: UInt64, to place: UnsafeMutableRawPointer) {
        // SAFETY: nine bytes are there, as `write` says.
        unsafe place.storeBytes(of: UInt32(truncatingIfNeeded: digits), as: UInt32.self)
        unsafe place.storeBytes(of: UInt32(digits >> 32), toByteOffset: 5, as: UInt32.self)
    }

    /// Twice 64 bits as 32 hexadecimal digits, eight in a lane, the first in its lowest byte.
    private static func hexDigits(_ first: UInt64, _ second: UInt64) -> SIMD4<UInt64> {
        let (a, b) = (first.byteSwapped, second.byteSwapped)
        // Four bytes a lane, pulled apart to two digits each; the upper half of a byte comes first.
        var bytes = SIMD4(a & 0xFFFF_FFFF, a >> 32, b & 0xFFFF_FFFF, b >> 32)
        bytes = (bytes | bytes &<< 16) & 0x0000_FFFF_0000_FFFF
        bytes = (bytes | bytes &<< 8) & 0x00FF_00FF_00FF_00FF
        let digits = (bytes &>> 4 | bytes &<< 8) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = (digits &+ 0x0606_0606_0606_0606) &>> 4 & 0x0101_0101_0101_0101
        // 39 from behind "9" to "a": 32 + 8 - 1.
        return digits &+ 0x3030_3030_3030_3030 &+ (isLetter &<< 5) &+ (isLetter &<< 3) &- isLetter
    }
}

/// The digits of names, written once: of those of which there are few.
@safe final class NameForms {
    private let bytes: UnsafeMutableRawPointer
    private let byteCount: Int

    init(_ style: EventMix.NameStyle, _ kind: UInt64, count: Int) {
        let form = Array(style.form.utf8)
        byteCount = form.count
        unsafe bytes = .allocate(byteCount: byteCount * count, alignment: 1)
        for number in 0..<count {
            // SAFETY: there is room for `count` forms.
            let place = unsafe bytes + number * byteCount
            unsafe place.copyMemory(from: form, byteCount: byteCount)
            unsafe style.write(number, kind, to: place)
        }
    }

    deinit { unsafe bytes.deallocate() }

    /// SAFETY (caller): the number is below the count, and a form lies at `place`.
    @inline(__always)
    @unsafe func copy(_ number: Int, to place: UnsafeMutableRawPointer) {
        unsafe place.copyMemory(from: bytes + number * byteCount, byteCount: byteCount)
    }
}

/// SplitMix64: the same numbers from the same seed on every machine.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mix(state)
    }

    /// A bijection of 64-bit numbers: distinct numbers in, distinct numbers out.
    static func mix(_ number: UInt64) -> UInt64 {
        var z = number
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// 0 ..< 1, 53 bits.
    mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}

/// Which of `count` things comes next: each as likely as the other, by Zipf's law, or each in its turn.
struct Popularity {
    enum Shape: String, CaseIterable { case uniform, zipf, turns }

    let count: Int
    /// Whose turn it is; `nil` where it is drawn.
    private var turn: Int?
    /// Cumulated weights; empty if uniform.
    private var cumulated: [Double] = []

    init(_ shape: Shape, count: Int) {
        precondition(count > 0)
        self.count = count
        if shape == .turns { turn = 0 }
        guard shape == .zipf else { return }
        var sum = 0.0
        cumulated = (1...count).map { rank in
            sum += 1 / Double(rank)
            return sum
        }
    }

    /// Of the event with this number, without a state; `nil` where it takes a search.
    ///
    /// - Parameter seed: of the load.
    func drawn(event: UInt64, seed: UInt64) -> Int? {
        if !cumulated.isEmpty { return nil }
        if turn != nil { return Int(event % UInt64(count)) }
        let drawn = SeededRandom.mix(event ^ SeededRandom.mix(seed))
        return Int(drawn.multipliedFullWidth(by: UInt64(count)).high)
    }

    /// 0 ..< count; with Zipf, 0 is the most frequent.
    mutating func draw(_ random: inout SeededRandom) -> Int {
        if let turn {
            self.turn = (turn + 1) % count
            return turn
        }
        guard let total = cumulated.last else { return Int(random.next() % UInt64(count)) }
        let goal = random.unit() * total
        var low = 0
        var high = count - 1
        while low < high {
            let middle = (low + high) / 2
            if cumulated[middle] <= goal { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// Draws the events of a load that come a second time, each by its own number: a share of all that can, which are those
/// behind the first round, in which nothing repeats. What they repeat is of that round.
struct RepeatDraw {
    private let round: UInt64
    /// Of 2^64 draws.
    private let drawnMax: UInt64

    /// - Parameters:
    ///   - share: 0 ... 0.5.
    ///   - round: 1 or more; rounds of the pool, so that amounts are the same.
    init(share: Double, round: UInt64) {
        self.round = round
        drawnMax = UInt64(share * 0x1p64)
    }

    /// The number of the event that this one repeats, or its own.
    func original(of event: UInt64) -> UInt64 {
        guard drawnMax > 0, event >= round, SeededRandom.mix(event ^ 0x5EED_0F_4E9EA7) < drawnMax
        else {
            return event
        }
        return event % round
    }
}

/// Draws the session of each event by its number: 10 events each on average, among those of so many other sessions.
struct SessionDraw {
    static let idByteCount = 24
    private static let eventCountMean: UInt64 = 10
    /// At a time; 0 = none.
    let count: UInt64

    /// The last 16 bytes of the id of an event's session, in two halves.
    func id(ofEvent event: UInt64) -> (UInt64, UInt64) {
        let round = event / (count * Self.eventCountMean)
        let session = round * count + SeededRandom.mix(event ^ 0x5E55_10_4D) % count
        let number = SeededRandom.mix(session)
        return (Self.letters(number >> 32), Self.letters(number & 0xFFFF_FFFF))
    }

    /// 32 bits as eight letters, a to p.
    private static func letters(_ number: UInt64) -> UInt64 {
        spread(number) + 0x6161_6161_6161_6161
    }

    /// Four bits to a byte, the lowest first.
    static func spread(_ number: UInt64) -> UInt64 {
        var spread = (number | number << 16) & 0x0000_FFFF_0000_FFFF
        spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF
        return (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F
    }
}
