// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys of a range of ordinals in a file of their own, so that they outlive their segments.
///
/// **Layout** docs/format/names.md: a fixed header of 128 bytes, pages of five kinds, the page index. A name of no
/// bytes and a key without names stand for ordinals that were lost with their block.
package struct NamesRun: Hashable, Sendable {
    package let header: Header
    package var names: Range<UInt32> { header.names }
    package var keys: Range<UInt32> { header.keys }
    private let nameBytes: [UInt8]
    /// End of each name in `nameBytes`; it starts where the one before ends.
    private let nameEnds: [UInt32]
    private let pairs: [RewardKey]

    /// The bytes of a name; empty for one that was lost.
    /// - Parameter ordinal: in `names`.
    package func name(_ ordinal: NameOrdinal) -> ArraySlice<UInt8> {
        precondition(names.contains(ordinal.rawValue))
        let place = Int(ordinal.rawValue - names.lowerBound)
        let start = place == 0 ? 0 : Int(nameEnds[place - 1])
        return nameBytes[start..<Int(nameEnds[place])]
    }

    /// The names of a key; `nil` for one that was lost.
    /// - Parameter ordinal: in `keys`.
    package func key(_ ordinal: KeyOrdinal) -> RewardKey? {
        precondition(keys.contains(ordinal.rawValue))
        let pair = pairs[Int(ordinal.rawValue - keys.lowerBound)]
        return pair.reward == .none ? nil : pair
    }

    /// What is shown for a name or key that was lost with its block.
    package static func lostText(_ ordinal: UInt32) -> String { "(lost:\(ordinal))" }

    /// Checks and decodes a whole names run.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - fileNumber: the one in the file's name; `nil` = any.
    ///   - hash: the directory's; `nil` = hashes are not held against the names.
    /// **Errors** those of `Header.decode`; `torn` for fewer bytes than the header says; else `corrupt`, also for
    /// orders that do not have each name and key once.
    /// **Cost** The memory of the names, and 24 bytes a name or key.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil,
        hash: KeyedHash? = nil
    ) throws(FormatError) -> NamesRun {
        let header = try Header.decode(bytes, directory: directory, fileNumber: fileNumber)
        var decoder = try NamesRunDecoder(bytes, header: header)
        try decoder.decodeNames()
        try decoder.checkRanks()
        try decoder.decodeKeys()
        try decoder.checkHashes(hash)
        try decoder.checkRewards()
        return NamesRun(
            header: header, nameBytes: decoder.nameBytes, nameEnds: decoder.nameEnds,
            pairs: decoder.pairs)
    }
}
