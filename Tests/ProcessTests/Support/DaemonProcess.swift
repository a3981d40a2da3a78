import Foundation
import Glibc
import IngestReader
import IngestVerify
import TestSupport
import Testing

/// A real `ingestd` on a directory of the test, from its ready line to its end. However it ends, what it leaves is
/// held against the laws.
final class DaemonProcess {
    let folder: TemporaryFolder
    private let running: Running
    /// Where it receives, from the ready line.
    let address: String

    struct NotReady: Error, CustomStringConvertible {
        let ended: Ended
        var description: String { "not ready, exit \(ended.code): \(ended.errors)" }
    }

    private struct ReadyLine: Decodable {
        let ready: Bool
        let udp: String
        let http: String?
        let pid: Int32
    }

    /// Starts a daemon that takes events of any age on a free port, and waits until it is ready.
    /// - Parameter command: a program with its first arguments that becomes the daemon in the end.
    init(
        in folder: TemporaryFolder, _ options: [String] = [], under command: [String] = []
    ) throws {
        self.folder = folder
        let arguments =
            ["--data", folder.data, "--udp", "127.0.0.1:0", "--http", "off"]
            + ["--max-event-age-seconds", "0"] + options
        let all = command + [Programs.path("ingestd")] + arguments
        let running = try Running(all[0], Array(all.dropFirst()), in: folder)
        self.running = running
        _ = eventually { running.output.contains("\n") || !running.isRunning }
        guard let line = running.output.split(separator: "\n").first,
            let ready = try? JSONDecoder().decode(ReadyLine.self, from: Data(line.utf8)),
            ready.ready, ready.pid == running.pid
        else { throw NotReady(ended: running.end(withinSeconds: 0)) }
        address = ready.udp
    }

    deinit {
        if running.isRunning { kill() }
    }

    var port: UInt16 { UInt16(address.split(separator: ":").last ?? "") ?? 0 }
    var log: String { running.errors }
    var output: String { running.output }
    var isRunning: Bool { running.isRunning }

    /// SIGTERM, and what became of it.
    @discardableResult
    func stop() -> Ended {
        running.send(SIGTERM)
        return end()
    }

    /// `kill -9`.
    func kill() {
        running.send(SIGKILL)
        _ = end()
    }

    var pid: Int32 { running.pid }

    func signal(_ number: Int32) { running.send(number) }

    func end() -> Ended {
        let ended = running.end()
        expectLawsKept()
        return ended
    }

    /// The laws of packets and of events, and all else that `verify` holds against the rows.
    private func expectLawsKept() {
        do {
            let report = try Verifier(directory: folder.data).run()
            let differences = report.findings.filter { $0.kind == .difference }
            #expect(differences.isEmpty, "\(differences)")
        } catch {
            Issue.record("verify after the daemon's end: \(error)")
        }
    }
}
