// packet → [tag] → decode → …

import IngestFormat

/// One key of a keys file: what it tags, and for whom it holds.
///
/// A class, so that a look-up per packet retains once.
package final class PacketKey: Sendable {
    /// 1 … 65,535, as in the packet's header.
    package let id: UInt16
    package let tag: TagKey
    /// The only sender that may use this key; `nil` = any.
    package let sender: SenderID?
    /// The only business whose events this key may send, as UTF-8; `nil` = any.
    package let business: [UInt8]?

    package init(id: UInt16, key: [UInt8], sender: SenderID? = nil, business: [UInt8]? = nil) {
        self.id = id
        tag = TagKey(key)
        self.sender = sender
        self.business = business
    }

    /// Whether a packet of this sender may be tagged with this key.
    package func isFor(_ sender: SenderID) -> Bool { self.sender == nil || self.sender == sender }
}
