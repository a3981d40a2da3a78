import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-bench` at small size: its path, its floods and its pairs do to a daemon what they say. No figure of time is
    /// looked at.
    struct BenchTests {
        @Test(arguments: [0, 30])
        func `over its path all is counted once, and the path loses what it is to lose`(
            lossPercent: Int
        ) throws {
            let folder = try TemporaryFolder()
            let ended = try run(
                "ingest-bench",
                [
                    "paths", "--rates", "20", "--round-trips", "2", "--losses", "\(lossPercent)",
                    "--seconds", "1", "--senders", "2", "--idle-senders", "20", "--scratch",
                    folder.path,
                ], in: folder)
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            let lines = ended.output.split(separator: "\n").map { $0.split(separator: " ") }
            let rows = lines.filter { $0.count > 9 && $0.starts(with: ["20", "2"]) }
            // Without the idle senders and with them.
            #expect(rows.count == 2, "\(ended.output)")
            for row in rows {
                #expect(row[9] == "yes")
                // Of all packets, while those that the full queue drops are never drawn.
                let (lost, dropped) = try (#require(Double(row[3])), #require(Double(row[6])))
                let drawn = lost / (1 - dropped / 100)
                #expect(abs(drawn - Double(lossPercent)) <= (lossPercent == 0 ? 0 : 15), "\(row)")
                // Each packet has left once at least that was not lost.
                let sentForOne = try #require(Double(row[5]))
                #expect(sentForOne >= 1, "\(row)")
            }
        }

        @Test func `floods of a tenant are what they say, and change no counter of another`() throws
        {
            let folder = try TemporaryFolder()
            let ended = try run(
                "ingest-bench",
                [
                    "tenants", "--packets", "3000", "--rate", "10000", "--good-rate", "2000",
                    "--seconds", "0.3", "--scratch", folder.path,
                ], in: folder)
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            for what in ["malformed 1,500", "too_old 1,500", "wrong_business 1,500"] {
                #expect(ended.output.contains(what), "\(what) in \(ended.output)")
            }
            let exact = ended.output.components(separatedBy: ": exact; verify 0").count - 1
            #expect(exact == 5, "\(ended.output)")
        }

        @Test func `two daemons are measured in turn, and which is first changes`() throws {
            let folder = try TemporaryFolder()
            let other = folder.path + "/other-ingestd"
            try FileManager.default.createSymbolicLink(
                atPath: other, withDestinationPath: Programs.path("ingestd"))
            let ended = try run(
                "ingest-bench",
                [
                    "compare", "--with", other, "--pairs", "2", "--acks", "--rate", "0", "--events",
                    "20000", "--pool-packets", "200", "--scratch", folder.path,
                ], in: folder)
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            let lines = ended.output.split(separator: "\n")
            let runs = lines.filter { $0.contains("pair ") && $0.hasSuffix(", 0") }
                .map { $0.split(separator: " ").prefix(3).joined(separator: " ") }
            #expect(
                runs == [
                    "pair 1, --daemon", "pair 1, --with", "pair 2, --with", "pair 2, --daemon",
                ],
                "\(ended.output)")
            let ratios = lines.drop { !$0.contains("--daemon : --with") }.dropFirst()
            #expect(ratios.count == 4, "\(ended.output)")
        }
    }
}
