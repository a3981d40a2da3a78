import IngestStorage

/// What a power cut and a failed sync leave of the changes that were not synced.
extension SimulatedDiskState {
    static let sectorByteCount = 512

    /// How much of what was not synced survives. Drawn once a cut, so that the plain cases (all, nothing)
    /// come as often as the mixed ones.
    private enum Survival: UInt64 {
        case nothing, everything, half, most, few

        mutating func draw(_ random: inout SeededRandom) -> Bool {
            switch self {
            case .nothing: false
            case .everything: true
            case .half: random.below(2) == 0
            case .most: random.below(8) != 0
            case .few: random.below(8) == 0
            }
        }
    }

    mutating func powerCut(seed: UInt64, garbledSectorByteCount: Int) {
        random = SeededRandom(seed: seed)
        if garbledSectorByteCount > 0 { garbleSectors(of: garbledSectorByteCount) }
        cutNames()
        var survival = drawSurvival()
        for index in inodes.indices { cutFile(index, &survival) }
        names = durableNames
        startProcess()
    }

    /// What both ends of a process share: nothing open, no lock, no fault left.
    mutating func startProcess() {
        locked = []
        openCounts = [:]
        leases = [:]
        nameless = []
        crashPoint = .max
        failures = []
        isDown = false
        operationCount = 0
        readByteCount = 0
        callCounts = [:]
    }

    /// A failed sync: some of it reached the disk, the rest never will, and nobody is told again.
    mutating func loseUnsynced(_ inode: Int) {
        let seen = inodes[inode].current
        var survival = drawSurvival()
        cutFile(inode, &survival)
        inodes[inode].current = seen
    }

    private mutating func drawSurvival() -> Survival {
        Survival(rawValue: random.below(5)) ?? .half
    }

    private mutating func cutNames() {
        var survival = drawSurvival()
        var lost: [NameChange] = []
        for change in nameChanges {
            if lost.contains(where: { $0.touches(change) }) || !survival.draw(&random) {
                lost.append(change)
            } else {
                applyDurably(change)
            }
        }
        nameChanges = []
        // What lay in a directory that is gone is gone with it.
        durableNames = durableNames.filter { path, _ in
            let directory = Self.directory(of: path).dropLast()
            return directory.isEmpty || durableNames[String(directory)] == .directory
        }
    }

    private mutating func cutFile(_ index: Int, _ survival: inout Survival) {
        for change in inodes[index].pending {
            switch change {
            case .resize:
                if survival.draw(&random) { inodes[index].applyDurably(change) }
            case .write(let offset, let bytes):
                cutWrite(index, offset, bytes, &survival)
            }
        }
        inodes[index].pending = []
        inodes[index].current = inodes[index].durable
    }

    /// Leaves garbage in half of the sectors that were being written to in segments.
    private mutating func garbleSectors(of byteCount: Int) {
        for (path, entry) in names {
            guard path.hasSuffix(".segment"), case .file(let index) = entry else { continue }
            var sectors: Set<Int> = []
            for case .write(let offset, let bytes) in inodes[index].pending where !bytes.isEmpty {
                sectors.formUnion(offset / byteCount...(offset + bytes.count - 1) / byteCount)
            }
            for sector in sectors.sorted() where random.below(2) == 0 {
                let garbage = (0..<byteCount).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                inodes[index].applyDurably(.write(sector * byteCount, garbage))
            }
        }
    }

    /// Each sector of the write for itself.
    private mutating func cutWrite(
        _ index: Int, _ offset: Int, _ bytes: [UInt8], _ survival: inout Survival
    ) {
        var start = 0
        while start < bytes.count {
            let sectorEnd =
                (offset + start) / Self.sectorByteCount * Self.sectorByteCount
                + Self.sectorByteCount
            let end = min(bytes.count, sectorEnd - offset)
            if survival.draw(&random) {
                inodes[index].applyDurably(.write(offset + start, Array(bytes[start..<end])))
            }
            start = end
        }
    }
}

extension SimulatedInode {
    mutating func applyDurably(_ change: Change) { Self.apply(change, to: &durable) }
}
