import Foundation
import IngestClient

/// One run of a program from start to exit, as a shell would see it; its output is dropped.
///
/// By posix_spawn and wait4: Foundation's `Process` sees an end up to 50 ms late.
struct ProgramRun {
    let seconds: Double
    let exitCode: Int32
    /// On all cores, user and system together.
    let cpuSeconds: Double
    let residentByteCountMax: UInt64

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
