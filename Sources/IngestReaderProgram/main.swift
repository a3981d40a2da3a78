// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// `ingest-reader`.
import Glibc
import IngestReaderTool

exit(ReaderProgram.run(Array(CommandLine.arguments.dropFirst())))
