import Foundation
import IngestKeys
import TestSupport
import Testing

@testable import IngestClient

/// The Python reference sender, which shares nothing with the project but its pages and its schema.
struct PythonSenderTests {
    /// Made by `scripts/python-env`.
    private static let python = Repository.root.appending(path: ".build/python/bin/python").path

    private static var hasPython: Bool { FileManager.default.isExecutableFile(atPath: python) }

    private static func run(_ arguments: [String]) throws -> (code: Int32, output: String) {
        let ended = try TestSupport.run(
            python, arguments, in: TemporaryFolder(), directory: Repository.root,
            environment: ["PYTHONDONTWRITEBYTECODE": "1"])
        return (ended.code, ended.output + ended.errors)
    }

    @Test(.enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"))
    func `It makes the captured packets, and reads the captured ack`() throws {
        let checked = try Self.run(["Tests/Fixtures/captures.py"])
        #expect(checked.code == 0, "\(checked.output)")
    }

    @Test(
        .enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"),
        arguments: [[], ["--key-id", "3", "--key", "000102030405060708090a0b0c0d0e0f"]])
    func `It sends every event until it is acked, through loss and tags`(key: [String]) throws {
        var receiver = ModelReceiver()
        if !key.isEmpty { receiver.key = TagKey([UInt8](0..<16)) }
        let peer = UDPPeer(receiver: receiver, lossPercent: 20)
        let sent = try Self.run(
            [
                "examples/python/ingest_sender.py", "--to", peer.address, "--impressions", "150",
                "--clicks", "40", "--redemptions", "10",
            ] + key)
        #expect(sent.code == 0, "\(sent.output)")
        let after = peer.kill()
        #expect(after.faults.isEmpty, "\(after.faults)")
        let events = try after.durableEvents()
        #expect(events.filter { $0.type == .impression }.count == 150)
        #expect(events.filter { $0.type == .click }.count == 40)
        #expect(events.filter { $0.type == .redemption }.count == 10)
        #expect(Set(events.map(\.eventID)).count == 200)
    }

    @Test(.enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"))
    func `No answer of the network ends it, it waits when full, and believes no old refusal`()
        throws
    {
        let program = """
            import errno, sys
            sys.path.insert(0, "examples/python")
            import ingest_sender as m

            class Net:
                def __init__(self, inner):
                    self.inner, self.count = inner, 0
                def fileno(self):
                    return self.inner.fileno()
                def send(self, packet, flags):
                    self.count += 1
                    raise OSError(errno.ENETUNREACH, "no route")
                def recv(self, count, flags):
                    raise OSError(errno.EMSGSIZE, "a router takes less")

            sender = m.Sender(("127.0.0.1", 9), sender_id=7)
            sender.socket = net = Net(sender.socket)
            batch = m.load_schema().EventBatch()
            for _ in range(3):
                m.add_event(batch, 1, "r", "b")
                sender.send(batch)
            assert net.count >= 3, net.count
            # Full: the fourth waits until an ack has made room.
            m.UNACKED_MAX = 3
            steps = []
            def step(wait):
                steps.append(wait)
                if len(steps) == 2:
                    del sender.unacked[0]
            sender.step = step
            sender.send(batch)
            assert len(steps) == 3 and len(sender.unacked) == 3, (steps, sender.unacked)
            def ack(floor, status, epoch, words=(0,)):
                rest = 0, 1, 0, 5
                sender.parse = lambda packet: (epoch, floor, 100, status, list(words), rest)
                sender.receive(b"")

            def refuses(*arguments):
                try:
                    ack(*arguments)
                except m.Refused:
                    return True
                return False
            sender.asked = [(5, 0, 0)]
            assert not refuses(0, m.REFUSED, sender.epoch - 1)
            assert refuses(0, m.REFUSED, sender.epoch)
            assert refuses(0, m.OK, sender.epoch, (1 << 4,))
            assert refuses(5, m.OK, sender.epoch)
            assert refuses(0, m.OK, sender.epoch, (1 << 3,)), "3 was made, and not sent"
            m.Sender.step(sender, 0)
            assert not refuses(0, m.OK, sender.epoch, (1 << 3,))
            """
        let checked = try Self.run(["-c", program])
        #expect(checked.code == 0, "\(checked.output)")
    }

    @Test(.enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"))
    func `It hurries its heartbeats once, and hears of lost data by the answers to them`() throws {
        let program = """
            import sys
            sys.path.insert(0, "examples/python")
            import ingest_sender as m

            sender = m.Sender(("127.0.0.1", 9), sender_id=7)

            def ack(floor, status, pending=0, directory=1, commit=5, nonce=None):
                sender.parse = lambda packet: (
                    sender.epoch, floor, 100, status, [0], (pending, directory, commit, nonce))
                sender.receive(b"")

            # Nothing is believed before the first answer.
            ack(9, m.OK)
            assert sender.floor == 0 and sender.directory is None and sender.heartbeat_at < 1e18
            sender.directory = 1
            # The first busy ack hurries the heartbeats, those after it do not begin anew.
            sender.heartbeat_wait, sender.heartbeat_at = 1, 1e18
            ack(0, m.BUSY)
            assert sender.sheds and sender.heartbeat_wait == 0.1 and sender.heartbeat_at < 1e18
            sender.heartbeat_wait, sender.heartbeat_at = 0.8, 1e18
            ack(0, m.BUSY)
            assert sender.heartbeat_wait == 0.8 and sender.heartbeat_at == 1e18
            # Beyond the window: the base is asked for.
            ack(0, m.BEYOND_WINDOW)
            assert sender.sheds and sender.heartbeat_at < 1e18
            sender.sent, sender.next, sender.asked = 9, 9, [(77, 0, 0)]
            ack(5, m.OK, nonce=77)
            assert sender.floor == 5 and sender.directory == 1 and sender.commit == 5
            # What says nothing of packets, and what may be old.
            for arguments in ((9, m.OK, 4), (9, m.OK, 0, 2), (9, m.OK, 0, 1, 4), (0, m.ROLLED_BACK, 0, 2),
                              (0, m.REFUSED), (0, m.UNSUPPORTED)):
                sender.heartbeat_at = 1e18
                ack(*arguments)
                assert sender.floor == 5, arguments
                assert (sender.heartbeat_at < 1e18) == (arguments[1] != m.OK or arguments[3:] == (2,)), arguments
            sender.asked = [(78, 5, 5)]
            for arguments in ((0, m.ROLLED_BACK, 0, 1, 5), (5, m.OK, 0, 2, 5), (5, m.OK, 0, 1, 4), (4, m.OK, 0, 1, 5)):
                try:
                    ack(*arguments, 78)
                    assert False, arguments
                except m.Refused as error:
                    assert "acked" in str(error)
            ack(4, m.OK, 4, 1, 5, 78)
            """
        let checked = try Self.run(["-c", program])
        #expect(checked.code == 0, "\(checked.output)")
    }

    @Test(.enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"))
    func `A copy of it runs anywhere`() throws {
        let folder = try TemporaryFolder()
        let copy = folder.path + "/copy.py"
        try FileManager.default.copyItem(
            atPath: Repository.root.appending(path: "examples/python/ingest_sender.py").path,
            toPath: copy)
        let peer = UDPPeer()
        let sent = try Self.run([copy, "--to", peer.address, "--proto", "proto"])
        #expect(sent.code == 0, "\(sent.output)")
        #expect(try peer.kill().durableEvents().count == 11)
    }
}
