// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// Rows, new names, new keys and ledger entries → the bytes of one block. Owned by the commit stage.
package final class BlockEncoder {
    package init() {}

    /// Encodes one block.
    ///
    /// The caller closes a block before a count passes its limit (`Limits.blockEventCountMax`,
    /// `blockNameCountMax`, `blockKeyCountMax`, `blockSenderCountMax`, `blockSequenceRangeCountMax`).
    package func encode(
        rows: BlockRows, names: NewNames, keys: [RewardKey], ledger: [LedgerEntry],
        context: BlockContext, into buffer: BlockBuffer
    ) -> BlockSummary {
        fatalError("being written")
    }
}
