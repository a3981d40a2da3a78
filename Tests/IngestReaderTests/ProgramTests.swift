import IngestFormat
import IngestReader
import IngestStorage
import Testing

@testable import IngestReaderTool

@Suite struct ProgramTests {
    @Test("The common options may stand before the command's name")
    func optionsFirst() {
        let cases: [([String], [String])] = [
            (["rewards", "--data", "d"], ["rewards", "--data", "d"]),
            (["--data", "d", "rewards", "--top", "3"], ["rewards", "--data", "d", "--top", "3"]),
            (
                ["--format=csv", "--with-cut", "--data=d", "day", "b", "2026-01-01"],
                ["day", "--format=csv", "--with-cut", "--data=d", "b", "2026-01-01"]
            ),
            (["--data", "d", "reward", "--", "-x"], ["reward", "--data", "d", "--", "-x"]),
            (["--data", "d"], ["--data", "d"]),
            (["--version"], ["--version"]),
            ([], []),
        ]
        for (given, expected) in cases {
            #expect(ReaderProgram.subcommandFirst(given) == expected)
        }
    }

    @Test("The first word is a command, an option, or wrong usage that names it")
    func firstWord() throws {
        for words in [["rewards"], ["--help"], ["help", "day"], ["inspect", "x"]] {
            try ReaderProgram.requireCommand(words)
        }
        for (words, named) in [(["explode", "--data", "d"], "'explode'"), ([], "no command")] {
            #expect { try ReaderProgram.requireCommand(words) } throws: {
                let ending = $0 as? Ending
                return ending?.code == 64 && ending?.message?.contains(named) == true
            }
        }
    }

    @Test("The verdict of a check wins over a failed write")
    func verdictWins() throws {
        struct Failed: Error {}
        for code in [Int32(1), 65] {
            #expect { try Ending.check(code, "found", writing: { throw Failed() }) } throws: {
                ($0 as? Ending)?.code == code
            }
        }
        #expect(throws: Failed.self) { try Ending.check(0, "", writing: { throw Failed() }) }
        try Ending.check(0, "", writing: {})
    }

    @Test("Errors of the library end with the exit codes of the contract")
    func exitCodes() {
        let expected: [(ReaderError.Kind, Int32)] = [
            (.notFound, 66), (.missingManifest, 66), (.corrupt, 65), (.newerFormat, 65), (.io, 74),
        ]
        for (kind, code) in expected {
            let error = ReaderError(kind: kind, what: "w", path: "p", advice: "a")
            #expect(ReaderProgram.exitCode(of: error) == code)
        }
    }

    @Test("An error is one line that says what, where, and what to do")
    func errorLine() {
        let error = ReaderError(
            kind: .corrupt, what: "corrupt: checksum", path: "/d/f", offset: 12,
            advice: "restore it")
        #expect(error.description == "corrupt: checksum, /d/f at offset 12, restore it")
    }

    @Test("Errors of storage say each thing once: the system's word, the path, what to do")
    func storageErrors() {
        let cases: [(StorageError, String)] = [
            (.io(path: "/d", call: "open", errno: 13), "Permission denied (13)"),
            (.io(path: "/d", call: "open", errno: 24), "ulimit -n"),
            (.locked(path: "/d", holder: 12), "another daemon (pid 12) uses this directory"),
            (.locked(path: "/d", holder: nil), "another daemon uses this directory"),
            (.alreadyExists(path: "/d"), "the file exists already"),
        ]
        for (cause, part) in cases {
            let text = ReaderError(cause).description
            #expect(text.contains(part), "\(text)")
            #expect(text.split(separator: "/d").count == 2, "\(text)")
        }
    }

    @Test("An export of one reward is of tables that have rewards, and SQLite needs a file")
    func exportOptions() {
        func isTaken(_ table: String, _ options: String...) -> Bool {
            (try? ExportCommand.parse([table, "--data", "d"] + options)) != nil
        }
        for table in ["reward-days", "events"] {
            #expect(isTaken(table, "--format", "csv", "--out", "x", "--reward", "r"))
        }
        for table in ["rewards", "days"] {
            #expect(!isTaken(table, "--format", "csv", "--out", "x", "--reward", "r"))
        }
        #expect(isTaken("events", "--format", "ndjson", "--out", "-"))
        #expect(!isTaken("events", "--format", "sqlite", "--out", "-"))
    }

    @Test("Help names what there is")
    func help() {
        let text = ReaderCommand.helpMessage(for: LedgerCommand.self)
        #expect(text.contains("others"))
        #expect(!ReaderCommand.helpMessage().contains("windows in status"))
    }

    @Test("A ledger has what there is; as text repeats have all their names, also of none")
    func ledger() throws {
        let rows = try LogFixture.random(seed: 10).reader.ledger()
        #expect(!rows.isEmpty && rows.contains { !$0.eventsRefused.isEmpty })
        for row in rows {
            let counts =
                Array(row.packetsRefused.values) + row.eventsRefused.values
                + row.eventsRepeated.values
            #expect(!counts.contains(0))
            let sums = [row.eventsRefused, row.eventsRepeated].map { $0.values.reduce(0, +) }
            #expect(row.eventsDecoded == row.eventsCounted + sums[0] + sums[1])
            let fields = Dictionary(
                uniqueKeysWithValues: zip(LedgerRow.columns.map(\.name), row.cells.map(\.plainText))
            )
            let repeats = LedgerRow.repeats.map {
                "\($0.name) \(row.eventsRepeated[$0, default: 0])"
            }
            #expect(fields["eventsRepeated"] == repeats.joined(separator: ", "))
            let refused = PacketResult.allCases.compactMap { outcome in
                row.packetsRefused[outcome].map { "\(outcome.name) \($0)" }
            }
            #expect(fields["packetsRefused"] == refused.joined(separator: ", "))
        }
    }

    @Test("Status names every packet result and verdict in JSON, and what there is in a table")
    func status() throws {
        let status = try LogFixture.random(seed: 61).reader.status()
        let json = status.fields(isForPerson: false)
        #expect(
            json.map(\.name) == [
                "cut", "durable", "compacted", "generation", "windows", "segments", "expired",
                "files",
                "bytes",
                "names", "keys", "rows", "packets", "events", "lostRanges", "uncleanStops",
            ])
        guard case .fields(let packets) = json[12].cell, case .fields(let events) = json[13].cell
        else {
            Issue.record("packets and events are not fields")
            return
        }
        #expect(packets.count == 15 && events.count == 13)
        let table = status.fields(isForPerson: true)
        #expect(table[12].cell.plainText == "accepted 15, bad_crc 30")
    }
}
