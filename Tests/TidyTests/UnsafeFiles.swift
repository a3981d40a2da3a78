/// The files in which `unsafe` may appear, each with its reason. A file leaves the list when its last
/// `unsafe` does.
enum UnsafeFiles {
    static let reasons: [String: String] = {
        var all: [String: String] = [:]
        for (folder, files) in folders {
            for (file, reason) in files { all["Sources/\(folder)/\(file).swift"] = reason }
        }
        return all
    }()

    private static let folders: [String: [String: String]] = [
        "IngestFormat": [
            "Bytes":
                "the one place that loads and stores integers in raw bytes for the rest, and hands them to the CRC",
            "KeyedHash": "hands bytes and key to the AES instructions",
            "ShortText": "validates text, and reads UUIDs, where they lie in a packet",
        ],
        "IngestCounting": [
            "AttributedCounters": "copies the attributed rows of a block",
            "CounterSlots": "owns the dense counters of a segment, and the loop over all rows",
            "CountingRule": "owns the table from attributes to counters",
            "DaySums":
                "owns sums by business and day, adds columns to them; owns the lanes of a day, and the loop over all rows",
            "PageMerge": "stands in several pages at once",
            "SegmentCounters": "walks the dense counters in order",
        ],
        "IngestFormat/Packet": [
            "EventDescriptor":
                "owns the descriptors of one packet; hashes names where they lie in a packet",
            "PacketRow": "writes rows and side records into a ring record",
            "AckPacket": "writes and reads an ack where it lies in a datagram",
            "EventBatchEncoder": "writes a batch into a packet's bytes",
            "EventDecoder": "one pass over a packet's bytes, length checked once",
            "JSONCursor": "one pass over a datagram's bytes",
            "JSONEventDecoder":
                "decodes and unescapes in place; hands a copy of a line to the decoder",
            "JSONEventFields": "places of values in a datagram's bytes",
            "Probe": "writes an answer where it lies in a datagram",
            "PacketHeader": "loads the fields of a header whose length was checked once",
            "TimestampText":
                "parses times where they lie in a packet; parses amounts where they lie in a packet",
            "WireCursor": "one pass over protobuf's wire format",
        ],
        "IngestFormat/Block": [
            "RowAttributes": "one pass over a column of rows; packs and unpacks a column",
            "ColumnCodec":
                "loads the fixed part of a column after its length was checked; packs and unpacks columns a word at a time",
            "BlockDecoder": "reads a block's bytes after their checksum",
            "BlockEncoder": "writes a block's bytes",
            "BlockHeader+Bytes": "loads and stores the fields of the header",
            "BlockLayout":
                "loads and stores at the header's offsets; fills a list from a column",
            "BlockRows": "owns the columns that admission appends to",
            "BlockSectionTable": "reads the section table after its checksum",
            "ColumnDecoder": "fills columns from packed bytes",
            "ColumnEncoder": "packs columns",
            "LZ4": "calls liblz4",
            "BlockNames":
                "owns the bytes of a block's new names; finds the distinct values of a column; decodes columns of names",
        ],
        "IngestFormat/Segment": [
            "SessionKeys": "hands the bytes of an id to SipHash",
            "FooterSectionTable": "hands arrays to LZ4",
        ],
        "IngestFormat/Snapshot": [
            "AttributionList": "gives rows of a page other keys",
            "CodedColumn":
                "unpacks a column of a page, or one value of it, after its checksum; counts the values of a column",
            "PageColumnCodec": "packs the columns of a page",
            "CounterPage": "owns the columns of one page",
            "CounterPage+Codec": "packs and unpacks a page",
            "CounterPage+Probe": "picks single values from a coded page after its checksum",
            "CounterTable":
                "decodes pages where they lie in an array; owns memory that may be huge pages",
            "FreshNames": "sorts names where they lie",
            "NamePage": "owns the names of one page, codes and decodes them where they lie",
            "PageMerge":
                "copies and compares names where they lie; moves items between two buffers",
            "PairPage": "owns the pairs of one page, and decodes them where they lie",
        ],
        "IngestKeys": [
            "KeysFile": "hands a buffer to read; asks for the system's word on an errno",
            "PacketTag": "hashes a packet where it lies, and writes its tag behind it",
        ],
        "IngestRing": [
            "RingConsumer": "hands out records where they lie in the ring",
            "RingProducer": "hands out room where it lies in the ring",
            "RingWords": "the atomics and the futex word of the shared memory",
        ],
        "IngestStorage": [
            "FileSystem": "hands arrays to writes and reads",
            "LinuxFileSystem": "hands buffers to system calls",
            "ReadBuffer": "owns aligned memory that files are read into",
            "SystemCall":
                "the system calls that swift-system does not have; owns a semaphore of the C library",
            "Segment/BlockScan": "decodes blocks where they lie in the read buffer",
            "Segment/SegmentRewrite": "decodes the block where it lies in the encoder's buffer",
            "Segment/SegmentWriter": "hands a block where it lies in its buffer to the write",
            "Snapshot/RunReader": "decodes pages where they lie in the read buffer",
        ],
        "IngestPipeline": [
            "Receive/UDPReceiver":
                "owns the receive buffers; reads key id and sender where they lie in a packet",
            "Commit/Admit/Admission": "reads descriptors and names where they lie in the ring",
            "Commit/Admit/Admission+Judge":
                "reads descriptors and ids of sessions where they lie in the ring",
            "Commit/Admit/Admission+Names": "reads names where they lie in the ring",
            "Commit/Admit/DedupTable": "reads and writes slots in their lines",
            "Commit/Admit/Sessions/KeySets": "owns the memory of many sets",
            "Commit/Admit/GrowingTable": "owns the memory of an open-addressing table",
            "Commit/Admit/LoggedClaims": "reads the columns of a decoded block",
            "Commit/Admit/LoggedNames":
                "hands bytes of names to the dictionary; hands bytes of a header to the decoder",
            "Commit/Admit/NameDictionary":
                "reads names and keys in the record that was found; owns the bytes of names and what is known of them",
            "Commit/Admit/Sessions/SessionRule": "owns the pseudonyms of a packet",
            "Commit/Admit/Sessions/SessionTable": "changes the entries that were found",
            "Commit/Admit/Sessions/OpenSession": "reads and writes what lies in its two lines",
            "Commit/Admit/PairTable":
                "reads the entry that was found, and owns a small cache; looks at entries of its table where they lie",
            "Commit/CommitStage": "reads records where they lie in the ring",
            "PipelineCounters": "owns the atomics, on cache lines of their own",
            "Receive/DatagramSocket": "hands batches to recvmmsg",
            "Receive/PacketIntake": "hands datagrams where they lie to decoders and ring",
            "Receive/RefusalLog": "reads the first bytes of a datagram",
            "Clock": "clock_gettime",
            "StageQueue": "names its thread",
            "Acks": "owns the memory of acks that are sent",
        ],
        "IngestReader": [
            "Events/EventListing": "reads the columns of a decoded block",
            "Events/FoundEvent": "reads the hashes of a decoded block",
            "Names/NameTable": "hashes and compares names where they lie in their arrays",
            "Query/DenseSums": "owns the dense sums of all rewards, reads pages' columns",
            "Query/CounterSlab": "owns the counters of a listing's rows, reads pages' columns",
        ],
        "IngestVerify": [
            "NamesCheck": "hashes names where they lie in their pages",
            "CounterHash": "reads the columns of a page",
            "DeepCheck": "reads the columns of a decoded block",
            "RowCount": "reads the columns of a decoded block",
        ],
        "IngestReaderTool": [
            "Output/ExportFile": "hands a C string to chmod",
            "Output/OutputBuffer": "owns the bytes of the next piece",
            "Output/WatchScreen": "asks the terminal, the clock, poll and sigtimedwait",
            "ReaderProgram": "hands C strings to execv, realpath and getenv",
        ],
        "IngestClient": [
            "ReceiverWatch": "hands buffers to poll and recv",
            "SenderExchange": "reads an ack where it lies in a datagram",
            "SenderLoop": "hands buffers to read, write and recv",
            "Spool/SpoolFormat": "parses a packet where it lies in its array",
            "Spool/SpoolListing": "decodes a packet where it lies in its array",
            "PacketEncoder": "hands an event's texts to a batch, tags a packet in its burst",
            "SenderTimers": "clock_gettime",
            "UDPTransport": "hands buffers to sendmmsg",
        ],
        "Ingestd": [
            "ConfigFile": "hands a path and a stat to system calls",
            "Daemon": "hands C strings and sets of signals to system calls",
            "Messages": "writes a line",
        ],
        "IngestSend": [
            "Agent/DatagramSocket":
                "hands addresses and reused memory to the kernel; waits for several sockets",
            "Agent/FileFollower":
                "asks who has a name, lists a directory; reads into reused memory",
            "LineReader": "reads into reused memory; searches and moves reused memory",
            "Outcome": "asks the terminal",
        ],
    ]
}
