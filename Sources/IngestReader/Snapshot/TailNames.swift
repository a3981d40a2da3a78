// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage
import Synchronization

/// The names and keys that the blocks of a tail introduce, which no names run has. Shared by all queries of one cut.
///
/// A name is looked for, and what an ordinal stands for is read, in the blocks' sections of names and keys; a table is made
/// when all are asked for, or when many have been asked for one by one.
///
/// **Errors** `corrupt` where a section cannot be read.
/// **Cost** A name that is looked for, some nanoseconds for each that is there; what an ordinal stands for, the names of one
/// block; a table 40 ns a new name, its index 0.1 µs.
final class TailNames<Files: FileSystem>: NameLookUp, Sendable {
    /// The names and keys that the blocks introduce, of all queries of the cut.
    private struct Names: Sendable {
        var table: NameTable
        /// Whether they are in the table, and whether it has an index.
        var isMade = false
        var isIndexed = false
        /// Single names and keys that were asked for.
        var lookUpCount = 0
    }

    /// As many look-ups in the blocks take as long as a table with an index.
    private static var lookUpCountMax: Int { 16 }

    private let blocks: [TailBlock<Files>]
    private let names: Mutex<Names>
    private let lastIntroduced = Mutex<(place: Int, names: NamesOfBlock)?>(nil)

    /// - Parameter empty: a table of the names after those of the runs.
    init(_ blocks: [TailBlock<Files>], from empty: NameTable) {
        self.blocks = blocks
        names = Mutex(Names(table: empty))
    }

    /// The names and keys that the blocks introduce.
    func makeNames() throws(ReaderError) -> NameTable {
        try names.withLock { (names) throws(ReaderError) in
            try make(&names)
            return names.table
        }
    }

    /// The same for a look-up; `nil` while few were asked for, and no query has made it.
    /// - Parameter isSearch: whether a name is looked for, or a reward's keys, which an index finds.
    func namesForLookUp(isSearch: Bool) throws(ReaderError) -> NameTable? {
        try names.withLock { (names) throws(ReaderError) in
            names.lookUpCount += 1
            let areMany = names.lookUpCount > Self.lookUpCountMax
            if !names.isMade && !areMany { return nil }
            try make(&names)
            if isSearch && areMany && !names.isIndexed {
                names.table.makeIndex()
                names.isIndexed = true
            }
            return names.table
        }
    }

    private func make(_ names: inout Names) throws(ReaderError) {
        if names.isMade { return }
        var table = names.table
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        for block in blocks where block.header.nameCount > 0 || block.header.keyCount > 0 {
            table.enter(
                try block.decode([.dictionary], checksRest: false, buffer, decoder, into: rows))
        }
        (names.table, names.isMade) = (table, true)
    }

    // MARK: Single names

    /// The ordinal of a name that a block introduces.
    ///
    /// **Cost** Reads the names of the blocks: some nanoseconds each.
    func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal? {
        let (buffer, decoder) = (ReadBuffer(), BlockDecoder())
        for block in blocks {
            let header = block.header
            let place = try block.section(.names, buffer) {
                (bytes, names) throws(FormatError) in
                try decoder.place(ofName: name, in: bytes, names, of: header)
            }
            guard case let place?? = place else { continue }
            return NameOrdinal(rawValue: header.context.firstName.rawValue + UInt32(place))
        }
        return nil
    }

    /// The keys of a reward that blocks introduce.
    ///
    /// **Cost** Reads a column of the keys of the blocks: a nanosecond each.
    func keys(ofReward reward: NameOrdinal) throws(ReaderError) -> [KeyOrdinal] {
        let (buffer, decoder) = (ReadBuffer(), BlockDecoder())
        var keys: [KeyOrdinal] = []
        for block in blocks {
            let header = block.header
            let places = try block.section(.keyRewards, buffer) {
                (bytes, rewards) throws(FormatError) in
                try decoder.places(ofReward: reward, in: bytes, rewards, of: header)
            }
            keys += (places ?? []).map {
                KeyOrdinal(rawValue: header.context.firstKey.rawValue + UInt32($0))
            }
        }
        return keys
    }

    /// The bytes of a name; empty where no block introduces it.
    ///
    /// **Cost** Decodes what the block introduces.
    func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8] {
        let names = try introduced {
            let first = $0.context.firstName.rawValue
            return name.rawValue >= first && name.rawValue < first + UInt32($0.nameCount)
        }
        guard let names else { return [] }
        return names.names.name(Int(name.rawValue - names.firstName.rawValue))
    }

    /// The names of a key; both `.none` where no block introduces it.
    ///
    /// **Cost** As `bytes(of:)`.
    func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey {
        let names = try introduced {
            let first = $0.context.firstKey.rawValue
            return key.rawValue >= first && key.rawValue < first + UInt32($0.keyCount)
        }
        guard let names else { return RewardKey(reward: .none, business: .none) }
        return names.keys[Int(key.rawValue - names.firstKey.rawValue)]
    }

    /// What the first block introduces that `isWanted` is true of. The one that was asked for last is kept: a reward, its key
    /// and its business are often of one.
    private func introduced(
        where isWanted: (BlockHeader) -> Bool
    ) throws(ReaderError) -> NamesOfBlock? {
        guard let place = blocks.firstIndex(where: { isWanted($0.header) }) else { return nil }
        return try lastIntroduced.withLock { (last) throws(ReaderError) in
            if let last, last.place == place { return last.names }
            let decoded = try blocks[place].decode(
                [.dictionary], checksRest: false, ReadBuffer(), BlockDecoder(), into: BlockRows())
            let names = NamesOfBlock(decoded)
            last = (place, names)
            return names
        }
    }
}
