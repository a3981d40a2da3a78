// The program behind scripts/fuzz: runs one target of the registry under libFuzzer, or on files.
import FuzzTargets
import Glibc

#if LIBFUZZER
    @_silgen_name("LLVMFuzzerRunDriver")
    private func runLibFuzzer(
        _ argumentCount: UnsafeMutablePointer<Int32>,
        _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
        _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    ) -> Int32
#endif

private let usage = """
    usage: IngestFuzz list                     the names of the targets
           IngestFuzz seeds NAME DIRECTORY     writes the target's seeds, a file each
           IngestFuzz run NAME FILE...         runs the target on the files, as a failure is repeated
           IngestFuzz fuzz NAME [ARGUMENT...]  runs libFuzzer (builds of scripts/fuzz only)
    """

private func stop(_ message: String) -> Never {
    let line = "\(message)\n"
    _ = Glibc.write(2, line, line.utf8.count)
    exit(64)
}

private func load(_ path: String) -> [UInt8] {
    guard let file = fopen(path, "rb") else { stop("IngestFuzz: \(path): cannot be opened") }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(byte)) }
    return bytes
}

private func save(_ bytes: [UInt8], _ path: String) {
    guard let file = fopen(path, "wb") else { stop("IngestFuzz: \(path): cannot be written") }
    fwrite(bytes, 1, bytes.count, file)
    fclose(file)
}

private let arguments = CommandLine.arguments
private let fuzzed: FuzzTarget = {
    if arguments.count > 1, arguments[1] == "list" {
        for target in FuzzRegistry.targets { print(target.name) }
        exit(0)
    }
    guard arguments.count > 2, let target = FuzzRegistry.target(named: arguments[2]) else {
        stop(usage)
    }
    return target
}()

switch arguments[1] {
case "seeds" where arguments.count == 4:
    for (number, seed) in fuzzed.seeds().enumerated() {
        save(seed, "\(arguments[3])/seed-\(number)")
    }
case "run":
    for path in arguments[3...] { fuzzed.run(load(path)) }
#if LIBFUZZER
    case "fuzz":
        var argumentCount = CommandLine.argc - 2
        var rest = CommandLine.unsafeArgv + 2
        rest[0] = CommandLine.unsafeArgv[0]
        exit(
            runLibFuzzer(&argumentCount, &rest) { bytes, count in
                fuzzed.run(UnsafeRawBufferPointer(start: bytes, count: count))
                return 0
            })
#endif
default: stop(usage)
}
