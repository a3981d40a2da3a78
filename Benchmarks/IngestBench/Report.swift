import Foundation

/// Figures as a person reads them: one a line, name to the left.
enum Report {
    static func heading(_ text: String) {
        print("\n\(text)")
        // Into a file too as it goes on, as each line does: a run takes minutes.
        fflush(nil)
    }

    /// - Parameter goal: what the figure is to reach, where something is asked for.
    static func line(_ name: String, _ value: String, goal: String? = nil) {
        let asked = goal.map { "   (goal: \($0))" } ?? ""
        print("  " + name.padding(toLength: 26, withPad: " ", startingAt: 0) + value + asked)
        fflush(nil)
    }

    static func machine(directory: String) {
        heading("machine")
        for fact in MachineFacts(directory: directory).lines { line(fact.name, fact.value) }
    }
}

func fixed(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }

/// 1234567 → 1,234,567
func grouped(_ value: some BinaryInteger) -> String {
    var text = ""
    for (i, digit) in String(value).reversed().enumerated() {
        if i > 0, i % 3 == 0, digit != "-" { text.append(",") }
        text.append(digit)
    }
    return String(text.reversed())
}

func mebibytes(_ byteCount: some BinaryInteger) -> String {
    fixed(Double(byteCount) / Double(1 << 20), 1) + " MiB"
}

/// The value below which `share` of the sorted values lie (nearest rank).
func percentile(_ sorted: [Double], _ share: Double) -> Double {
    guard !sorted.isEmpty else { return .nan }
    let rank = Int((share * Double(sorted.count)).rounded(.up))
    return sorted[min(sorted.count - 1, max(0, rank - 1))]
}
