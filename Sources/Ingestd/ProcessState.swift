import Glibc

/// What the process needs of its surroundings before anything is opened.
enum ProcessState {
    /// Makes a closed pipe show as EPIPE of a write, instead of ending a daemon whose log reader went
    /// away; holds the signals back that are asked for later; opens what of the standard descriptors is closed.
    static func prepare() {
        _ = signal(SIGPIPE, SIG_IGN)
        StopSignals.holdBack()
        openStandardDescriptors()
    }

    /// A descriptor 0, 1 or 2 that the parent closed would be given to the first file that is opened, and
    /// the ready line or a log line would then be written into a segment.
    private static func openStandardDescriptors() {
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest free number is given, which is `descriptor`.
            // SAFETY: the path is a constant C string.
            _ = unsafe open("/dev/null", O_RDWR)
        }
    }
}
