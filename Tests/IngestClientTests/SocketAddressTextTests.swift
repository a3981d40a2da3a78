import Testing

@testable import IngestClient

struct SocketAddressTextTests {
    @Test(arguments: [
        ("127.0.0.1:4810", "127.0.0.1", 4810), ("localhost:1", "localhost", 1),
        ("[::1]:65535", "::1", 65_535), ("[fe80::1%lo]:53", "fe80::1%lo", 53),
    ])
    func `An address is a host and a port`(text: String, host: String, port: UInt16) throws {
        let address = try SocketAddressText(text)
        #expect(address.host == host)
        #expect(address.port == port)
    }

    @Test(arguments: [
        "", ":", "localhost", "localhost:", ":4810", "localhost:0", "localhost:65536",
        "localhost:+1", "localhost:-1", "localhost: 1", "localhost:1 ", "::1:4810", "[::1]4810",
        "[::1:4810", "::1]:4810", "[]:4810", "[localhost]:4810", "a[::1]:4810", "host:٣",
    ])
    func `What is no address is refused with the text that was given`(text: String) {
        #expect(throws: ClientError.badAddress(text)) { try SocketAddressText(text) }
    }

    @Test func `Each error says what and where in one line and has its exit code`() {
        let table: [(ClientError, Int32)] = [
            (.badAddress("a\nb"), 64), (.unresolved(address: "a:1", reason: "none"), 69),
            (.notListening(address: "a:1"), 69),
            (.socket(call: "send", address: "a:1", errno: 101), 69),
            (.socket(call: "send", address: "a:1", errno: 12), 74),
        ]
        for (error, exitCode) in table {
            #expect(error.exitCode == exitCode, "\(error)")
            #expect(!error.description.contains("\n"))
        }
    }
}
