// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The owners file: which business owns a reward, in the place of the one that the log says (decision 52).
///
/// **Layout** A line a reward, of at most `Limits.ownersLineByteCountMax` bytes, fields apart by blanks:
/// `rewardId businessId`, of which `%XX` is the byte with these hexadecimal digits: a blank, a `%`, a `#` at the start. Empty
/// lines, and what follows a `#` at the start of a field, mean nothing.
/// **Units** About 200 bytes of memory a line.
package struct RewardOwners: Sendable {
    private var owners: [[UInt8]: [UInt8]] = [:]

    package init() {}

    /// Rewards.
    package var count: Int { owners.count }

    /// **Errors** `Fault` for the first line that breaks a rule. An empty file is valid.
    package init(_ bytes: [UInt8]) throws(Fault) {
        var number = 0
        for line in bytes.lines {
            number += 1
            guard line.count <= Limits.ownersLineByteCountMax else {
                throw Fault(line: number, cause: .length)
            }
            let fields = line.fields
            if fields.isEmpty { continue }
            guard fields.count == 2 else { throw Fault(line: number, cause: .fields) }
            guard let reward = fields[0].decodedName, let business = fields[1].decodedName else {
                throw Fault(line: number, cause: .name)
            }
            guard owners.updateValue(business, forKey: reward) == nil else {
                throw Fault(line: number, cause: .repeated)
            }
        }
    }

    /// The bytes of the business that owns a reward; `nil` where the log says it.
    package func owner(of reward: [UInt8]) -> [UInt8]? { owners[reward] }

    /// Which line is wrong, and why.
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package enum Cause: Equatable, Sendable {
            case length
            case fields
            case name
            case repeated
        }

        package let line: Int
        package let cause: Cause

        /// What, and what to do.
        package var description: String {
            switch cause {
            case .length: "longer than \(Limits.ownersLineByteCountMax) bytes, shorten the comment"
            case .fields: "not two fields, write rewardId businessId"
            case .name:
                "no id, write 1 to \(Limits.nameByteCountMax) bytes of UTF-8, a blank as %20 and a % as %25"
            case .repeated: "the same reward a second time, remove one"
            }
        }
    }
}
