// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The owners file: which business owns a reward, in the place of the one that the log says (decision 52).
///
/// **Layout** A line a reward, fields apart by blanks: `rewardId businessId`; empty lines, and what follows a `#` at the start
/// of a field, mean nothing.
/// **Units** About 200 bytes of memory a line.
package struct RewardOwners: Sendable {
    private var owners: [[UInt8]: [UInt8]] = [:]

    package init() {}

    /// Rewards.
    package var count: Int { owners.count }

    /// **Errors** `Fault` for the first line that breaks a rule. An empty file is valid.
    package init(_ bytes: [UInt8]) throws(Fault) {
        var number = 0
        for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
            number += 1
            let fields = line.fields
            if fields.isEmpty { continue }
            guard fields.count == 2 else { throw Fault(line: number, cause: .fields) }
            for field in fields where !Self.isName(field) {
                throw Fault(line: number, cause: .name)
            }
            guard owners.updateValue(Array(fields[1]), forKey: Array(fields[0])) == nil else {
                throw Fault(line: number, cause: .repeated)
            }
        }
    }

    private static func isName(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count <= Limits.nameByteCountMax && String(validating: bytes, as: UTF8.self) != nil
    }

    /// The bytes of the business that owns a reward; `nil` where the log says it.
    package func owner(of reward: [UInt8]) -> [UInt8]? { owners[reward] }

    /// Which line is wrong, and why.
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package enum Cause: Equatable, Sendable {
            case fields
            case name
            case repeated
        }

        package let line: Int
        package let cause: Cause

        /// What, and what to do.
        package var description: String {
            switch cause {
            case .fields: "not two fields, write rewardId businessId"
            case .name: "no id, write 1 to \(Limits.nameByteCountMax) bytes of UTF-8"
            case .repeated: "the same reward a second time, remove one"
            }
        }
    }
}
