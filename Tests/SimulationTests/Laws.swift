import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

/// What holds after every scenario, however it ended and whatever is still to be recovered: the laws of packets and
/// of events, and all else that `verify` holds against the rows.
enum Laws {
    static func expectKept(in files: SimulatedFileSystem) {
        do {
            // A look from outside: no fault that is still to come hits it, and it counts as no operation.
            let report = try Verifier.run(files.disk.copy(), workerCount: 1)
            let differences = report.findings.filter { $0.kind == .difference }
            #expect(differences.isEmpty, "\(differences)")
        } catch {
            // The directory was only being made.
            switch error.cause {
            case .missingManifest, .missingDirectory, .notFound: break
            default: Issue.record("\(error)")
            }
        }
    }
}
