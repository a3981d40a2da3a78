// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestCounting
import IngestFormat
import IngestStorage

/// The windows of all senders as `verify` goes through the log: made again from the ledgers of the blocks, held
/// against those in each footer, and, sender by sender, against the law of packets. Owned by one `verify`, on its
/// caller's thread.
///
/// Where a part of the log cannot be read, nothing is known until the next footer says it; what it says is believed
/// then.
///
/// **Cost** Some 100 ns a sender of a segment, 50 ns an open window of a footer; memory for all windows.
struct WindowRecount {
    /// A footer's windows, and where it begins in its file.
    struct Stored: Sendable {
        let windows: SenderWindows
        let offset: UInt64
    }

    /// Behind the segment at hand; `nil` where they are not known.
    private var windows: SenderWindows? = SenderWindows()
    /// Whether no part of the log so far was lost: then each window has been seen opening.
    private var isWhole = true

    // MARK: Going on

    /// Goes on through an expired stretch of the log.
    /// - Parameter hasLosses: whether parts of it were lost before.
    mutating func add(
        attested ledger: LedgerRecount, hasLosses: Bool, in file: String,
        _ report: inout VerifyReport
    ) {
        if hasLosses { return forget() }
        add(ledger, in: file, checksLaw: true, &report)
        // Of senders without an entry of their own, and of closed windows without a line, the order is gone.
        if ledger.hasOthers || windows?.expired.watermark != 0 { forget() }
    }

    /// Goes on through a segment whose ledgers were all read.
    mutating func add(_ segment: SegmentRecount, _ report: inout VerifyReport) {
        guard segment.isWhole, !segment.lacksRows else { return forget(segment.footerWindows) }
        // A block that is gone may have opened a window, or have had what others count on.
        if segment.isBroken || segment.hasLosses { isWhole = false }
        add(segment.ledger, in: segment.file, checksLaw: !segment.isBroken, &report)
        guard let stored = segment.footerWindows else { return }
        if windows == nil { windows = stored.windows }
        compare(stored, in: segment.file, &report)
    }

    /// Goes on behind a part of the log that cannot be read.
    mutating func forget(_ stored: Stored? = nil) {
        windows = stored?.windows
        isWhole = false
    }

    // MARK: The law of packets

    private mutating func add(
        _ ledger: LedgerRecount, in file: String, checksLaw: Bool, _ report: inout VerifyReport
    ) {
        guard var windows = windows.take() else { return }
        for step in ledger.windowSteps {
            let key = step.sums.key
            let before = windows.open[key]
            var after: SenderWindow?
            for part in step.parts {
                after = windows.window(after: part)
                windows.apply([part])
            }
            guard checksLaw else { continue }
            if before == nil && !step.hasStart {
                if isWhole && step.sums.says {
                    report.add(
                        Finding(
                            .difference, file: file, what: "packets of \(key) before its window",
                            got: "\(step.sums.consumedCount) received", expected: "a start"))
                }
                continue
            }
            guard let after else { continue }
            let balance = PacketBalance(step.sums, before: before, after: after)
            if !balance.isKept { report.add(Finding(balance, of: key, in: file)) }
        }
        self.windows = windows
    }

    // MARK: Footers

    private func compare(
        _ stored: Stored, in file: String, _ report: inout VerifyReport
    ) {
        guard let windows, windows != stored.windows else { return }
        func add(_ what: String, _ got: String, _ expected: String) {
            report.add(
                Finding(
                    .difference, file: file, offset: stored.offset, what: "\(what) in the footer",
                    got: got, expected: expected))
        }
        let keys = Set(windows.open.keys).union(stored.windows.open.keys)
        for key in keys.sorted() {
            let (got, expected) = (stored.windows.open[key], windows.open[key])
            if got != expected { add("window of \(key)", got.text, expected.text) }
        }
        if windows.expired != stored.windows.expired {
            add("closed epochs", stored.windows.expired.text, windows.expired.text)
        }
    }
}

extension LedgerEntry {
    /// Whether it says anything that only an open window can have.
    fileprivate var says: Bool { consumedCount > 0 || !window.isEmpty }
}

extension Finding {
    init(_ balance: PacketBalance, of key: SenderKey, in file: String) {
        let before = balance.openBefore > 0 ? "\(balance.openBefore) open before + " : ""
        self.init(
            .difference, file: file, what: "packets of \(key) do not add up",
            got: "\(before)\(balance.announced) announced",
            expected: "\(balance.received) received + \(balance.missing) missing "
                + "+ \(balance.open) open")
    }
}

extension Optional<SenderWindow> {
    fileprivate var text: String {
        guard let window = self else { return "none" }
        let (sequences, asks) = (window.sequences, window.asksForAcks)
        let missing = sequences.missing.isEmpty ? "" : " with \(sequences.missing.suffix(3))"
        let kind = asks.map { $0 ? "asks for acks" : "asks for no acks" } ?? "undecided"
        return "start \(window.start), floor \(sequences.floor), announced \(window.announced), "
            + "\(sequences.arrivedCount) received, \(sequences.missingCount) missing\(missing), "
            + "last seen \(window.lastSeen), \(kind)"
    }
}

extension ExpiredEpochs {
    fileprivate var text: String {
        let newest = epochs.values.max().map { ", the newest \($0)" } ?? ""
        return "\(epochs.count) senders\(newest), all others up to \(watermark)"
    }
}
