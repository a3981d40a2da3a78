// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

exit(ReaderProgram.run(Array(CommandLine.arguments.dropFirst())))
