// packet → decode → ring → admit → [block] → [segment] → compaction → [snapshot] → query

/// One fixed field of a header: where it stands and how many bytes it has. The tables of these are what
/// encoders and decoders go by, and what a test holds against the tables of `docs/format/*.md`.
package struct FormatField: Hashable, Sendable {
    package let name: String
    package let offset: Int
    package let byteCount: Int

    package init(_ name: String, _ offset: Int, _ byteCount: Int) {
        self.name = name
        self.offset = offset
        self.byteCount = byteCount
    }

    package var end: Int { offset + byteCount }
}
