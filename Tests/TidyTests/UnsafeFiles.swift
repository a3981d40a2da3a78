/// The files in which `unsafe` may appear, each with its reason. A file leaves the list when its last
/// `unsafe` does.
enum UnsafeFiles {
    static let reasons: [String: String] = [:]
}
