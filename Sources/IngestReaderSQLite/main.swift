// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// `ingest-reader-sqlite`: ingest-reader, linked with what writes SQLite files. `ingest-reader export --format
// sqlite` becomes this program (docs/decisions/0029-sqlite-beside.md).
import Glibc
import IngestReaderTool

exit(ReaderProgram.run(Array(CommandLine.arguments.dropFirst()), sqlite: SQLiteTable.write))
