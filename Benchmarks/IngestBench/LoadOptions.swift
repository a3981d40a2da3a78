import ArgumentParser
import Foundation
import IngestClient
import IngestFormat
import IngestKeys

/// What the load is made of; the same for every command that sends one.
struct MixOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Distinct rewards in the load.", valueName: "n"))
    var rewards = 100_000

    @Option(
        help: ArgumentHelp("Distinct businesses, each with its share of rewards.", valueName: "n"))
    var businesses = 1_000

    @Option(
        help: ArgumentHelp(
            "How often each reward comes: uniform, zipf, or turns (each in its turn).",
            valueName: "shape"))
    var popularity = Popularity.Shape.uniform

    @Option(help: ArgumentHelp("What names look like: uuid or number.", valueName: "style"))
    var names = EventMix.NameStyle.uuid

    @Option(
        help: ArgumentHelp(
            "Packets of 11 events that are encoded beforehand and sent round and round, ids, times and, but "
                + "with zipf, names new each time.",
            valueName: "n"))
    var poolPackets = 8_192

    @Option(
        help: ArgumentHelp(
            "Days that the event times go through during the load, up to now; 0 = all are of now. More "
                + "than 7 need --daemon-option=--max-event-age-seconds=0.",
            valueName: "n"))
    var days = 0

    @Flag(help: "Ask for acks, and keep to the window and the credit; nothing is sent again.")
    var acks = false

    @Option(
        help: ArgumentHelp(
            "Share of the events behind the first million that repeat one of these, with its id.",
            valueName: "share"))
    var repeats = 0.0

    @Option(help: ArgumentHelp("Senders, which take turns packet by packet.", valueName: "n"))
    var senders = 1

    @Flag(
        help: "Send packets one by one, by sendmmsg, not as segments of one message (UDP_SEGMENT).")
    var singly = false

    @Flag(help: "Tag every packet, and give the daemon a keys file.")
    var tags = false

    @Option(
        help: ArgumentHelp(
            "Sessions that are going on at a time, of 10 events each on average; 0 = events have none. "
                + "Needs --names number, so that 11 events fit a packet.", valueName: "n"))
    var sessions = 0

    @Option(help: ArgumentHelp("Seed of the load.", valueName: "n"))
    var seed: UInt64 = 1

    func validate() throws {
        guard rewards > 0, businesses > 0, poolPackets > 0 else {
            throw ValidationError("--rewards, --businesses and --pool-packets are 1 or more")
        }
        guard names == .uuid || rewards <= EventMix.NameStyle.numberCountMax else {
            throw ValidationError("--rewards is at most 100,000,000 with --names number")
        }
        guard (1...4_096).contains(senders) else {
            throw ValidationError("--senders is 1 to 4,096")
        }
        guard (0...0.5).contains(repeats) else { throw ValidationError("--repeats is 0 to 0.5") }
        guard sessions == 0 || sessions > 0 && names == .number else {
            throw ValidationError("--sessions is 0, or 1 or more with --names number")
        }
        guard (0...10_000).contains(days) else { throw ValidationError("--days is 0 to 10,000") }
    }

    var options: EventMix.Options {
        EventMix.Options(
            rewardCount: rewards, businessCount: businesses, popularity: popularity,
            names: names, seed: seed, dayCount: days, sessionCount: sessions)
    }

    /// Of the load and its daemon.
    static let keyBytes: [UInt8] = (0..<32).map { $0 }

    func makePool() -> PacketPool {
        PacketPool(
            packetCount: poolPackets, mix: options,
            senders: LoadSenders(
                count: senders, first: UInt64.random(in: 1...UInt64.max / 2),
                epoch: SenderIdentity.epoch(
                    unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                    random: UInt64.random(in: 0...UInt64.max))),
            key: tags ? PacketKey(id: 1, key: Self.keyBytes) : nil, asksForAcks: acks,
            repeatShare: repeats)
    }
}

/// Which daemon is measured, and where it keeps its data.
struct DaemonOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The daemon; beside this program by default.", valueName: "path"))
    var daemon: String?

    @Option(
        help: ArgumentHelp(
            "Where data directories are made; they are removed at the end. On the disk that is to be "
                + "measured.", valueName: "dir"))
    var scratch = "/tmp"

    @Flag(help: "Leave the data directory and the daemon's log where they are, and say where.")
    var keep = false

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "A further option for the daemon, as in --daemon-option=--commit-interval-ms=10.",
            valueName: "option"))
    var daemonOption: [String] = []

    /// The path of a program that was built together with this one.
    static func besideThis(_ name: String) -> String {
        Bundle.main.executableURL!.deletingLastPathComponent().appendingPathComponent(name).path
    }

    var daemonPath: String { daemon ?? Self.besideThis("ingestd") }

    /// - Parameter hasKeys: it takes packets under the load's key alone.
    func start(in directory: ScratchDirectory, hasKeys: Bool = false) throws -> DaemonProcess {
        var arguments = daemonOption
        if hasKeys {
            let path = directory.path + ".keys"
            let key = MixOptions.keyBytes.map { String(0x100 | Int($0), radix: 16).dropFirst() }
            guard
                FileManager.default.createFile(
                    atPath: path, contents: Data("1 \(key.joined())\n".utf8),
                    attributes: [.posixPermissions: 0o600])
            else { throw BenchFailure("\(path) cannot be made") }
            arguments.append("--keys=\(path)")
        }
        return try DaemonProcess(
            DaemonProcess.Options(
                executable: daemonPath, directory: directory.path, arguments: arguments))
    }

    func makeScratch() throws -> ScratchDirectory {
        try ScratchDirectory(in: scratch, isKept: keep)
    }
}

extension Popularity.Shape: ExpressibleByArgument {}
extension EventMix.NameStyle: ExpressibleByArgument {}

/// A directory of its own for one run, removed with it.
final class ScratchDirectory {
    let path: String
    private let isKept: Bool

    init(in parent: String, isKept: Bool) throws {
        let name = "ingest-bench-" + String(UInt64.random(in: 0...UInt64.max), radix: 36)
        path = URL(fileURLWithPath: parent).appendingPathComponent(name).path
        self.isKept = isKept
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    /// A directory under a name of the caller's, which stays.
    init(at path: String) throws {
        self.path = path
        isKept = true
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        if isKept {
            print("\nkept: \(path) and \(path).log")
        } else {
            try? FileManager.default.removeItem(atPath: path)
            try? FileManager.default.removeItem(atPath: path + ".log")
            try? FileManager.default.removeItem(atPath: path + ".keys")
        }
    }

    /// Bytes of the files in it, by the end of their names.
    func byteCounts() throws -> [String: UInt64] {
        var sums: [String: UInt64] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            let attributes = try FileManager.default.attributesOfItem(atPath: path + "/" + name)
            guard attributes[.type] as? FileAttributeType == .typeRegular else { continue }
            let kind = name.split(separator: ".", maxSplits: 1).last.map(String.init) ?? name
            sums[kind, default: 0] += (attributes[.size] as? NSNumber)?.uint64Value ?? 0
        }
        return sums
    }
}
