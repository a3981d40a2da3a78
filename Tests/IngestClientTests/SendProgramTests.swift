import Foundation
import IngestKeys
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat

/// `ingest-send --acks` as a process, against a receiver that acks.
struct SendProgramTests {
    private struct Result {
        let code: Int32
        /// Its numbers.
        let summary: [String: Double]
        let fields: Set<String>
        let errors: String

        init(_ ended: Ended) {
            code = ended.code
            errors = ended.errors
            let output = Data(ended.output.utf8)
            let object = try? JSONSerialization.jsonObject(with: output) as? [String: Any]
            summary = (object ?? [:]).compactMapValues { $0 as? Double }
            fields = Set((object ?? [:]).keys)
        }
    }

    private static func run(_ arguments: [String], in folder: TemporaryFolder) throws -> Result {
        Result(try TestSupport.run("ingest-send", arguments, in: folder))
    }

    private static func check(_ receiver: ModelReceiver, lines: Range<Int>) throws {
        #expect(receiver.faults.isEmpty, "\(receiver.faults)")
        let numbers = try receiver.durableEvents().map {
            Int($0.timestampUs / 1_000 - 1_700_000_000_000)
        }
        #expect(numbers.sorted() == Array(lines))
    }

    @Test func `It ends with 0 when every event is acked, and says so in its summary`() throws {
        let folder = try TemporaryFolder()
        let peer = UDPPeer(lossPercent: 10)
        let lines = (0..<2_000).map { SampleEvents.line($0) } + ["", "{}", "no event"]
        let sent = try Self.run(
            ["--to", peer.address, "--acks", try folder.write("events", lines: lines)], in: folder)
        #expect(sent.code == 1)
        #expect(sent.summary["sent"] == 2_000)
        #expect(sent.summary["acked"] == 2_000)
        #expect(sent.summary["refused"] == 2)
        #expect(sent.summary["resent"] ?? 0 > 0)
        #expect(!sent.errors.contains("not confirmed"))
        try Self.check(peer.kill(), lines: 0..<2_000)
        let good = UDPPeer()
        let again = try Self.run(
            ["--to", good.address, "--acks", try folder.write("events", lines: lines[..<10])],
            in: folder)
        #expect(again.code == 0)
        #expect(
            again.fields == [
                "sent", "acked", "resent", "refused", "counted", "repeated", "not_counted",
                "reason", "seconds",
            ])
    }

    @Test func `Refused lines are named with their numbers wherever in many lines they stand`()
        throws
    {
        let folder = try TemporaryFolder()
        let peer = UDPPeer()
        var lines = (0..<2_000).map { SampleEvents.line($0) }
        // At the first and last of those that are sent under one lock, too, and behind blank ones.
        let refused = [1, 2, 255, 256, 257, 258, 512, 513, 1_000, 2_010]
        for number in refused.dropLast() { lines.insert("{}", at: number - 1) }
        for number in [300, 301, 514] { lines[number - 1] += "\n \t" }
        lines.append("{}")
        let named = refused.map { number in number + [300, 301, 514].count { $0 < number } }
        let sent = try Self.run(
            ["--to", peer.address, try folder.write("events", lines: lines)], in: folder)
        #expect(sent.code == 1)
        #expect(sent.summary["acked"] == 2_000)
        #expect(sent.summary["refused"] == Double(refused.count))
        let numbers = sent.errors.split(separator: "\n").compactMap { error in
            error.hasSuffix("refused") ? error.split(separator: " ").dropFirst(2).first : nil
        }
        #expect(numbers.map { Int($0.dropLast()) } == named)
        try Self.check(peer.kill(), lines: 0..<2_000)
    }

    @Test func `Ctrl-C prints the summary of what was sent, and ends with 130`() throws {
        let folder = try TemporaryFolder()
        // It takes everything and acks nothing.
        let peer = UDPPeer(lossPercent: 100)
        let file = try folder.write("events", lines: (0..<20).map { SampleEvents.line($0) })
        let running = try Running("ingest-send", ["--to", peer.address, file], in: folder)
        #expect(eventually { running.errors.contains("waiting for \(peer.address)") })
        running.send(SIGINT)
        let sent = Result(running.end())
        #expect(sent.code == 130)
        #expect(sent.summary["sent"] == 20 && sent.summary["acked"] == 0)
        #expect(sent.errors.contains("interrupted, 20 of 20 events sent are not acked"))
        _ = peer.kill()
    }

    @Test func `Killed again and again, it goes on with its spool, and no line is sent twice`()
        throws
    {
        let folder = try TemporaryFolder()
        // Without ids: nothing but the sequences keeps an event from being counted twice.
        let lines = (0..<4_000).map { number in
            "{\"eventType\":\"click\",\"rewardId\":\"r\",\"businessId\":\"b\",\"timestamp\":"
                + "\(1_700_000_000_000 + number)}"
        }
        let file = try folder.write("events", lines: lines)
        let peer = UDPPeer(lossPercent: 10)
        let arguments = [
            "--to", peer.address, "--spool", folder.path + "/spool", "--rate", "5000", file,
        ]
        var killCount = 0
        while true {
            let running = try Running("ingest-send", arguments, in: folder)
            let isOver = eventually(withinSeconds: 0.03 + 0.04 * Double(killCount)) {
                !running.isRunning
            }
            if !isOver { running.send(SIGKILL) }
            let ended = running.end()
            if ended.code != 128 + SIGKILL {
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(ended.output.contains("\"acked\":"))
                break
            }
            killCount += 1
            try #require(killCount < 200)
        }
        #expect(killCount > 3)
        try Self.check(peer.kill(), lines: 0..<4_000)
    }

    @Test func `A run that has ended is not sent again, what was added to its file is`() throws {
        let folder = try TemporaryFolder()
        let lines = (0..<100).map { SampleEvents.line($0) }
        let peer = UDPPeer()
        let arguments = ["--to", peer.address, "--spool", folder.path + "/spool"]
        func send(_ lines: [String]) throws -> Result {
            try Self.run(arguments + [folder.write("events", lines: lines)], in: folder)
        }
        #expect(try send(lines).summary["acked"] == 100)
        let again = try send(lines)
        #expect(again.code == 0)
        #expect(again.summary["sent"] == 0)
        let more = lines + (100..<150).map { SampleEvents.line($0) }
        #expect(try send(more).summary["sent"] == 50)
        // Another input is a new one.
        let other = (150..<200).map { SampleEvents.line($0) }
        #expect(try send(other).summary["sent"] == 50)
        try Self.check(peer.kill(), lines: 0..<200)
    }

    @Test(arguments: [false, true])
    func `A last line without newline is sent once, also when the file goes on`(isCut: Bool) throws
    {
        let folder = try TemporaryFolder()
        let peer = UDPPeer()
        let lines = (0..<5).map { SampleEvents.line($0) }
        func send(_ text: String) throws -> Result {
            let path = try folder.write("events", text)
            return try Self.run(
                ["--to", peer.address, "--spool", folder.path + "/spool", path], in: folder)
        }
        // A log that is being written: its last line is there, or a part of it.
        let front = lines[..<2].joined(separator: "\n") + "\n"
        let first = try send(front + (isCut ? String(lines[2].prefix(20)) : lines[2]))
        #expect(first.code == (isCut ? 1 : 0))
        #expect(first.summary["sent"] == (isCut ? 2 : 3))
        let second = try send(front + lines[2] + "\n" + lines[3])
        #expect(second.code == 0, "\(second.errors)")
        #expect(second.summary["sent"] == (isCut ? 2 : 1))
        // What was sent as a line has become another one: nothing is sent.
        let longer = try send(front + lines[2] + "\n" + lines[3] + lines[4] + "\n")
        #expect(longer.code == 66 && longer.errors.contains("line 4"), "\(longer.errors)")
        let last = try send(front + lines[2] + "\n" + lines[3] + "\r\n" + lines[4] + "\n")
        #expect(last.summary["sent"] == 1, "\(last.errors)")
        try Self.check(peer.kill(), lines: 0..<5)
    }

    @Test func `A sender that was refused ends though its pipe stays open`() throws {
        let peer = UDPPeer()
        peer.change { $0.shedStatus = .refused }
        let input = Pipe()
        let running = try Running(
            "ingest-send", ["--to", peer.address], in: TemporaryFolder(),
            input: input.fileHandleForReading)
        input.fileHandleForWriting.write(Data((SampleEvents.line(1) + "\n").utf8))
        let ended = running.end()
        #expect(ended.code == 69)
        #expect(ended.errors.contains("refuses sender"))
        input.fileHandleForWriting.closeFile()
    }

    @Test func `A spool goes on with its own input alone, or is sent without any`() throws {
        let folder = try TemporaryFolder()
        let lines = (0..<3_000).map { SampleEvents.line($0) }
        let file = try folder.write("events", lines: lines)
        let other = try folder.write("other", lines: lines.reversed())
        let silent = UDPPeer(lossPercent: 100)
        let spool = folder.path + "/spool"
        let running = try Running(
            "ingest-send", ["--to", silent.address, "--spool", spool, file], in: folder)
        // What has been sent is on disk, and nothing is acked.
        silent.waitForDatagrams(20)
        running.send(SIGKILL)
        _ = running.end()
        let peer = UDPPeer(receiver: silent.kill())
        let wrong = try Self.run(
            ["--to", peer.address, "--spool", spool, other], in: folder)
        #expect(wrong.code == 66)
        #expect(wrong.errors.contains("--spool-only"))
        let rest = try Self.run(
            ["--to", peer.address, "--spool", spool, "--spool-only"], in: folder)
        #expect(rest.code == 0, "\(rest.errors)")
        let part = peer.receiver
        #expect(part.faults.isEmpty)
        let count = try part.durableEvents().count
        #expect(count > 0)
        try Self.check(part, lines: 0..<count)
        // The file's place was kept: the rest of it is what is left to send.
        let whole = try Self.run(
            ["--to", peer.address, "--spool", spool, file], in: folder)
        #expect(whole.code == 0, "\(whole.errors)")
        #expect(whole.summary["sent"] == Double(3_000 - count))
        try Self.check(peer.kill(), lines: 0..<3_000)
    }

    @Test func `A pipe that was killed half-way goes on behind its first part after --spool-only`()
        throws
    {
        let folder = try TemporaryFolder()
        let lines = (0..<200).map { SampleEvents.line($0) + "\n" }
        let peer = UDPPeer()
        let arguments = ["--to", peer.address, "--spool", folder.path + "/spool"]
        let pipe = Pipe()
        let running = try Running(
            "ingest-send", arguments, in: folder, input: pipe.fileHandleForReading)
        pipe.fileHandleForWriting.write(Data(lines[..<100].joined().utf8))
        #expect(try eventually { try peer.receiver.durableEvents().count == 100 })
        running.send(SIGKILL)
        _ = running.end()
        for _ in 0..<2 {
            let rest = try Self.run(arguments + ["--spool-only"], in: folder)
            #expect(rest.code == 0, "\(rest.errors)")
        }
        /// Few enough that a pipe holds all of them.
        func send(_ lines: [String]) throws -> Result {
            let pipe = Pipe()
            pipe.fileHandleForWriting.write(Data(lines.joined().utf8))
            pipe.fileHandleForWriting.closeFile()
            return try Result(
                TestSupport.run(
                    "ingest-send", arguments, in: folder, input: pipe.fileHandleForReading))
        }
        let other = try send(lines.reversed())
        #expect(other.code == 66 && other.errors.contains("remove the spool"), "\(other.errors)")
        let whole = try send(lines)
        #expect(whole.code == 0, "\(whole.errors)")
        #expect(whole.summary["sent"] == 100)
        // It has ended with all of it.
        #expect(try send([SampleEvents.line(200)]).summary["sent"] == 1)
        try Self.check(peer.kill(), lines: 0..<201)
    }

    @Test func `A key tags every packet, and a wrong one is found by silence`() throws {
        let folder = try TemporaryFolder()
        let keys = try folder.write(
            "keys",
            lines: [
                "3 000102030405060708090a0b0c0d0e0f sender=9", "4 ffff02030405060708090a0b0c0d0e0f",
            ])
        let file = try folder.write("events", lines: (0..<100).map { SampleEvents.line($0) })
        var receiver = ModelReceiver()
        receiver.key = TagKey([UInt8](0..<16))
        let peer = UDPPeer(receiver: receiver)
        func send(_ id: Int) throws -> Result {
            try Self.run(
                [
                    "--to", peer.address, "--acks", "--key-file", keys, "--key-id", "\(id)",
                    "--give-up-seconds", "1", file,
                ], in: folder)
        }
        chmod(keys, 0o644)
        #expect(try send(3).code == 78)
        chmod(keys, 0o600)
        #expect(try send(5).code == 78)
        let silent = try send(4)
        #expect(silent.code == 69)
        #expect(silent.errors.contains("no answer from"))
        #expect(try send(3).code == 0)
        try Self.check(peer.kill(), lines: 0..<100)
    }

    @Test(arguments: [
        ["--plain", "--acks"], ["--plain", "--spool", "/x"], ["--no-acks", "--spool", "/x"],
        ["--spool-only"], ["--key-id", "3"], ["--key-file", "/x"],
        ["--key-id", "0", "--key-file", "/x"], ["--give-up-seconds", "0"],
        ["--packet-bytes", "1199"],
    ])
    func `Options that do not go together end with 64 and one line`(arguments: [String]) throws {
        let ended = try Self.run(["--to", "127.0.0.1:9"] + arguments, in: TemporaryFolder())
        #expect(ended.code == 64)
        #expect(ended.errors.split(separator: "\n").count == 1, "\(ended.errors)")
    }
}
