import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestKeys

struct HostPortTests {
    @Test(arguments: [
        ("127.0.0.1:4810", "127.0.0.1", 4810), ("localhost:1", "localhost", 1),
        ("[::1]:65535", "::1", 65_535), ("[fe80::1%lo]:53", "fe80::1%lo", 53),
    ])
    func `An address is a host and a port`(text: String, host: String, port: UInt16) throws {
        let address = try #require(HostPort(text))
        #expect(address.host == host)
        #expect(address.port == port)
    }

    @Test(arguments: [
        "", ":", "localhost", "localhost:", ":4810", "localhost:0", "localhost:65536",
        "localhost:+1", "localhost:-1", "localhost: 1", "localhost:1 ", "::1:4810", "[::1]4810",
        "[::1:4810", "::1]:4810", "[]:4810", "[localhost]:4810", "a[::1]:4810", "host:٣",
    ])
    func `What is no address is refused with the text that was given`(text: String) {
        #expect(throws: ClientError.badAddress(text)) { try UDPTransport(address: text) }
    }

    @Test func `Each error says what and where in one line and has its exit code`() {
        let table: [(ClientError, Int32)] = [
            (.badAddress("a\nb"), 64), (.unresolved(address: "a:1", reason: "none"), 69),
            (.notListening(address: "a:1"), 69),
            (.socket(call: "send", address: "a:1", errno: 101), 69),
            (.socket(call: "send", address: "a:1", errno: 12), 74),
            (.badOption(name: "a", got: "-5", allowed: "1 to 2"), 64),
            (.refused(sender: 1, epoch: 2, cause: .newerEpoch(3)), 69),
            (.refused(sender: 1, epoch: 2, cause: .clock), 69),
            (.refused(sender: 1, epoch: 2, cause: .reused), 69),
            (.unknownPackets(sender: 1, sequence: 5, next: 5), 69),
            (.ackedDataLost(sender: 1, floor: 4, base: 10), 71),
            (.noAnswer(address: "a:1", seconds: 60), 69),
            (.noProgress(address: "a:1", sequence: 7, byteCount: 1_452), 69),
            (.otherSender(path: "/s", asked: 1, found: 2), 78),
            (.spool(path: "/s", .inUse(pid: 5)), 69), (.spool(path: "/s", .inUse(pid: nil)), 69),
            (.spool(path: "/s", .damaged(offset: 9, detail: "x")), 65),
            (.spool(path: "/s", .diskFull), 74), (.spool(path: "/s", .missing), 66),
            (.spool(path: "/s", .durabilityLost(call: "fsync", errno: 5)), 71),
            (.spool(path: "/s", .tooLarge(byteCountMax: 5)), 74),
            (.spool(path: "/s", .io(call: "open", errno: 13)), 74),
            (ClientError(keys: .unreadable(path: "/k", errno: 2)), 78),
            (ClientError(keys: .mode(path: "/k", mode: 0o644)), 78),
            (ClientError(keys: .line(path: "/k", number: 3, .noKey)), 78),
            (.spooledUnder(1, path: "/s"), 78), (.spooledUnder(nil, path: "/s"), 78),
            (.cancelled, 74), (.closed, 74),
        ]
        for (error, exitCode) in table {
            #expect(error.exitCode == exitCode, "\(error)")
            #expect(!error.description.contains("\n"))
        }
    }
}
