import ArgumentParser
import Foundation

/// Figures as a person reads them: one a line, name to the left.
enum Report {
    static func heading(_ text: String) {
        print("\n\(text)")
        // Into a file too as it goes on, as each line does: a run takes minutes.
        fflush(nil)
    }

    /// - Parameter goal: what the figure is to reach, where something is asked for.
    static func line(_ name: String, _ value: String, goal: String? = nil) {
        let asked = goal.map { "   (goal: \($0))" } ?? ""
        print("  " + name.padding(toLength: 26, withPad: " ", startingAt: 0) + value + asked)
        fflush(nil)
    }

    static func machine(directory: String) {
        heading("machine")
        for fact in MachineFacts(directory: directory).lines { line(fact.name, fact.value) }
    }
}

func fixed(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }

/// 1234567 → 1,234,567
func grouped(_ value: some BinaryInteger) -> String {
    var text = ""
    for (i, digit) in String(value).reversed().enumerated() {
        if i > 0, i % 3 == 0, digit != "-" { text.append(",") }
        text.append(digit)
    }
    return String(text.reversed())
}

/// 1234567.8 → 1,234,568 with no digits
func grouped(fixed value: Double, _ digits: Int) -> String {
    digits == 0 && value.magnitude < 1e15 ? grouped(Int(value.rounded())) : fixed(value, digits)
}

func mebibytes(_ byteCount: some BinaryInteger) -> String {
    fixed(Double(byteCount) / Double(1 << 20), 1) + " MiB"
}

/// The value below which `share` of the sorted values lie (nearest rank).
func percentile(_ sorted: [Double], _ share: Double) -> Double {
    guard !sorted.isEmpty else { return .nan }
    let rank = Int((share * Double(sorted.count)).rounded(.up))
    return sorted[min(sorted.count - 1, max(0, rank - 1))]
}

/// Of an even count, the mean of the two in the middle.
func median(_ values: [Double]) -> Double {
    guard !values.isEmpty else { return .nan }
    let sorted = values.sorted()
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

/// Two things that are measured in turn, so that what the machine does meanwhile happens to both.
struct PairOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Pairs of runs.", valueName: "n"))
    var pairs = 5

    func validate() throws {
        guard pairs > 0 else { throw ValidationError("--pairs is 1 or more") }
    }

    /// - Parameter measure: gets the number of the pair, from 1, and whether it is the first of the two things that is to be
    ///   measured. The first run of a pair has the warmer or the colder machine: they take turns.
    func run<Figures>(
        _ measure: (Int, Bool) throws -> Figures
    ) rethrows -> [(first: Figures, other: Figures)] {
        try (0..<pairs).map { pair in
            let isFirst = pair % 2 == 0
            let one = try measure(pair + 1, isFirst)
            let two = try measure(pair + 1, !isFirst)
            return isFirst ? (one, two) : (two, one)
        }
    }
}

/// What a figure cannot be read without: printed with every run.
struct MachineFacts {
    let lines: [(name: String, value: String)]

    init(directory: String) {
        lines = [
            ("machine", Self.machine()),
            ("memory", Self.memory()),
            ("network", "loopback, MTU \(Self.trimmed("/sys/class/net/lo/mtu"))"),
            ("rmem_max", "\(Self.trimmed("/proc/sys/net/core/rmem_max")) bytes"),
            ("directory on", Self.fileSystem(of: directory)),
            ("build", Self.build()),
            ("commit", Self.commit()),
        ]
    }

    private static func machine() -> String {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let kernel = trimmed("/proc/sys/kernel/osrelease")
        let kind = isVirtual ? "virtual" : "bare metal"
        return "\(processor()), \(cores) cores, Linux \(kernel), \(kind)"
    }

    private static func processor() -> String {
        let lines = textIfThere("/proc/cpuinfo").split(separator: "\n")
        let line = lines.first { $0.hasPrefix("model name") } ?? "unknown processor"
        let name = line.split(separator: ":").last.map(String.init) ?? ""
        return name.trimmingCharacters(in: .whitespaces)
    }

    private static var isVirtual: Bool {
        textIfThere("/proc/cpuinfo").contains(" hypervisor")
    }

    private static func memory() -> String {
        let gigabytes = Double(ProcessInfo.processInfo.physicalMemory) / Double(1 << 30)
        let pages = trimmed("/sys/kernel/mm/transparent_hugepage/enabled")
        return "\(fixed(gigabytes, 1)) GiB, huge pages \(pages)"
    }

    /// The line of /proc/mounts whose mount point is the longest prefix of the directory.
    private static func fileSystem(of directory: String) -> String {
        let path = URL(fileURLWithPath: directory).standardizedFileURL.path + "/"
        var best: [Substring] = []
        for line in textIfThere("/proc/mounts").split(separator: "\n") {
            let mount = line.split(separator: " ")
            guard mount.count > 3 else { continue }
            let point = mount[1] == "/" ? "/" : "\(mount[1])/"
            if path.hasPrefix(point), best.isEmpty || mount[1].count >= best[1].count {
                best = mount
            }
        }
        return best.isEmpty ? "unknown" : "\(best[2]) (\(best[3]))"
    }

    private static func build() -> String {
        #if DEBUG
            let mode = "DEBUG, figures mean nothing"
        #else
            let mode = "release"
        #endif
        return "\(mode), \(trimmed(output("swift", "--version")))"
    }

    private static func commit() -> String {
        let commit = trimmed(output("git", "rev-parse", "--short=12", "HEAD"))
        if commit.isEmpty { return "unknown (not in a checkout)" }
        let isClean = output("git", "status", "--porcelain", "-uno").isEmpty
        return commit + (isClean ? "" : " with changes")
    }

    private static func trimmed(_ pathOrText: String) -> String {
        let all = pathOrText.hasPrefix("/") ? (try? text(pathOrText)) ?? "unknown" : pathOrText
        return String(all.split(separator: "\n").first ?? "")
    }

    private static func output(_ command: String...) -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return "" }
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
