import IngestReader
import IngestStorage
import Testing

@Suite("What a reader advises")
struct AdviceTests {
    @Test("a damaged file that is made again from the log is not to be restored")
    func derived() {
        func advice(_ name: String) -> String {
            ReaderError(.corrupt(path: "/data/\(name)", offset: 3, detail: "checksum")).advice
        }
        for name in ["0000000001.manifest"]
            + ["rewards", "days", "reward-days", "names"].map({ "0000000001.\($0).run" })
        {
            #expect(advice(name).contains("ingest-reader rebuild"), "\(name)")
        }
        #expect(advice("durable-mark").contains("restart the daemon"))
        for name in [
            "0000000001.segment", "0000000001.expired.run", "0000000001.expired-names.run",
        ] {
            #expect(advice(name).contains("restore the file from a copy"), "\(name)")
        }
    }
}
