import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// A sender that shares nothing with the project but the published schema and header.
    struct PythonTests {
        /// Made by `scripts/python-env`.
        private static let python = Repository.root.appendingPathComponent(
            ".build/python/bin/python"
        ).path

        @Test(
            .enabled(
                if: FileManager.default.isExecutableFile(atPath: python),
                "no .build/python: run scripts/python-env, which needs python3"))
        func `what the Python example sends is counted`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let script = Repository.root.appendingPathComponent("examples/python/ingest_sender.py")
                .path
            let sent = try run(Self.python, [script, "--to", daemon.address], in: folder)
            #expect(sent.code == 0, "\(sent.errors)")
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.status().packets["accepted"] == 2 })
            let row = try #require(
                try Reader.rows(of: reader.run("reward", "python-reward").output).first)
            #expect(row["businessId"] as? String == "python-business")
            #expect(row["impressions"] as? Int == 8)
            #expect(row["viewableImpressions"] as? Int == 8)
            #expect(row["clicks"] as? Int == 2)
            #expect(row["redemptions"] as? Int == 1)
            #expect(row["revenue"] as? String == "12.50")
            #expect(try reader.status().events["malformed"] == 0)
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
        }
    }
}
