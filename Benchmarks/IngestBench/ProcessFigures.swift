import CIngestLinux
import Foundation
import IngestClient

/// What the kernel says of a process, read from outside it.
struct ProcessFigures {
    /// Time on a core in user mode and in the kernel, in steps of 10 ms.
    var userNanoseconds: UInt64 = 0
    var systemNanoseconds: UInt64 = 0
    var residentByteCount: UInt64 = 0
    var residentByteCountMax: UInt64 = 0
    /// Bytes that the process caused to be written to storage.
    var writtenByteCount: UInt64 = 0
    /// Exact time on a core by thread name, user and kernel together.
    var threadNanoseconds: [String: UInt64] = [:]

    /// The tick of /proc/PID/stat, USER_HZ: 100 on every Linux.
    private static let tickNanoseconds: UInt64 = 10_000_000

    init(processID: Int32) throws {
        let folder = "/proc/\(processID)"
        // Behind the name in parentheses: state is field 3, utime 14, stime 15.
        let stat = try text("\(folder)/stat")
        let fields = stat[(stat.lastIndex(of: ")") ?? stat.startIndex)...].split(separator: " ")
        guard fields.count > 13, let user = UInt64(fields[12]), let system = UInt64(fields[13])
        else { throw BenchFailure("\(folder)/stat: not as proc(5) says") }
        userNanoseconds = user * Self.tickNanoseconds
        systemNanoseconds = system * Self.tickNanoseconds
        let status = try text("\(folder)/status")
        residentByteCount = (value("VmRSS", in: status) ?? 0) * 1024
        residentByteCountMax = (value("VmHWM", in: status) ?? 0) * 1024
        writtenByteCount = value("write_bytes", in: textIfThere("\(folder)/io")) ?? 0
        for thread in (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/task")) ?? []
        {
            readThread("\(folder)/task/\(thread)")
        }
    }

    /// Time on a core of the threads whose name has this in it.
    func nanoseconds(ofThread name: String) -> UInt64 {
        threadNanoseconds.reduce(0) { $0 + ($1.key.contains(name) ? $1.value : 0) }
    }

    private mutating func readThread(_ folder: String) {
        guard let name = try? text("\(folder)/comm"), let times = try? text("\(folder)/schedstat"),
            let nanoseconds = times.split(separator: " ").first.flatMap({ UInt64($0) })
        else { return }
        let trimmed = name.trimmingCharacters(in: .whitespacesAndNewlines)
        threadNanoseconds[trimmed, default: 0] += nanoseconds
    }
}

/// Datagrams that the kernel dropped at the sockets bound to this port, from /proc/net/udp and udp6.
func kernelDropCount(port: UInt16) -> UInt64 {
    let local = ":" + String(UInt32(port) + 0x10000, radix: 16, uppercase: true).dropFirst()
    var drops: UInt64 = 0
    for table in ["/proc/net/udp", "/proc/net/udp6"] {
        for line in textIfThere(table).split(separator: "\n").dropFirst() {
            let fields = line.split(separator: " ")
            guard fields.count > 4, fields[1].hasSuffix(local) else { continue }
            drops += UInt64(fields[fields.count - 1]) ?? 0
        }
    }
    return drops
}

/// A file of /proc or /sys as text. Their sizes read as 0, so `String(contentsOfFile:)` is of no use.
func text(_ path: String) throws -> String {
    guard let file = FileHandle(forReadingAtPath: path) else {
        throw BenchFailure("\(path) cannot be read")
    }
    return String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
}

/// As `text`; nothing where there is no such file or it may not be read.
func textIfThere(_ path: String) -> String { (try? text(path)) ?? "" }

/// The number behind `name:` at the start of a line.
private func value(_ name: String, in text: String) -> UInt64? {
    for line in text.split(separator: "\n") where line.hasPrefix(name + ":") {
        return line.dropFirst(name.count + 1).split(whereSeparator: \.isWhitespace).first
            .flatMap { UInt64($0) }
    }
    return nil
}

/// One run of a program from start to exit, as a shell would see it; its output is dropped.
///
/// By posix_spawn and wait4: Foundation's `Process` sees an end up to 50 ms late.
struct ProgramRun {
    let seconds: Double
    let exitCode: Int32
    /// On all cores, user and system together.
    let cpuSeconds: Double
    /// Its own, or where this process had more when it was started, that: the kernel counts both as one.
    let residentByteCountMax: UInt64
    let isOwnMemory: Bool

    var memoryText: String {
        (isOwnMemory ? "" : "less than ") + mebibytes(residentByteCountMax)
    }

    init(_ program: String, _ arguments: [String]) throws {
        let startedAt = SenderClock.monotonicNanoseconds()
        let processID = try Self.spawn([program] + arguments)
        var status: Int32 = 0
        var usage = rusage()
        // SAFETY: the kernel writes one status and one rusage.
        while unsafe wait4(processID, &status, 0, &usage) == -1 {
            guard errno == EINTR else { throw BenchFailure("\(program): errno \(errno)") }
        }
        seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        // As WEXITSTATUS and WTERMSIG, macros that Swift does not import; a signal as a shell shows it.
        exitCode = status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
        cpuSeconds = Self.seconds(usage.ru_utime) + Self.seconds(usage.ru_stime)
        residentByteCountMax = UInt64(max(0, usage.ru_maxrss)) << 10
        // SAFETY: the kernel writes one rusage.
        unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        isOwnMemory = residentByteCountMax > UInt64(max(0, usage.ru_maxrss)) << 10
    }

    private static func seconds(_ time: timeval) -> Double {
        Double(time.tv_sec) + Double(time.tv_usec) / 1e6
    }

    private static func spawn(_ words: [String]) throws -> pid_t {
        var actions = unsafe posix_spawn_file_actions_t()
        var processID: pid_t = 0
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
            unsafe posix_spawn_file_actions_addopen(
                &actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
        let environment = ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" }
        let failure = unsafe withCStrings(words) { arguments in
            unsafe withCStrings(environment) { variables in
                // SAFETY: both end with nil, and live as long as the call.
                unsafe posix_spawn(
                    &processID, words[0], &actions, nil, arguments, variables)
            }
        }
        guard failure == 0 else {
            throw BenchFailure("\(words[0]) cannot be started: errno \(failure)")
        }
        return processID
    }

    private static func withCStrings<Result>(
        _ texts: [String],
        _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var pointers = unsafe texts.map { unsafe strdup($0) } + [nil]
        defer { for i in texts.indices { unsafe free(pointers[i]) } }
        // SAFETY: the array and the texts stay where they are inside the call.
        return unsafe pointers.withUnsafeMutableBufferPointer { unsafe body($0.baseAddress!) }
    }
}

/// Memory that the daemon may ask for, touched and given back before it starts: the host of a virtual machine may have taken
/// what is free, and provides it anew at 0.4 to 1.2 GB/s, where the kernel clears memory that it has at 9.
enum FreeMemory {
    /// Several times what it will ask for: the kernel gives away what it likes of it.
    private static let byteCountOfEvent: UInt64 = 1 << 10
    private static let byteCountMax: UInt64 = 8 << 30

    /// Half of what is available is left alone, and three quarters of a control group's limit.
    /// - Returns: how many bytes were touched; 0 where the kernel, before Linux 5.14, cannot.
    static func touch(eventCount: UInt64) -> UInt64 {
        let wanted = min(eventCount, byteCountMax / byteCountOfEvent) * byteCountOfEvent
        let available = (value("MemAvailable", in: textIfThere("/proc/meminfo")) ?? 0) * 1024
        let group = textIfThere("/sys/fs/cgroup/memory.max")
        let bound = UInt64(group.trimmingCharacters(in: .whitespacesAndNewlines)) ?? .max
        let count = Int(min(wanted, available / 2, bound / 4))
        // SAFETY: the pages are new, and nobody else has them.
        guard let pages = unsafe ingest_pages_map(count) else { return 0 }
        let isTouched = unsafe ingest_pages_populate(pages, 0, count)
        unsafe ingest_pages_unmap(pages, count)
        return isTouched ? UInt64(count) : 0
    }
}
