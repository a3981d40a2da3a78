import IngestPipeline
import Testing

@Suite struct SocketAddressTests {
    @Test(arguments: [
        ("127.0.0.1:4810", "127.0.0.1:4810", true),
        ("127.9.9.9:0", "127.9.9.9:0", true),
        ("0.0.0.0:65535", "0.0.0.0:65535", false),
        ("10.1.2.3:1", "10.1.2.3:1", false),
        ("[::1]:4810", "[::1]:4810", true),
        ("[::]:4810", "[::]:4810", false),
        ("[0:0::1]:1", "[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", true),
        ("[2001:db8::5]:80", "[2001:db8::5]:80", false),
    ])
    func anAddressIsReadAndShown(text: String, shown: String, isLoopback: Bool) throws {
        let address = try SocketAddress(text)
        #expect(address.description == shown)
        #expect(address.isLoopback == isLoopback)
        #expect("\(address.port)" == String(shown.split(separator: ":").last!))
    }

    @Test(arguments: [
        "", ":", "4810", "127.0.0.1", "127.0.0.1:", ":4810", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:+80", "127.0.0.1:0x50", "127.0.0.1:٤", "::1:4810", "[::1]", "[::1", "[]:4810",
        "[1.2.3]:::4810", "127.0.0.1 :4810", "no such host:4810",
    ])
    func whatIsNoAddressIsRefusedWithAReason(text: String) {
        let error = #expect(throws: SocketError.self) { try SocketAddress(text) }
        #expect(error?.exitCode == 64)
        #expect(error?.description.contains("HOST:PORT") == true)
    }

    @Test(arguments: ["127.0.0.1", "[::1]"])
    func port0BecomesTheOneThatWasFound(host: String) throws {
        let socket = try LinuxDatagramSocket(
            binding: SocketAddress("\(host):0"), receiveBufferByteCount: 1 << 16)
        #expect(socket.address.port != 0)
        #expect(socket.address.description == "\(host):\(socket.address.port)")
    }

    @Test func anAddressInUseIsAnErrorThatSaysSo() throws {
        let first = try LinuxDatagramSocket(
            binding: SocketAddress("127.0.0.1:0"), receiveBufferByteCount: 1 << 16)
        let address = first.address
        let failure = Self.bindFailure(address)
        #expect(failure == .addressInUse(address: address.description))
        #expect(failure?.exitCode == 69)
        #expect(first.address.port == address.port)
    }

    @Test func anAddressOfAnotherMachineCannotBeBound() throws {
        let failure = try Self.bindFailure(SocketAddress("192.0.2.1:4810"))
        guard case .cannotBind(let address, _) = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(address == "192.0.2.1:4810")
        #expect(failure?.exitCode == 69)
    }

    @Test func theReceiveBufferInEffectIsTold() throws {
        let small = try LinuxDatagramSocket(
            binding: SocketAddress("127.0.0.1:0"), receiveBufferByteCount: 1 << 16)
        #expect(small.receiveBufferByteCount == 1 << 16)
        // Beyond any rmem_max, and beyond what the kernel can double.
        let huge = try LinuxDatagramSocket(
            binding: SocketAddress("127.0.0.1:0"), receiveBufferByteCount: .max)
        #expect(huge.receiveBufferByteCount >= small.receiveBufferByteCount)
    }

    private static func bindFailure(_ address: SocketAddress) -> SocketError? {
        do throws(SocketError) {
            _ = try LinuxDatagramSocket(binding: address, receiveBufferByteCount: 1 << 16)
            return nil
        } catch {
            return error
        }
    }
}
