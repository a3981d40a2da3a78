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
            "Bytes": "the one place that loads and stores integers in raw bytes for the rest",
            "Checksum": "hands bytes to the CRC instructions",
            "KeyedHash": "hands bytes and key to the AES instructions",
            "UTF8Text": "validates text where it lies in a packet",
            "UUIDText": "replaces a UUID in text by its bytes, in place",
        ],
        "IngestFormat/Packet": [
            "DecimalText": "parses amounts where they lie in a packet",
            "EventBatchEncoder": "writes a batch into a packet's bytes",
            "EventCompletion": "hashes names where they lie in a packet",
            "EventDecoder": "one pass over a packet's bytes, length checked once",
            "EventScratch": "owns the descriptors of one packet",
            "Heartbeat": "reads the payload after its length was checked",
            "JSONCursor": "one pass over a datagram's bytes",
            "JSONEventDecoder": "decodes and unescapes in place",
            "JSONEventFields": "places of values in a datagram's bytes",
            "JSONEventFields+Fill": "places of values in a datagram's bytes",
            "JSONEventReason": "tries the decoder's rules again on a copy of a line",
            "PacketHeader": "loads the fields of a header whose length was checked once",
            "TimestampText": "parses times where they lie in a packet",
            "WireCursor": "one pass over protobuf's wire format",
        ],
        "IngestFormat/Block": [
            "AttributeTally": "one pass over a column of rows",
            "BitPacking": "packs and unpacks columns a word at a time",
            "BlockBuffer": "owns the bytes of a block",
            "BlockDecoder": "reads a block's bytes after their checksum",
            "BlockDecoder+Sections": "reads a block's sections after their checksums",
            "BlockEncoder": "writes a block's bytes",
            "BlockHeader+Bytes": "loads and stores the fields of the header",
            "BlockLayout": "loads and stores at the header's offsets",
            "BlockRows": "owns the columns that admission appends to",
            "BlockSectionTable": "reads the section table after its checksum",
            "ColumnDecoder": "fills columns from packed bytes",
            "ColumnEncoder": "packs columns",
            "ColumnSource": "loads the fixed part of a column after its length was checked",
            "DictionaryBuilder": "finds the distinct values of a column",
            "LZ4": "calls liblz4",
            "NewNames": "owns the bytes of a block's new names",
            "PatchPlan": "one pass over a column of rows",
            "SectionSink": "appends a section to a block's bytes",
        ],
        "IngestFormat/Segment": [
            "StoredSection": "hands arrays to LZ4"
        ],
        "IngestFormat/Snapshot": [
            "CodedColumn": "unpacks a column of a page, or one value of it, after its checksum",
            "ColumnWidthCounts": "one pass over a column of a page",
            "ColumnReader": "unpacks a page's columns after its checksum",
            "CounterColumnCodec": "packs the columns of a page",
            "CounterPage": "owns the columns of one page",
            "CounterPage+Codec": "packs and unpacks a page",
            "CounterPage+Copy": "copies rows between pages",
            "CounterPage+Probe": "picks single values from a coded page after its checksum",
            "CounterSlots": "owns the dense counters of a segment",
            "CounterSlots+Fold": "the loop over all rows that counts them",
            "CounterTable": "decodes pages where they lie in an array",
            "CounterTableEncoder": "owns the room that pages are coded in",
            "CountingTable": "owns the table from a row's attributes to what it adds",
            "LineMemory": "owns memory that may be huge pages",
            "FreshNames": "hashes and sorts names where they lie",
            "NameBatch": "owns the names of one page",
            "NameMerge": "copies and compares names where they lie",
            "NamePage": "codes and decodes names where they lie",
            "NamesRunDecoder": "copies names where they lie",
            "OrderTable": "owns an open-addressing table",
            "PackedColumn": "packs and unpacks the columns of a page",
            "PageMerge": "stands in several pages at once",
            "PairPage": "owns the pairs of one page, and decodes them where they lie",
            "SegmentCounters+Cursor": "walks the dense counters in order",
        ],
        "IngestRing": [
            "RingConsumer": "hands out records where they lie in the ring",
            "RingProducer": "hands out room where it lies in the ring",
            "RingWords": "the atomics and the futex word of the shared memory",
        ],
        "IngestStorage": [
            "LinuxFileSystem": "hands buffers to system calls",
            "ReadBuffer": "owns aligned memory that files are read into",
            "StorageFile+Arrays": "hands arrays to reads and writes",
            "SystemCall": "the system calls that swift-system does not have",
            "Segment/BlockScan": "decodes blocks where they lie in the read buffer",
            "Segment/SegmentWriter": "hands a block where it lies in its buffer to the write",
            "Simulated/SimulatedFileSystem": "the same buffers as the real one",
            "Snapshot/RunReader": "decodes pages where they lie in the read buffer",
        ],
        "IngestPipeline": [
            "Admit/Admission": "reads descriptors and names where they lie in the ring",
            "Admit/GrowingTable": "owns the memory of an open-addressing table",
            "Admit/KeyTable": "reads the entry that was found",
            "Admit/LoadedNames": "hands bytes of names to the dictionary",
            "Admit/NameArena": "owns the bytes of long names",
            "Admit/NameDictionary": "reads names and keys in the entry that was found",
            "Clock": "clock_gettime",
            "Commit/CommitStage": "reads records where they lie in the ring",
            "PipelineCounters": "owns the atomics, on cache lines of their own",
            "Receive/DatagramSocket": "hands batches to recvmmsg",
            "Receive/PacketBatch": "owns the receive buffers",
            "Receive/PacketIntake": "hands datagrams where they lie to decoders and ring",
            "Receive/RefusalLog": "reads the first bytes of a datagram",
            "Receive/SimulatedDatagramSocket": "fills the same buffers as the real one",
            "Receive/SocketAddress": "hands addresses to system calls",
            "StageQueue": "names its thread",
        ],
        "IngestReader": [
            "Names/NameOrder": "compares names where they lie in their arrays",
            "Names/NameTable": "hashes a name where it lies among the others",
            "Names/NameWalk": "compares names where they lie in their pages",
            "Query/KeyScores": "owns the dense sums of all keys, reads pages' columns",
            "Query/CounterSlab": "owns the counters of a listing's rows, reads pages' columns",
            "Verify/RecountNames": "hands bytes of names to the hasher",
            "Verify/RowRecount": "reads the columns of a decoded block, by code of its own",
            "Verify/Tally+Sum": "prefetches lines of counters",
            "Verify/TallyMatch": "reads pages' columns, prefetches lines of counters",
        ],
        "IngestReaderTool": [
            "Output/RowBytes": "owns the bytes of one row"
        ],
        "IngestClient": [
            "EventLineParser": "decodes a line where it lies",
            "PacketBuilder": "writes packets into reused bytes",
            "SenderClock": "clock_gettime",
            "UDPTransport": "hands buffers to sendmmsg",
        ],
        "Ingestd": [
            "ProcessState": "opens /dev/null by a C string",
            "StopSignals": "hands a set of signals to pthread_sigmask",
        ],
        "IngestSend": [
            "LineReader": "reads into reused memory",
            "Progress": "asks the terminal",
        ],
    ]
}
