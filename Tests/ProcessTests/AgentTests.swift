import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-send --follow` and `--listen`.
    struct AgentTests {
        private static func stop(_ agent: Running) throws -> (code: Int32, summary: [String: Any]) {
            agent.send(SIGTERM)
            let ended = agent.end()
            #expect(ended.code == 0, "\(ended.errors)")
            return (ended.code, try AgentProgram.summary(ended))
        }

        /// A program that logs, and whose log is rotated by renaming.
        private struct Log {
            let path: String
            private(set) var count = 0
            private var rotationCount = 0
            private var handle: UnsafeMutablePointer<FILE>

            init(_ path: String) {
                self.path = path
                handle = fopen(path, "a")
            }

            private func write(_ text: String) {
                fputs(text, handle)
                fflush(handle)
            }

            mutating func write(_ lineCount: Int) {
                for _ in 0..<lineCount {
                    let line = AgentProgram.line(count)
                    // Whoever reads between sees half a line.
                    write(String(line.prefix(20)))
                    write(line.dropFirst(20) + "\n")
                    count += 1
                }
            }

            /// Goes on writing to the renamed file before it opens the name again.
            mutating func rotate() {
                rotationCount += 1
                rename(path, "\(path).\(rotationCount)")
                write(20)
                fclose(handle)
                handle = fopen(path, "a")
            }

            func close() { fclose(handle) }
        }

        @Test(arguments: [1, 2] as [UInt64])
        func `a followed file counts once through rotation, kill -9 of agent and daemon`(
            seed: UInt64
        ) throws {
            var random = SeededRandom(seed: seed)
            let folder = try TemporaryFolder()
            var network = try FaultyNetwork(
                in: folder, seed: seed, ImpairingProxy.Chances(lossPercent: 5))
            var log = Log(folder.path + "/access.log")
            defer { log.close() }
            let arguments = ["--follow", log.path]
            var agent = try AgentProgram.start(to: network.address, arguments, in: folder)
            let reader = network.reader
            // Before it has a place in its spool it follows no file through rotation.
            log.write(1)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 1) })
            for round in 0..<8 {
                log.write(200)
                if round % 2 == 1 { log.rotate() }
                log.write(50)
                usleep(useconds_t.random(in: 0...400_000, using: &random))
                agent.send(SIGKILL)
                _ = agent.end()
                log.write(30)
                // Twice while nobody looks.
                if round == 3 { log.rotate() }
                agent = try AgentProgram.start(to: network.address, arguments, in: folder)
                if round == 2 || round == 5 {
                    try network.killDaemon(whenVisible: 100) { !agent.isRunning }
                }
            }
            let isComplete = try eventually {
                try reader.totals()["clicks", default: 0] >= log.count || !agent.isRunning
            }
            #expect(isComplete && agent.isRunning, "\(agent.errors)")
            #expect(try Self.stop(agent).summary["refused"] as? Int == 0)
            #expect(try reader.sees(impressions: 0, clicks: log.count), "\(log.count) lines")
            try network.check()
        }

        @Test func `files that are renamed faster than anybody looks are all read`() throws {
            let folder = try TemporaryFolder()
            let network = try FaultyNetwork(
                in: folder, seed: 3, ImpairingProxy.Chances(lossPercent: 0))
            var log = Log(folder.path + "/access.log")
            defer { log.close() }
            log.write(10)
            let agent = try AgentProgram.start(
                to: network.address, ["--follow", log.path], in: folder)
            let reader = network.reader
            #expect(try eventually { try reader.totals()["clicks", default: 0] == 10 })
            for _ in 0..<4 {
                log.rotate()
                log.write(10)
            }
            let isComplete = try eventually {
                try reader.totals()["clicks", default: 0] >= log.count || !agent.isRunning
            }
            #expect(isComplete && agent.isRunning, "\(agent.errors)")
            _ = try Self.stop(agent)
            #expect(try reader.sees(impressions: 0, clicks: log.count), "\(log.count) lines")
            try network.check()
        }

        @Test func `a file that is truncated while it is followed is warned about, and goes on`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            let path = try folder.write("log", lines: (0..<50).lazy.map(AgentProgram.line))
            let agent = try AgentProgram.start(to: daemon.address, ["--follow", path], in: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 50) })
            // Longer than before: only what stood before the place tells.
            _ = try folder.write("log", lines: (50..<250).lazy.map(AgentProgram.line))
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 250) })
            #expect(agent.errors.contains("was truncated"), "\(agent.errors)")
            truncate(path, 0)
            #expect(eventually { agent.errors.components(separatedBy: "was truncated").count == 3 })
            #expect(try Self.stop(agent).summary["acked"] as? Int == 250)
            // The place is known also of a spool that is empty.
            _ = try folder.write("log", lines: (250..<260).lazy.map(AgentProgram.line))
            let again = try AgentProgram.start(to: daemon.address, ["--follow", path], in: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 260) })
            #expect(again.errors.contains("is gone or was truncated"), "\(again.errors)")
            #expect(try Self.stop(again).summary["acked"] as? Int == 10)
            #expect(daemon.stop().code == 0)
        }

        /// It waits behind a renamed file that is still written to.
        @Test func `a file that is truncated before its turn is warned about, with what is lost`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            var log = Log(folder.path + "/log")
            log.write(10)
            let agent = try AgentProgram.start(
                to: daemon.address, ["--follow", log.path], in: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 10) })
            rename(log.path, log.path + ".1")
            let lines = (100..<150).map(AgentProgram.line)
            try folder.write("log", lines: lines)
            let open = "/proc/\(agent.pid)/fd"
            #expect(
                eventually {
                    log.write(1)
                    usleep(50_000)
                    let files = (try? FileManager.default.contentsOfDirectory(atPath: open)) ?? []
                    return files.contains {
                        let file = try? FileManager.default.destinationOfSymbolicLink(
                            atPath: "\(open)/\($0)")
                        return file == log.path
                    }
                })
            // What is read now was written, and so looked for, after the other one was opened.
            let count = log.count
            log.write(1)
            #expect(try eventually { try reader.totals()["clicks", default: 0] > count })
            truncate(log.path, 0)
            #expect(eventually { agent.errors.contains("was truncated") })
            log.close()
            let appended = fopen(log.path, "a")
            fputs(AgentProgram.line(150) + "\n", appended)
            fclose(appended)
            // Nothing of it was read, unless this test was held up for long.
            let place = try #require(
                agent.errors.firstMatch(
                    of: #/behind its byte (\d+) before the truncation, at least (\d+) bytes/#))
            let (read, lost) = (try #require(Int(place.1)), try #require(Int(place.2)))
            #expect(read + lost == lines.reduce(0) { $0 + $1.utf8.count + 1 })
            let readCount = read == 0 ? 0 : 50
            let expected = log.count + readCount + 1
            #expect(try eventually { try reader.sees(impressions: 0, clicks: expected) })
            _ = try Self.stop(agent)
            #expect(try reader.sees(impressions: 0, clicks: expected))
            #expect(daemon.stop().code == 0)
        }

        @Test func `what is no file is not followed, and one that is not there yet is waited for`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let fifo = folder.path + "/fifo"
            mkfifo(fifo, 0o600)
            for path in [folder.path, fifo] {
                let ended = try AgentProgram.start(
                    to: daemon.address, ["--follow", path], in: folder
                ).end()
                #expect(ended.code == 66 && ended.errors.contains("is no regular file"), "\(path)")
            }
            let path = folder.path + "/log"
            let agent = try AgentProgram.start(to: daemon.address, ["--follow", path], in: folder)
            #expect(eventually { agent.errors.contains("is not there yet") })
            let odd = [
                "\u{1B}[31m{", String(repeating: "x", count: 1_100_000), AgentProgram.line(1),
            ]
            _ = try folder.write("log", lines: odd)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 1) })
            unlink(path)
            #expect(try Self.stop(agent).summary["refused"] as? Int == 2)
            #expect(!agent.errors.contains("\u{1B}") && agent.errors.contains("line 2: "))
            #expect(daemon.stop().code == 0)
        }

        /// Starts one that listens on both kinds of sockets, and where.
        private static func listen(
            to address: String, in folder: TemporaryFolder
        ) throws -> (agent: Running, port: UInt16, path: String) {
            let path = folder.path + "/s"
            let agent = try AgentProgram.start(
                to: address, ["--listen", "udp:127.0.0.1:0", "--listen", "unix:\(path)"],
                in: folder)
            #expect(eventually { agent.errors.contains("on unix:") || !agent.isRunning })
            let match = try #require(
                agent.errors.firstMatch(of: #/udp:127\.0\.0\.1:(\d+)/#), "\(agent.errors)")
            return (agent, try #require(UInt16(match.1)), path)
        }

        @Test func `datagrams of one or more lines count, behind a syslog prefix too`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let (agent, port, path) = try Self.listen(to: daemon.address, in: folder)
            let udp = Datagrams(to: port)
            let unix = try UnixSocket(SOCK_DGRAM, to: path)
            let prefix = "<190>Nov 25 10:00:00 host nginx: "
            for number in 0..<40 {
                udp.send(AgentProgram.line(number))
                unix.send(
                    AgentProgram.line(100 + number) + "\n" + AgentProgram.line(200 + number) + "\n")
                unix.send(prefix + AgentProgram.line(300 + number))
            }
            unix.send("\u{1B}[31m\n\(AgentProgram.line(400))\n<190>none\n\n")
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 161) })
            let (_, summary) = try Self.stop(agent)
            #expect(summary["refused"] as? Int == 2 && summary["dropped"] as? Int == 0)
            #expect(!agent.errors.contains("\u{1B}") && agent.errors.contains(", refused"))
            #expect(!FileManager.default.fileExists(atPath: path))
            #expect(daemon.stop().code == 0)
        }

        @Test func `SIGTERM drains to the spool without a receiver, and the next start sends it`()
            throws
        {
            let folder = try TemporaryFolder()
            let away = LoopbackSocket()
            let address = "127.0.0.1:\(away.port)"
            let (agent, _, path) = try Self.listen(to: address, in: folder)
            let unix = try UnixSocket(SOCK_DGRAM, to: path)
            for number in 0..<500 { unix.send(AgentProgram.line(number)) }
            #expect(try Self.stop(agent).summary["acked"] as? Int == 0)
            #expect(agent.errors.contains("packets stay in the spool"), "\(agent.errors)")
            away.close()
            let daemon = try DaemonProcess(in: folder, ["--udp", address])
            let again = try Self.listen(to: address, in: folder).agent
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 500) })
            #expect(try Self.stop(again).summary["refused"] as? Int == 0)
            #expect(daemon.stop().code == 0)
        }

        @Test func `a socket file that was left is replaced, one in use and any other file is not`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let (agent, _, path) = try Self.listen(to: daemon.address, in: folder)
            let other = ["--to", daemon.address, "--spool", folder.path + "/other", "--listen"]
            let file = try folder.write("file", "text")
            for taken in [path, file] {
                let ended = try run("ingest-send", other + ["unix:\(taken)"], in: folder)
                #expect(ended.code == 69, "\(ended.errors)")
                #expect(FileManager.default.fileExists(atPath: taken))
            }
            agent.send(SIGKILL)
            _ = agent.end()
            let again = try Self.listen(to: daemon.address, in: folder).agent
            try UnixSocket(SOCK_DGRAM, to: path).send(AgentProgram.line(1))
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 1) })
            _ = try Self.stop(again)
            #expect(daemon.stop().code == 0)
        }

        @Test func `a receiver that was replaced ends no agent: it spools on, and says so`() throws
        {
            let folder = try TemporaryFolder()
            let path = try folder.write("log", lines: (0..<50).lazy.map(AgentProgram.line))
            let network = try FaultyNetwork(in: folder, seed: 3)
            let agent = try AgentProgram.start(to: network.address, ["--follow", path], in: folder)
            #expect(try eventually { try network.reader.sees(impressions: 0, clicks: 50) })
            // Another receiver is told by what the agent has heard: of several answers one was not damaged.
            let answeredCount = network.proxy.answeredCount
            #expect(eventually { network.proxy.answeredCount > answeredCount + 5 })
            let elsewhere = try TemporaryFolder()
            let other = try DaemonProcess(in: elsewhere)
            network.proxy.retarget(other.port)
            #expect(eventually { agent.errors.contains("kept in the spool") })
            let log = fopen(path, "a")
            for number in 50..<60 { fputs(AgentProgram.line(number) + "\n", log) }
            fclose(log)
            let spool = folder.path + "/spool"
            #expect(
                try eventually {
                    try run("ingest-send", ["spool", "export", spool], in: folder).output
                        .contains("\(1_700_000_000_059)")
                })
            #expect(agent.isRunning)
            _ = try Self.stop(agent)
            #expect(agent.errors.contains("packets stay in the spool"))
            #expect(other.stop().code == 0)
            try network.check()
        }

        @Test func `the unit for systemd starts an agent that listens`() throws {
            let folder = try TemporaryFolder()
            let unit = Repository.root.appendingPathComponent(
                "examples/systemd/ingest-send.service")
            let text = try String(contentsOf: unit, encoding: .utf8)
            let start = try #require(text.firstMatch(of: #/ExecStart=\S+/ingest-send (.*)/#)).1
                .replacing("/var/lib/ingest-send", with: folder.path)
                .replacing("/run/ingest-send", with: folder.path)
                .replacing("127.0.0.1:4820", with: "127.0.0.1:0")
            let agent = try Running(
                "ingest-send", start.split(separator: " ").map(String.init), in: folder)
            #expect(eventually { agent.errors.contains("on unix:") || !agent.isRunning })
            _ = try Self.stop(agent)
            guard let program = Programs.found("systemd-analyze") else { return }
            let copy = try folder.write(
                "ingest-send.service",
                text.replacing("/usr/local/bin/ingest-send", with: "/bin/true"))
            let ended = try run(program, ["verify", copy], in: folder)
            #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
        }

        @Test(arguments: [
            ["--follow", "x"], ["--listen", "udp:127.0.0.1:0"],
            ["--spool", "s", "--follow"], ["--spool", "s", "--listen", "tcp:1"],
            ["--spool", "s", "--listen", "unix:a", "--follow", "x"],
            ["--spool", "s", "--listen", "unix:a", "x"],
        ])
        func `usage of agents is checked`(arguments: [String]) throws {
            let folder = try TemporaryFolder()
            let ended = try run("ingest-send", ["--to", "127.0.0.1:9"] + arguments, in: folder)
            #expect(ended.code == 64 && ended.errorLines.count == 1, "\(ended.errors)")
        }
    }
}
