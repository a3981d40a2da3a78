/// What each target may import. Nothing downstream is imported upstream, the data plane knows no
/// Foundation, and a new dependency is a decision: it has a page in docs/decisions.
enum ImportRules {
    /// What comes with the compiler and allocates nothing by itself.
    static let system: Set<String> = ["Glibc", "Synchronization"]

    static let allowed: [String: Set<String>] = [
        "IngestFormat": ["CLZ4", "CIngestLinux"],
        // Engines: folds, merges and laws over what IngestFormat decodes; no files.
        "IngestCounting": ["CIngestLinux", "IngestFormat"],
        // Pure functions; no engine.
        "IngestRules": ["IngestFormat"],
        // swift-crypto brings FoundationEssentials, and nobody else of the data path shall see it.
        "IngestKeys": system.union(["IngestFormat", "Crypto"]),
        "IngestRing": ["CIngestLinux", "Synchronization"],
        "IngestStorage": system.union([
            "IngestFormat", "IngestCounting", "CIngestLinux", "SystemPackage",
        ]),
        "IngestPipeline": system.union([
            "IngestFormat", "IngestCounting", "IngestRules", "IngestKeys", "IngestRing",
            "IngestStorage", "CIngestLinux", "Dispatch", "Logging", "SystemPackage",
        ]),
        "IngestClient": system.union([
            "IngestFormat", "IngestKeys", "IngestStorage", "CIngestLinux", "Dispatch",
        ]),
        "IngestReader": system.union([
            "IngestFormat", "IngestCounting", "IngestRules", "IngestStorage", "Dispatch",
        ]),
        // The recount is independent of what it checks: no engine, neither the daemon's nor the reader's, but the
        // pure rules, of which `DeepCheck` judges rows by those of their time.
        "IngestVerify": system.union([
            "IngestFormat", "IngestRules", "IngestStorage", "CIngestLinux", "Dispatch",
        ]),
        "Ingestd": system.union([
            "IngestPipeline", "IngestKeys", "IngestStorage", "IngestFormat", "ArgumentParser",
            "Dispatch", "Foundation", "Logging",
        ]),
        "IngestReaderTool": system.union([
            "IngestReader", "IngestVerify", "IngestStorage", "IngestFormat", "ArgumentParser",
            "SystemPackage", "Dispatch",
        ]),
        "IngestReaderProgram": system.union(["IngestReaderTool"]),
        // `Data` is what GRDB takes for bytes.
        "IngestReaderSQLite": system.union([
            "IngestReaderTool", "IngestReader", "GRDB", "Foundation",
        ]),
        "IngestSend": system.union([
            "IngestClient", "IngestStorage", "IngestFormat", "CIngestLinux", "ArgumentParser",
            "Dispatch",
        ]),
        "IngestBench": system.union([
            "IngestClient", "IngestReader", "IngestVerify", "IngestKeys", "IngestPipeline",
            "IngestStorage", "IngestFormat", "IngestCounting", "IngestRing", "CIngestLinux",
            "ArgumentParser", "Dispatch", "Foundation",
        ]),
    ]
}
