import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// What `ingest-reader export` writes, read by programs that are not ours.
    struct ExportTests {
        private static let python = "/usr/bin/env"

        /// Names that need quotes, escapes and more than ASCII; amounts; a refused event, all names of which are known.
        private static let events = [
            #"{"eventType":"impression","rewardId":"r,\u0000\"1\"","businessId":"b\n1","timestamp":"2026-11-19T08:00:00Z","eventId":"x","metadata":{"viewability":"0.75","duration":"1.5","platform":"iOS"}}"#,
            #"{"eventType":"redemption","rewardId":"r,\u0000\"1\"","businessId":"b\n1","timestamp":"2026-11-20T08:00:00.25Z","consent":"optIn","metadata":{"revenue":"12.5","spend":"0.000001","campaign":"=c ü"}}"#,
            #"{"eventType":"click","rewardId":"ü-2","businessId":"b-2","timestamp":"2026-11-20T09:00:00Z","sessionId":"s","source":"mail"}"#,
            #"{"eventType":"impression","rewardId":"ü-2","businessId":"b-2","timestamp":"2026-11-20T09:00:01Z","metadata":{"viewability":"0.1","duration":"9","format":"video","source":"mail"}}"#,
        ]

        private static func directory() throws -> Reader {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--time-zone", "UTC"])
            let file = try folder.write("events.ndjson", lines: events)
            #expect(try daemon.send(file).code == 0)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.status().rows == 4 })
            #expect(daemon.stop().code == 0)
            return reader
        }

        /// The line that an export ends with, and the permissions of its file.
        private static func expect(_ output: String, rows: Int, of path: String) throws {
            let said = try #require(try Reader.rows(of: output).first)
            let file = try FileManager.default.attributesOfItem(atPath: path)
            #expect(said["rows"] as? Int == rows)
            #expect(said["bytes"] as? Int == file[.size] as? Int)
            #expect((said["cut"] as? [String: Int])?.keys.sorted() == ["block", "segment"])
            let mask = umask(0)
            umask(mask)
            #expect(file[.posixPermissions] as? Int == 0o666 & ~Int(mask))
        }

        /// Reads one table in three formats and prints whether they say the same.
        private static let check = """
            import csv, json, sqlite3, sys
            folder, table = sys.argv[1:]
            rows = [json.loads(line) for line in open(f"{folder}/{table}.ndjson", encoding="utf-8")]
            with open(f"{folder}/{table}.csv", encoding="utf-8", newline="") as file:
                records = list(csv.DictReader(file, strict=True))
            text = lambda v: "" if v is None else str(v).lower() if isinstance(v, bool) else str(v)
            number = lambda v: float(v) if v else None
            database = sqlite3.connect(f"file:{folder}/{table}.sqlite?mode=ro", uri=True)
            database.row_factory = sqlite3.Row
            assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            name = table.replace("-", "_")
            stored = [dict(row) for row in database.execute(f"SELECT * FROM {name} ORDER BY rowid")]
            assert len(rows) == len(records) == len(stored) > 0, (len(rows), len(records), len(stored))
            for row, record, entry in zip(rows, records, stored):
                assert list(row) == list(record) == list(entry)[:-2], (list(row), list(record))
                for column, value in row.items():
                    if column in ("ctr", "measuredRate", "viewableRate", "viewability", "duration"):
                        assert number(record[column]) == value, (column, record[column], value)
                    else:
                        assert record[column] == text(value), (column, record[column], value)
                    assert entry[column] == value, (column, entry[column], value)
                for amount in ("revenue", "spend"):
                    micros = entry[amount + "Micros"]
                    assert (micros is None) == (row[amount] is None), entry
                    assert micros is None or micros == round(float(row[amount]) * 1e6), entry
            indexes = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'index'")
            assert indexes.fetchone()[0] >= 2
            plan = database.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM {name} WHERE businessId = 'b-2'").fetchall()
            assert "USING INDEX" in plan[0]["detail"], plan[0]["detail"]
            print("ok", len(rows))
            """

        private static let hasPython = Programs.found("python3") != nil

        @Test(.enabled(if: hasPython, "no python3 to read the files with"))
        func `Python reads the same from CSV, NDJSON and SQLite`() throws {
            let reader = try Self.directory()
            let script = try reader.folder.write("check.py", Self.check)
            for (table, count) in [("rewards", 2), ("days", 3), ("reward-days", 3), ("events", 4)] {
                for format in ["csv", "ndjson", "sqlite"] {
                    let path = "\(reader.folder.path)/\(table).\(format)"
                    let asTheyAre = format == "csv" ? ["--no-csv-safe"] : []
                    // The second time it is there already.
                    for _ in 0..<2 {
                        let ended = try reader.run(
                            ["export", table, "--format", format, "--out", path] + asTheyAre)
                        #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
                        try Self.expect(ended.output, rows: count, of: path)
                    }
                }
                let read = try run(
                    Self.python, ["python3", script, reader.folder.path, table], in: reader.folder)
                #expect(read.output == "ok \(count)\n", "\(table): \(read.errors)")
            }
            let left = try FileManager.default.contentsOfDirectory(atPath: reader.folder.path)
            #expect(!left.contains { $0.hasSuffix(".tmp") || $0.contains("journal") }, "\(left)")
        }

        @Test(.enabled(if: hasPython, "no python3 to make the file with"))
        func `an SQLite file keeps its modes, and a name that is taken is said`() throws {
            let reader = try Self.directory()
            let path = "\(reader.folder.path)/own.sqlite"
            func python(_ script: String) throws -> String {
                try run(
                    Self.python,
                    ["python3", "-c", "import sqlite3; d = sqlite3.connect('\(path)'); \(script)"],
                    in: reader.folder
                ).output
            }
            _ = try python(
                "d.execute('PRAGMA journal_mode = WAL'); "
                    + "d.execute('CREATE TABLE t (x)'); "
                    + "d.execute('CREATE VIEW days AS SELECT * FROM t'); d.commit(); d.close()")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            let rewards = try reader.run(
                ["export", "rewards", "--format", "sqlite", "--out", path])
            #expect(rewards.code == 0, "\(rewards.errors)")
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            #expect(
                try python(
                    "print(*d.execute('PRAGMA journal_mode').fetchone(), "
                        + "*d.execute('SELECT count(*), max(id = ?) FROM rewards', "
                        + "('r,' + chr(0) + '\"1\"',)).fetchone())") == "wal 2 1\n")
            let days = try reader.run(["export", "days", "--format", "sqlite", "--out", path])
            #expect(days.code == 64 && days.errors.contains("--force"), "\(days.errors)")
            // Another table may hold what the one had that is replaced.
            _ = try python(
                "d.execute('CREATE TABLE u (x REFERENCES rewards)'); d.execute('INSERT INTO u VALUES (1)'); "
                    + "d.commit(); d.close()")
            #expect(
                try reader.run(["export", "rewards", "--format", "sqlite", "--out", path]).code == 0
            )
            // Where names with NUL cannot be stored they are not cut.
            let wide = "\(reader.folder.path)/wide.sqlite"
            _ = try python(
                "d = sqlite3.connect('\(wide)'); d.execute('PRAGMA encoding = \"UTF-16le\"'); "
                    + "d.execute('CREATE TABLE t (x)'); d.commit(); d.close()")
            let cut = try reader.run(["export", "rewards", "--format", "sqlite", "--out", wide])
            #expect(cut.code == 64 && cut.errors.contains("a name has NUL"), "\(cut.errors)")
            let left = try FileManager.default.contentsOfDirectory(atPath: reader.folder.path)
            #expect(!left.contains { $0.contains(".tmp") }, "\(left)")
        }

        @Test
        func `an SQLite file keeps its other tables, and no other file is replaced without force`()
            throws
        {
            let reader = try Self.directory()
            let path = "\(reader.folder.path)/all.sqlite"
            func export(_ table: String, _ options: String...) throws -> Int32 {
                try run(
                    "ingest-reader",
                    [
                        "export", table, "--format", "sqlite", "--out", path, "--data",
                        reader.folder.data,
                    ]
                        + options, in: reader.folder
                ).code
            }
            func holds(_ table: String) throws -> Bool {
                try Data(contentsOf: URL(filePath: path)).range(
                    of: Data("CREATE TABLE \(table) ".utf8)) != nil
            }
            #expect(try export("rewards") == 0 && export("days") == 0 && export("rewards") == 0)
            #expect(try holds("rewards") && holds("days"))
            #expect(try export("rewards", "--force") == 0)
            #expect(try holds("rewards") && !holds("days"))
            try Data("letters".utf8).write(to: URL(filePath: path))
            #expect(try export("rewards") == 64)
            #expect(try Data(contentsOf: URL(filePath: path)) == Data("letters".utf8))
            #expect(try export("rewards", "--force") == 0 && holds("rewards"))
        }

        private static let hotJournal = """
            import os, sqlite3, sys
            database = sqlite3.connect(sys.argv[1], isolation_level=None)
            database.execute("PRAGMA journal_mode = " + sys.argv[2])
            database.execute("PRAGMA cache_size = 1")
            if sys.argv[2] == "delete": database.execute("BEGIN")
            database.execute("CREATE TABLE other AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                "SELECT i + 1 FROM n WHERE i < 20000) SELECT i, hex(randomblob(40)) AS t FROM n")
            os._exit(0)
            """

        @Test(.enabled(if: hasPython, "no python3 to write the files with"))
        func `what SQLite has still to apply to a file is never applied to an export`() throws {
            let reader = try Self.directory()
            let script = try reader.folder.write("journal.py", Self.hotJournal)
            for (mode, ending) in [("delete", "-journal"), ("wal", "-wal")] {
                let path = "\(reader.folder.path)/\(mode).sqlite"
                func export(_ options: String...) throws -> Ended {
                    try run(
                        "ingest-reader",
                        ["export", "rewards", "--format", "sqlite", "--out", path]
                            + ["--data", reader.folder.data] + options, in: reader.folder)
                }
                #expect(try export().code == 0)
                #expect(
                    try run(Self.python, ["python3", script, path, mode], in: reader.folder).code
                        == 0)
                let before = try Data(contentsOf: URL(filePath: path))
                for options in [[], ["--force"]] {
                    let ended = try options.isEmpty ? export() : export("--force")
                    #expect(ended.code == 64 && ended.errors.contains(path + ending), "\(ended)")
                }
                #expect(try Data(contentsOf: URL(filePath: path)) == before)
                // Where the file itself is gone, it is the same.
                try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
                #expect(try export().code == 64)
                // What is over, and left beside it, is in nobody's way.
                try Data(count: 512).write(to: URL(filePath: path + ending))
                #expect(try export().code == 0)
            }
        }

        @Test func `events are exported by day and business, without any id of theirs`() throws {
            let reader = try Self.directory()
            let path = "\(reader.folder.path)/events.ndjson"
            func exported(_ options: String...) throws -> [[String: Any]] {
                let arguments = ["export", "events", "--format", "ndjson", "--out", path] + options
                let ended = try run(
                    "ingest-reader", arguments + ["--data", reader.folder.data], in: reader.folder)
                #expect(ended.code == 0, "\(ended.errors)")
                return try Reader.rows(of: String(contentsOfFile: path, encoding: .utf8))
            }
            let all = try exported()
            #expect(all.count == 4)
            #expect(
                all[0]["viewability"] as? Double == 0.75 && all[0]["platform"] as? String == "iOS")
            #expect(all[0]["hasEventId"] as? Bool == true && all[0]["duration"] as? Double == 1.5)
            #expect(
                all[1]["revenue"] as? String == "12.50" && all[1]["consent"] as? String == "optIn")
            #expect(all[1]["timestamp"] as? String == "2026-11-20T08:00:00.250000Z")
            #expect(all[3]["verdict"] as? String == "not_viewable")
            #expect(
                Set(all.flatMap(\.keys)).isDisjoint(with: ["eventId", "sessionId", "eventHash"]))
            #expect(try exported("--from", "2026-11-20").count == 3)
            #expect(try exported("--to", "2026-11-19").count == 1)
            #expect(try exported("--business", "b-2", "--from", "2026-11-20").count == 2)
            #expect(try exported("--business", "nobody").isEmpty)
            #expect(try exported("--reward", "ü-2").count == 2)
            #expect(try exported("--reward", "ü-2", "--from", "2026-11-21").isEmpty)
        }

        @Test(arguments: ["csv", "ndjson"])
        func `an export to standard output is the file's bytes and nothing else`(
            format: String
        ) throws {
            let reader = try Self.directory()
            let path = "\(reader.folder.path)/events"
            #expect(
                try reader.run("export", "events", "--format", format, "--out", path).code == 0)
            let isCSV = format == "csv"
            let export = ["export", "events", "--format", format, "--out", "-"]
            let ended = try reader.run(export + (isCSV ? ["--csv-safe"] : []))
            #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
            #expect(try ended.output == String(contentsOfFile: path, encoding: .utf8))
            // What a spreadsheet would run; a program gets it as it is.
            #expect(ended.output.contains(",'=c ü,") == isCSV)
            #expect(try reader.run(export).output.contains(",=c ü,") == isCSV)
            let left = try FileManager.default.contentsOfDirectory(atPath: reader.folder.path)
            #expect(!left.contains("-"))
            // Nobody reads on: what was exported is not whole. A listing that is read no further has ended well.
            let program = Programs.path("ingest-reader")
            for (arguments, code) in [("export events --format csv --out -", 74), ("days", 0)]
                as [(String, Int32)]
            {
                let words = "\(arguments) --data \(reader.folder.data)"
                let broken = try run(
                    "/usr/bin/env",
                    ["python3", "-c", Self.withoutReader, program]
                        + words.split(separator: " ").map(String.init),
                    in: reader.folder)
                #expect(broken.code == code, "\(broken.errors)")
                #expect(broken.errorLines.count == (code == 0 ? 0 : 1))
            }
        }

        /// Runs a program whose standard output is a pipe that nobody reads any more; ends with its code.
        private static let withoutReader = """
            import os, subprocess, sys
            ends = os.pipe()
            os.close(ends[0])
            sys.exit(subprocess.run(sys.argv[1:], stdout=ends[1]).returncode)
            """

        @Test func `what cannot be written is one line and leaves nothing behind`() throws {
            let reader = try Self.directory()
            for format in ["csv", "sqlite"] {
                let path = "\(reader.folder.path)/nowhere/x.\(format)"
                let ended = try reader.run(
                    "export", "events", "--format", format, "--out", path)
                #expect(ended.code == 74 && ended.errorLines.count == 1, "\(ended.errors)")
                #expect(ended.errors.hasPrefix("ingest-reader: cannot write"))
            }
            let absent = try run(
                "ingest-reader",
                ["export", "days", "--format", "sqlite", "--out", "x", "--data", "/nowhere"],
                in: reader.folder)
            #expect(absent.code == 66 && absent.errorLines.count == 1, "\(absent.errors)")
        }

        @Test(arguments: ["csv", "sqlite"])
        func `no device, link or pipe is replaced, and no file of a data directory`(
            format: String
        ) throws {
            let reader = try Self.directory()
            let folder = reader.folder.path
            #expect(mkfifo("\(folder)/pipe", 0o600) == 0)
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/link", withDestinationPath: "\(folder)/elsewhere")
            func names() throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: folder)
                    .filter { !$0.hasPrefix("ingest-reader-") }.sorted()
            }
            let before = try names()
            let manifest = try #require(reader.folder.files(ending: ".manifest").last)
            let targets = ["pipe", "link", "data/\(manifest)", "data/new.csv"].map {
                "\(folder)/\($0)"
            }
            for target in targets + ["/dev/null"] {
                let ended = try reader.run("export", "days", "--format", format, "--out", target)
                #expect(ended.code == 64 && ended.errorLines.count == 1, "\(ended.errors)")
            }
            #expect(try names() == before)
            #expect(try reader.run("verify").code == 0)
        }

        @Test(arguments: ["csv", "sqlite"])
        func `damage in the middle leaves the file of before, and names the damaged one`(
            format: String
        ) throws {
            let reader = try Self.directory()
            let path = try reader.folder.write("events.\(format)", "before")
            let segment = URL(fileURLWithPath: "\(reader.folder.data)/0000000001.segment")
            var bytes = try Data(contentsOf: segment)
            bytes[4_096 + 372] ^= 1
            try bytes.write(to: segment)
            // What is there is no SQLite file.
            let force = format == "sqlite" ? ["--force"] : []
            let ended = try run(
                "ingest-reader",
                [
                    "export", "events", "--format", format, "--out", path, "--data",
                    reader.folder.data,
                ]
                    + force, in: reader.folder)
            #expect(ended.code == 65 && ended.errorLines.count == 1, "\(ended.errors)")
            #expect(ended.errors.contains("0000000001.segment"))
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "before")
        }

        @Test
        func `without the program for SQLite the rest works, and SQLite says what is missing`()
            throws
        {
            let reader = try Self.directory()
            let alone = "\(reader.folder.path)/ingest-reader"
            try FileManager.default.copyItem(
                atPath: Programs.path("ingest-reader"), toPath: alone)
            for (format, code) in [("csv", Int32(0)), ("sqlite", 69)] {
                let path = "\(reader.folder.path)/days.\(format)"
                let ended = try run(
                    alone,
                    ["export", "days", "--format", format, "--out", path]
                        + ["--data", reader.folder.data], in: reader.folder)
                #expect(ended.code == code, "\(ended.errors)")
                #expect(FileManager.default.fileExists(atPath: path) == (code == 0))
                #expect(ended.errors.contains("ingest-reader-sqlite") == (code == 69))
            }
        }
    }
}
