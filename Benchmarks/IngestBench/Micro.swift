import ArgumentParser
import Glibc
import IngestFormat

/// `ingest-bench micro`: parts of the path one by one, in this process, on one core. What the pages of docs/format say
/// that a block or a table costs is from here.
struct MicroCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "micro",
        abstract: "Time the parts of the path by themselves, in this process.")

    /// A part of the path that has a benchmark of its own.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case path, json, block, counter, dedup
    }

    @Argument(help: "The parts to time; all by default.")
    var parts: [Part] = Part.allCases

    func run() {
        Report.machine(directory: "/tmp")
        for part in parts {
            Report.heading(part.rawValue)
            switch part {
            case .path: PathMeasurement.reportAll()
            case .json: JSONMeasurement.reportAll()
            case .block: BlockMeasurement.reportAll()
            case .counter: CounterMeasurement.reportAll()
            case .dedup: DedupMeasurement.reportAll()
            }
        }
    }
}

/// Processor time of this thread: other work on the machine is not in it.
enum ThreadTime {
    static var nanoseconds: UInt64 {
        var now = timespec()
        // SAFETY: the kernel writes one timespec.
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }

    /// Nanoseconds that `body` took.
    static func of<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) -> Double {
        let start = nanoseconds
        try body()
        return Double(nanoseconds - start)
    }

    /// The fastest tenth of some rounds: the others were disturbed.
    static func best(ofRounds rounds: Int, _ body: () -> Void) -> Double {
        let times = (0..<rounds).map { _ in of(body) }
        return times.sorted()[rounds / 10]
    }
}

extension Report {
    /// What one of `count` took.
    static func cost(_ name: String, _ nanoseconds: Double, _ count: Int, _ unit: String = "ns") {
        line(name, "\(fixed(nanoseconds / Double(max(1, count)), 2)) \(unit)")
    }
}

extension BlockRows {
    /// 96 % impressions, half of them measured; ids on all; times within a second, one in a thousand up to an hour late,
    /// one row in a hundred of the day before; four platforms, campaign and source on a third; money on redemptions.
    convenience init(
        realistic count: Int, _ popularity: inout Popularity, _ random: inout SeededRandom
    ) {
        self.init()
        for _ in 0..<count { append(&popularity, &random) }
        mark.eventHash = rowCount
    }

    private func append(_ popularity: inout Popularity, _ random: inout SeededRandom) {
        func below(_ bound: Int) -> Int { Int(random.next() >> 33) % bound }
        let kind = below(1000)
        let type: EventType = kind < 960 ? .impression : kind < 995 ? .click : .redemption
        var bits = RowAttributes.eventID
        var verdict = Verdict.counted
        if type == .impression && below(2) == 0 {
            bits |= RowAttributes.measured
            let ppm = below(3) == 0 ? 1_000_000 : below(1_000_000)
            let milliseconds = below(30_000)
            unsafe visible[measuredCount] = UInt32(ppm)
            unsafe duration[measuredCount] = UInt32(milliseconds)
            mark.measured += 1
            if ppm < 500_000 || milliseconds < 1000 { verdict = .notViewable }
        }
        if type == .redemption {
            bits |= RowAttributes.money
            unsafe revenue[moneyCount] = Int64(below(20_000)) * 10_000
            unsafe spend[moneyCount] = Int64(below(500)) * 10_000
            mark.money += 1
        }
        if below(200) == 0 { verdict = .duplicate }
        let consent: Consent = below(4) == 0 ? .notSet : .optIn
        let late = below(1000) == 0 ? Int64(below(3_600_000)) * 1000 : 0
        let isAttributed = below(3) == 0
        // Popular keys are not those that were seen first.
        unsafe key[rowCount] = UInt32(popularity.draw(&random) &* 7_919 % popularity.count)
        unsafe timestamp[rowCount] = 1_795_000_000_000_000 - Int64(below(1_000_000)) - late
        unsafe day[rowCount] = below(100) == 0 ? 20_775 : 20_776
        unsafe attributes[rowCount] =
            RowAttributes(
                type: type.rawValue, verdict: verdict, consent: consent.rawValue, format: 0,
                bits: bits
            ).rawValue
        unsafe platform[rowCount] = [101, 101, 101, 102, 102, 103, 104][below(7)]
        unsafe campaign[rowCount] = isAttributed ? UInt32(1000 + below(50)) : 0
        unsafe source[rowCount] = isAttributed ? UInt32(2000 + below(8)) : 0
        unsafe eventHash[rowCount] = random.next()
        mark.row += 1
    }
}
