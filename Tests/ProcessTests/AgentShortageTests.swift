import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// An agent that gets more than it, its spool or its disk has room for.
    struct AgentShortageTests {
        /// One that listens, and its port.
        private static func listen(
            to address: String, in folder: TemporaryFolder
        ) throws -> (agent: Running, port: UInt16) {
            // Filling larger sockets takes a debug build long.
            let agent = try AgentProgram.start(
                to: address, ["--listen", "udp:127.0.0.1:0"], in: folder, hasSmallSockets: true)
            #expect(eventually { agent.errors.contains("listening on") || !agent.isRunning })
            let match = try #require(
                agent.errors.firstMatch(of: #/udp:127\.0\.0\.1:(\d+)/#), "\(agent.errors)")
            return (agent, try #require(UInt16(match.1)))
        }

        private static func residentKilobytesMax(_ agent: Running) throws -> Int {
            let status = try String(contentsOfFile: "/proc/\(agent.pid)/status", encoding: .utf8)
            let match = try #require(status.firstMatch(of: #/VmHWM:\s+(\d+)/#))
            return try #require(Int(match.1))
        }

        @Test
        func `a log that nobody reads keeps an agent neither from datagrams nor from its end`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let log = try FullPipe(in: folder)
            let path = "\(folder.path)/socket"
            let agent = try log.start(
                "ingest-send",
                [
                    "--to", daemon.address, "--spool", "\(folder.path)/spool", "--listen",
                    "unix:\(path)",
                ])
            #expect(eventually { FileManager.default.fileExists(atPath: path) || !agent.isRunning })
            log.fill()
            let unix = try UnixSocket(SOCK_DGRAM, to: path)
            for number in 0..<20 {
                unix.send(AgentProgram.line(number))
                if number % 5 == 0 { unix.send("not json") }
            }
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 20) })
            agent.send(SIGTERM)
            let ended = agent.end()
            #expect(ended.code == 0)
            #expect(try AgentProgram.summary(ended)["refused"] as? Int == 4)
        }

        @Test func `of a flood each datagram is counted or dropped, and memory stays small`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let (agent, port) = try Self.listen(to: daemon.address, in: folder)
            let udp = Datagrams(to: port)
            // While nobody receives, twice what the socket may hold (the kernel doubles what it is asked for).
            agent.send(SIGSTOP)
            let max = try String(contentsOfFile: "/proc/sys/net/core/rmem_max", encoding: .utf8)
            let limit = try #require(Int(max.filter(\.isNumber)))
            let count = 4 * min(limit, 64 << 20) / 60_000 + 100
            for number in 0..<count {
                udp.send(AgentProgram.line(number) + "\n" + String(repeating: " ", count: 60_000))
            }
            // It ends as soon as it goes on: what the socket holds is taken all the same.
            agent.send(SIGTERM)
            agent.send(SIGCONT)
            let ended = agent.end()
            #expect(ended.code == 0, "\(ended.errors)")
            let summary = try AgentProgram.summary(ended)
            let dropped = try #require(summary["dropped"] as? Int)
            #expect(dropped > 0 && dropped < count)
            #expect(ended.errors.contains("\(dropped) datagrams were dropped by the kernel"))
            let again = try AgentProgram.start(to: daemon.address, ["--spool-only"], in: folder)
                .end()
            #expect(again.code == 0, "\(again.errors)")
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: count - dropped) })
            #expect(daemon.stop().code == 0)
        }

        @Test func `at the bound of the spool reading waits, and nothing is lost or doubled`()
            throws
        {
            let folder = try TemporaryFolder()
            let away = LoopbackSocket()
            let address = "127.0.0.1:\(away.port)"
            let long = String(repeating: "r", count: 110)
            // 50 MB as packets.
            let lines = (0..<150_000).lazy.map {
                #"{"eventType":"click","rewardId":"\#(long)","businessId":"\#(long)","sessionId":"\#($0)","#
                    + #""timestamp":\#(1_700_000_000_000 + $0),"campaign":"\#(long.prefix(60))"}"#
            }
            let path = try folder.write("log", lines: lines)
            let options = ["--follow", path, "--spool-bytes-max", "33554432"]
            let agent = try AgentProgram.start(to: address, options, in: folder)
            #expect(eventually { agent.errors.contains("has reached --spool-bytes-max") })
            let spool = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/spool")
            let files = spool.filter { $0.hasSuffix(".spool") }
            let byteCounts = try files.map {
                let path = "\(folder.path)/spool/\($0)"
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                return (attributes[.size] as? NSNumber)?.intValue ?? 0
            }
            let byteCount = byteCounts.reduce(0, +)
            #expect(byteCount <= 33_554_432 && byteCount > 30_000_000)
            #expect(try Self.residentKilobytesMax(agent) < 100_000)
            agent.send(SIGKILL)
            _ = agent.end()
            away.close()
            let daemon = try DaemonProcess(in: folder, ["--udp", address])
            let again = try AgentProgram.start(to: address, options, in: folder)
            let reader = Reader(folder: folder)
            #expect(
                try eventually { try reader.totals()["clicks", default: 0] >= lines.count })
            again.send(SIGTERM)
            #expect(again.end().code == 0, "\(again.errors)")
            #expect(try reader.sees(impressions: 0, clicks: lines.count))
            #expect(daemon.stop().code == 0)
        }

        @Test func `a spool that cannot be written ends it, with what is lost in the summary`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let (agent, port) = try Self.listen(to: daemon.address, in: folder)
            let udp = Datagrams(to: port)
            udp.send(AgentProgram.line(0))
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 1) })
            let limit = ["prlimit", "--pid", "\(agent.pid)", "--fsize=4096:"]
            #expect(try run("/usr/bin/env", limit, in: folder).code == 0)
            // No file may grow from here on.
            for number in 1...200 { udp.send(AgentProgram.line(number)) }
            let ended = agent.end()
            #expect(ended.code == 74, "\(ended.errors)")
            #expect(ended.errors.contains("File too large"), "\(ended.errors)")
            let dropped = try #require(AgentProgram.summary(ended)["dropped"] as? Int)
            #expect(dropped > 0 && dropped <= 200)
            #expect(ended.errors.contains("\(dropped) events that were received are lost, or"))
            #expect(daemon.stop().code == 0)
        }

        @Test(.enabled(if: SmallDisk.canMount, "\(SmallDisk.reason)"))
        func `told to stop with a full disk it says how many events are lost, and counts them`()
            throws
        {
            let folder = try TemporaryFolder()
            let disk = try SmallDisk(at: folder.path + "/spool", in: folder, megabytes: 8)
            defer { disk.unmount() }
            let daemon = try DaemonProcess(in: folder)
            try disk.fill()
            let (agent, port) = try Self.listen(to: daemon.address, in: folder)
            let udp = Datagrams(to: port)
            for number in 0..<300 { udp.send(AgentProgram.line(number)) }
            #expect(eventually { agent.errors.contains("disk is full") }, "\(agent.errors)")
            agent.send(SIGTERM)
            let ended = agent.end()
            #expect(ended.code == 74, "\(ended.errors)")
            let last = try #require(ended.errorLines.last)
            #expect(last.contains("300 events that were received had no room"), "\(ended.errors)")
            #expect(last.contains("free space"))
            let summary = try AgentProgram.summary(ended)
            #expect(summary["dropped"] as? Int == 300 && summary["sent"] as? Int == 0)
            try disk.free()
            let (again, newPort) = try Self.listen(to: daemon.address, in: folder)
            Datagrams(to: newPort).send(AgentProgram.line(1))
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 1) })
            again.send(SIGTERM)
            #expect(again.end().code == 0, "\(again.errors)")
            #expect(daemon.stop().code == 0)
        }
    }
}
