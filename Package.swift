// swift-tools-version: 6.2
import PackageDescription

/// The test suite takes five times as long without: debug builds with checks, and optimised. The Makefile asks for it; who
/// depends on the libraries may not get such flags. Why the tests themselves do not have it, but for one: docs/decisions/0059.
let optimised: [SwiftSetting] =
    Context.environment["INGESTD_OPTIMISED"] == "1"
    ? [.unsafeFlags(["-O"], .when(configuration: .debug))] : []

/// Every target that is part of a program is compiled with the same rules: language mode 6 (by the tools
/// version), strict memory safety, and warnings as errors. Tests are in language mode 6 too; they hand
/// bytes about so freely that marking each place would hide what they test.
let house: [SwiftSetting] =
    [
        .strictMemorySafety(),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ] + optimised

let package = Package(
    name: "ingestd",
    platforms: [.macOS(.v26)],
    products: [
        .executable(name: "ingestd", targets: ["Ingestd"]),
        .executable(name: "ingest-reader", targets: ["IngestReaderProgram"]),
        .executable(name: "ingest-reader-sqlite", targets: ["IngestReaderSQLite"]),
        .executable(name: "ingest-send", targets: ["IngestSend"]),
        .executable(name: "ingest-bench", targets: ["IngestBench"]),
        .library(name: "IngestReader", targets: ["IngestReader"]),
        .library(name: "IngestVerify", targets: ["IngestVerify"]),
        .library(name: "IngestClient", targets: ["IngestClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // MARK: C
        .target(
            name: "CIngestLinux",
            cSettings: [.define("_GNU_SOURCE")]),
        .systemLibrary(
            name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),

        // MARK: The data path, in its order
        .target(
            name: "IngestFormat", dependencies: ["CIngestLinux", "CLZ4"], swiftSettings: house),
        .target(
            name: "IngestCounting", dependencies: ["IngestFormat", "CIngestLinux"],
            swiftSettings: house),
        // The counting rules: pure functions, the only part of the engines that `verify` may have.
        .target(name: "IngestRules", dependencies: ["IngestFormat"], swiftSettings: house),
        .target(
            name: "IngestKeys",
            dependencies: ["IngestFormat", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: house),
        .target(name: "IngestRing", dependencies: ["CIngestLinux"], swiftSettings: house),
        .target(
            name: "IngestStorage",
            dependencies: [
                "IngestFormat", "IngestCounting", "CIngestLinux",
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: house),
        .target(
            name: "IngestPipeline",
            dependencies: [
                "IngestFormat", "IngestCounting", "IngestRules", "IngestKeys", "IngestRing",
                "IngestStorage", "CIngestLinux",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: house),
        .target(
            name: "IngestClient",
            dependencies: ["IngestFormat", "IngestKeys", "IngestStorage", "CIngestLinux"],
            swiftSettings: house),
        .target(
            name: "IngestReader",
            dependencies: [
                "IngestFormat", "IngestCounting", "IngestRules", "IngestStorage", "CIngestLinux",
            ],
            swiftSettings: house),
        // Counts by code of its own: no engine of the daemon, nor of the reader, may be linked to it but
        // the pure rules, by which it judges again, and a loop over vectors in C.
        .target(
            name: "IngestVerify",
            dependencies: ["IngestFormat", "IngestRules", "IngestStorage", "CIngestLinux"],
            swiftSettings: house),

        // MARK: Programs
        .executableTarget(
            name: "Ingestd",
            dependencies: [
                "IngestPipeline", "IngestKeys", "IngestStorage", "IngestFormat",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: house),
        // All of ingest-reader but its `main`: two programs have it.
        .target(
            name: "IngestReaderTool",
            dependencies: [
                "IngestReader", "IngestVerify", "IngestStorage", "IngestFormat",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: house),
        .executableTarget(
            name: "IngestReaderProgram", dependencies: ["IngestReaderTool"],
            swiftSettings: house),
        .executableTarget(
            name: "IngestReaderSQLite",
            dependencies: [
                "IngestReaderTool", "IngestReader",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: house),
        .executableTarget(
            name: "IngestSend",
            dependencies: [
                "IngestClient", "IngestStorage", "IngestFormat", "CIngestLinux",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: house),
        .executableTarget(
            name: "IngestBench",
            dependencies: [
                "IngestClient", "IngestReader", "IngestVerify", "IngestPipeline", "IngestRing",
                "IngestKeys", "IngestStorage", "IngestFormat", "IngestCounting", "CIngestLinux",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Benchmarks/IngestBench",
            swiftSettings: house),

        // MARK: Tests
        // What stands in for disk, clock and sockets, deterministic from a seed.
        .target(
            name: "TestSupport", dependencies: ["IngestStorage", "IngestFormat"],
            path: "Tests/TestSupport", swiftSettings: optimised),
        .target(
            name: "PipelineTestSupport",
            dependencies: ["TestSupport", "IngestPipeline", "CIngestLinux"],
            path: "Tests/PipelineTestSupport", swiftSettings: optimised),
        .testTarget(
            name: "IngestFormatTests",
            dependencies: [
                "IngestFormat", "IngestCounting", "CIngestLinux", "TestSupport",
                .product(name: "SwiftProtobuf", package: "swift-protobuf"),
            ],
            exclude: ["Generated/README.md", "Generated/oracle.proto"]),
        .target(
            name: "FuzzTargets",
            dependencies: ["IngestFormat", "IngestCounting", "IngestStorage", "TestSupport"],
            path: "Tests/FuzzTargets", swiftSettings: optimised),
        .executableTarget(
            name: "IngestFuzz", dependencies: ["FuzzTargets"], path: "Tests/FuzzDriver"),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzTargets"]),
        .testTarget(name: "IngestRulesTests", dependencies: ["IngestRules", "IngestFormat"]),
        .testTarget(
            name: "IngestKeysTests",
            dependencies: [
                "IngestKeys", "IngestFormat", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
            ]),
        .testTarget(name: "IngestRingTests", dependencies: ["IngestRing", "TestSupport"]),
        .testTarget(
            name: "IngestStorageTests",
            dependencies: ["IngestStorage", "IngestCounting", "IngestFormat", "TestSupport"]),
        .testTarget(
            name: "IngestPipelineTests",
            dependencies: [
                "IngestPipeline", "IngestStorage", "IngestFormat", "IngestKeys", "IngestRing",
                "CIngestLinux",
                "TestSupport", "PipelineTestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .testTarget(
            name: "IngestClientTests",
            dependencies: [
                "IngestClient", "IngestSend", "IngestBench", "IngestFormat", "IngestKeys",
                "IngestStorage", "CIngestLinux", "TestSupport",
                .product(name: "SwiftProtobuf", package: "swift-protobuf"),
            ]),
        .testTarget(
            name: "IngestReaderTests",
            dependencies: [
                "IngestReader", "IngestReaderTool", "IngestVerify", "IngestPipeline",
                "IngestCounting",
                "IngestStorage", "IngestFormat", "TestSupport", "PipelineTestSupport",
            ]),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "IngestPipeline", "IngestReader", "IngestVerify", "IngestStorage", "IngestFormat",
                "IngestRing", "CIngestLinux", "TestSupport", "PipelineTestSupport",
            ]),
        .testTarget(
            name: "IngestdTests",
            dependencies: [
                "Ingestd", "IngestPipeline", "IngestFormat", "TestSupport", "PipelineTestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .testTarget(
            name: "ProcessTests",
            dependencies: [
                "Ingestd", "IngestReaderProgram", "IngestReaderSQLite", "IngestSend", "IngestBench",
                "IngestReader", "IngestVerify", "IngestKeys", "IngestFormat", "IngestPipeline",
                "IngestRing", "IngestStorage", "TestSupport", "PipelineTestSupport",
            ]),
        .testTarget(
            name: "TidyTests", dependencies: ["IngestFormat", "IngestRing"]),
    ]
)
