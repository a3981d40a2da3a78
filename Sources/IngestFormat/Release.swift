// packet → decode → ring → admit → block → segment → compaction → snapshot → query

/// The number of this release, the same for every program of the project.
package enum Release {
    package static let version = "0.1.0"
    /// The framed packet's version, as its magic names it.
    package static let packetVersion = "IGD1"
}
