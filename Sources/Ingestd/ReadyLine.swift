import Glibc

/// The one line that the daemon prints on standard output: scripts wait for it, and read the port from it.
struct ReadyLine {
    /// As bound: with the port that the kernel chose where 0 was asked for.
    let udp: String
    /// `nil` while there is no server.
    let http: String?
    let processID: Int32

    var text: String {
        let http = http.map { "\"\($0)\"" } ?? "null"
        return "{\"ready\":true,\"udp\":\"\(udp)\",\"http\":\(http),\"pid\":\(processID)}"
    }

    /// Prints the line and hands it on at once, also into a pipe.
    func print() {
        Swift.print(text)
        fflush(nil)
    }
}
