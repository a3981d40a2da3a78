import Foundation
import TestSupport
import Testing

/// A daemon behind a bad network that is killed and started again, for a sender that has to deliver all the same.
struct FaultyNetwork {
    let folder: TemporaryFolder
    let reader: Reader
    let proxy: ImpairingProxy
    private let options: [String]
    private var daemon: DaemonProcess

    init(
        in folder: TemporaryFolder, seed: UInt64,
        _ chances: ImpairingProxy.Chances = ImpairingProxy.Chances(), _ options: [String] = []
    ) throws {
        self.folder = folder
        self.options = options
        reader = Reader(folder: folder)
        daemon = try DaemonProcess(in: folder, options)
        proxy = ImpairingProxy(to: daemon.port, seed: seed, chances)
    }

    /// Where a sender sends to.
    var address: String { "127.0.0.1:\(proxy.port)" }

    /// `kill -9` once so many events are visible, and another daemon on the directory.
    mutating func killDaemon(whenVisible threshold: Int, unless isOver: () -> Bool) throws {
        let isReached = try eventually {
            let totals = try reader.totals()
            let count = totals["impressions", default: 0] + totals["clicks", default: 0]
            return count >= threshold || isOver()
        }
        #expect(isReached)
        daemon.kill()
        daemon = try DaemonProcess(in: folder, options)
        proxy.retarget(daemon.port)
    }

    /// Every event of the model once in every table, and nothing open, missing or different. The end of all.
    func check(_ model: EventModel? = nil) throws {
        let tables = try reader.tables()
        if let model {
            #expect(try EventModel.counts(of: tables.rewards) == model.rewards)
            #expect(try EventModel.counts(of: tables.days) == model.days)
        }
        #expect(daemon.stop().code == 0)
        #expect(try reader.run("verify").code == 0)
        #expect(try reader.tables() == tables)
        proxy.stop()
    }
}
