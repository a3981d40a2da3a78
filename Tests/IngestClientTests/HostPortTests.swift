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
            (
                .ackedDataLost(
                    sender: 1, epoch: 2, first: 4, end: 10, unacked: 1, cause: .olderCopy), 71
            ),
            (
                .ackedDataLost(
                    sender: 1, epoch: 2, first: 0, end: 0, unacked: 0, cause: .otherDirectory), 71
            ),
            (.unsupported(address: "a:1"), 69),
            (.noAnswer(address: "a:1", seconds: 60), 69),
            (.noProgress(address: "a:1", sequence: 7, byteCount: 1_452), 69),
            (.otherSender(path: "/s", asked: 1, found: 2), 78),
            (.spool(path: "/s", .inUse(pid: 5)), 69), (.spool(path: "/s", .inUse(pid: nil)), 69),
            (.spool(path: "/s", .damaged(offset: 9, detail: "x")), 65),
            (.spool(path: "/s", .diskFull), 74), (.spool(path: "/s", .missing), 66),
            (.spool(path: "/s", .durabilityLost(call: "fsync", errno: 5)), 71),
            (.spool(path: "/s", .io(call: "open", errno: 13)), 74),
            (.cancelled, 74), (.closed, 74),
        ]
        for (error, exitCode) in table {
            #expect(error.exitCode == exitCode, "\(error)")
            #expect(!error.description.contains("\n"))
        }
    }

    @Test func `An error of the keys file keeps its cause, and says it in the same words`() {
        let table: [(KeysError, ClientError.KeysFailure)] = [
            (.unreadable(path: "/k", errno: 2), .unreadable(errno: 2)),
            (.notAFile(path: "/k"), .notAFile), (.mode(path: "/k", mode: 0o644), .mode(0o644)),
            (.tooLarge(path: "/k", byteCountMax: 5), .tooLarge(byteCountMax: 5)),
            (.noKeys(path: "/k"), .noKeys),
            (
                .line(path: "/k", number: 3, .noKey),
                .line(number: 3, fault: "\(KeysError.Fault.noKey)")
            ),
            (.unknownKey(path: "/k", id: 4), .noSuchKey(id: 4)),
            (
                .otherSender(path: "/k", id: 4, sender: SenderID(rawValue: 9)),
                .otherSender(id: 4, sender: 9)
            ),
        ]
        for (error, cause) in table {
            let client = ClientError(keys: error)
            #expect(client == .keys(path: "/k", cause))
            #expect(client.description == error.description)
            #expect(client.exitCode == 78)
        }
    }
}
