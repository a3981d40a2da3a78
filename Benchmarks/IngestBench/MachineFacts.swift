import Foundation

/// What a figure cannot be read without: printed with every run.
struct MachineFacts {
    let lines: [(name: String, value: String)]

    init(directory: String) {
        lines = [
            ("machine", Self.machine()),
            ("memory", Self.memory()),
            ("network", "loopback, MTU \(Self.trimmed("/sys/class/net/lo/mtu"))"),
            ("rmem_max", "\(Self.trimmed("/proc/sys/net/core/rmem_max")) bytes"),
            ("directory on", Self.fileSystem(of: directory)),
            ("build", Self.build()),
            ("commit", Self.commit()),
        ]
    }

    private static func machine() -> String {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let kernel = trimmed("/proc/sys/kernel/osrelease")
        let kind = isVirtual ? "virtual" : "bare metal"
        return "\(processor()), \(cores) cores, Linux \(kernel), \(kind)"
    }

    private static func processor() -> String {
        let lines = textIfThere("/proc/cpuinfo").split(separator: "\n")
        let line = lines.first { $0.hasPrefix("model name") } ?? "unknown processor"
        let name = line.split(separator: ":").last.map(String.init) ?? ""
        return name.trimmingCharacters(in: .whitespaces)
    }

    private static var isVirtual: Bool {
        textIfThere("/proc/cpuinfo").contains(" hypervisor")
    }

    private static func memory() -> String {
        let gigabytes = Double(ProcessInfo.processInfo.physicalMemory) / Double(1 << 30)
        let pages = trimmed("/sys/kernel/mm/transparent_hugepage/enabled")
        return "\(fixed(gigabytes, 1)) GiB, huge pages \(pages)"
    }

    /// The line of /proc/mounts whose mount point is the longest prefix of the directory.
    private static func fileSystem(of directory: String) -> String {
        let path = URL(fileURLWithPath: directory).standardizedFileURL.path + "/"
        var best: [Substring] = []
        for line in textIfThere("/proc/mounts").split(separator: "\n") {
            let mount = line.split(separator: " ")
            guard mount.count > 3 else { continue }
            let point = mount[1] == "/" ? "/" : "\(mount[1])/"
            if path.hasPrefix(point), best.isEmpty || mount[1].count >= best[1].count {
                best = mount
            }
        }
        return best.isEmpty ? "unknown" : "\(best[2]) (\(best[3]))"
    }

    private static func build() -> String {
        #if DEBUG
            let mode = "DEBUG, figures mean nothing"
        #else
            let mode = "release"
        #endif
        return "\(mode), \(trimmed(output("swift", "--version")))"
    }

    private static func commit() -> String {
        let commit = trimmed(output("git", "rev-parse", "--short=12", "HEAD"))
        if commit.isEmpty { return "unknown (not in a checkout)" }
        let isClean = output("git", "status", "--porcelain", "-uno").isEmpty
        return commit + (isClean ? "" : " with changes")
    }

    private static func trimmed(_ pathOrText: String) -> String {
        let all = pathOrText.hasPrefix("/") ? (try? text(pathOrText)) ?? "unknown" : pathOrText
        return String(all.split(separator: "\n").first ?? "")
    }

    private static func output(_ command: String...) -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return "" }
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
