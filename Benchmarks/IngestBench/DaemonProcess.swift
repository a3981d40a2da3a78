import Foundation
import IngestClient

/// One `ingestd` process on a directory, as an operator would start it: from its executable, watched from
/// outside. Killed when it goes out of use without having been stopped.
final class DaemonProcess {
    struct Options {
        var executable: String
        var directory: String
        /// Further options of `ingestd`, as on its command line.
        var arguments: [String] = []
    }

    let processID: Int32
    /// HOST:PORT as bound.
    let address: String
    /// From the start of the process to its ready line.
    let readySeconds: Double
    /// Where its log lines went; shown when something fails.
    let logPath: String
    private let process: Process

    /// Starts the daemon and waits for its ready line.
    init(_ options: Options) throws {
        process = Process()
        process.executableURL = URL(fileURLWithPath: options.executable)
        process.arguments =
            ["--data", options.directory, "--udp", "127.0.0.1:0", "--http", "off"]
            + options.arguments
        logPath = options.directory + ".log"
        guard FileManager.default.createFile(atPath: logPath, contents: nil) else {
            throw BenchFailure("\(logPath) cannot be made")
        }
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: logPath))
        _ = try log.seekToEnd()
        process.standardError = log
        let output = Pipe()
        process.standardOutput = output
        let startedAt = SenderClock.monotonicNanoseconds()
        try process.run()
        processID = process.processIdentifier
        let line = Self.firstLine(of: output.fileHandleForReading)
        readySeconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        guard let ready = try? JSONDecoder().decode(Ready.self, from: line), ready.ready else {
            process.terminate()
            throw BenchFailure(
                "\(options.executable) did not get ready: \(Self.tail(of: logPath))")
        }
        address = ready.udp
    }

    deinit { if process.isRunning { kill(processID, SIGKILL) } }

    private struct Ready: Decodable {
        let ready: Bool
        let udp: String
    }

    var isRunning: Bool { process.isRunning }

    /// SIGTERM, and the seconds until it was gone.
    func stop() throws -> Double {
        let startedAt = SenderClock.monotonicNanoseconds()
        process.terminate()
        process.waitUntilExit()
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            throw BenchFailure(
                "ingestd stopped with status \(process.terminationStatus): "
                    + Self.tail(of: logPath))
        }
        return Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
    }

    /// SIGKILL, as a crash of the process; returns when it is gone.
    func crash() {
        kill(processID, SIGKILL)
        process.waitUntilExit()
    }

    /// Everything up to the first newline; what there is if the process ends before.
    private static func firstLine(of pipe: FileHandle) -> Data {
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let more = pipe.availableData
            if more.isEmpty { break }
            line.append(more)
        }
        return line
    }

    /// What the daemon's log says of its receive buffer: asked for and effective.
    var receiveBuffer: String {
        let log = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        let mark = "receive buffer "
        let line = log.split(separator: "\n").first { $0.contains(mark) }
        guard let line, let start = line.range(of: mark)?.upperBound else {
            return "not in the daemon's log"
        }
        return String(line[start...])
    }

    /// The numbers of one of the daemon's last lines, which is `title: name number, name number …`.
    func lastNumbers(of title: String) -> [(name: String, value: UInt64)] {
        let log = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        let mark = "\(title): "
        guard let line = log.split(separator: "\n").last(where: { $0.contains(mark) }),
            let start = line.range(of: mark)?.upperBound
        else { return [] }
        return line[start...].components(separatedBy: ", ").compactMap { part in
            guard let blank = part.lastIndex(of: " "),
                let value = UInt64(part[part.index(after: blank)...])
            else { return nil }
            return (String(part[..<blank]), value)
        }
    }

    private static func tail(of path: String) -> String {
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(3).joined(separator: " / ")
    }
}
