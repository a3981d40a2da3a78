import Foundation
import Glibc
import TestSupport

/// A pseudo-terminal: a program writes to one end as to a terminal, the test reads at the other.
final class Terminal {
    private let master: Int32
    private let terminal: Int32
    /// Everything that was written to it so far.
    private(set) var output = ""

    // TIOCSPTLCK and TIOCGPTN, macros that Swift does not import.
    private static let setLock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    struct Failed: Error { let call: String }

    init(columnCount: UInt16, lineCount: UInt16) throws {
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        var isLocked: Int32 = 0
        var number: Int32 = 0
        guard master >= 0, ioctl(master, Self.setLock, &isLocked) == 0,
            ioctl(master, Self.getNumber, &number) == 0
        else { throw Failed(call: "open /dev/ptmx") }
        terminal = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else { throw Failed(call: "open") }
        resize(columnCount: columnCount, lineCount: lineCount)
    }

    deinit {
        close(master)
        close(terminal)
    }

    func resize(columnCount: UInt16, lineCount: UInt16) {
        var window = winsize(ws_row: lineCount, ws_col: columnCount, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &window)
    }

    /// Starts a program whose standard output it is.
    func start(_ program: String, _ arguments: [String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Programs.path(program))
        process.arguments = arguments
        process.standardOutput = FileHandle(fileDescriptor: terminal, closeOnDealloc: false)
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Takes what was written meanwhile.
    func read() {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Glibc.read(master, &bytes, bytes.count)
            if count <= 0 { return }
            output += String(decoding: bytes[..<count], as: UTF8.self)
        }
    }

    /// What was drawn last, a line each, without what moves the cursor.
    var lastDrawing: [String] {
        let drawing = output.components(separatedBy: "\u{1b}[H").last ?? ""
        return drawing.components(separatedBy: "\u{1b}[J")[0]
            .replacing("\u{1b}[K", with: "")
            .unicodeScalars.filter { $0 != "\r" }.split(
                separator: "\n", omittingEmptySubsequences: false
            )
            .map { String(String.UnicodeScalarView($0)) }
    }

    var drawingCount: Int { output.components(separatedBy: "\u{1b}[H").count - 1 }
}
