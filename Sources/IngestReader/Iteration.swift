// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// What the taker of a row wants next.
public enum Iteration: Sendable, Equatable {
    case next
    /// The listing ends, which is no error.
    case stop
}

/// Who takes the rows of a listing, and may throw, though the listing's own errors are all of one type: the error ends
/// the listing, and comes out behind it as it was. Owned by one call.
struct Taker {
    private var error: (any Error)?

    /// What `take` wants next; `.stop` where it throws.
    mutating func hold(_ take: () throws -> Iteration) -> Iteration {
        do { return try take() } catch {
            self.error = error
            return .stop
        }
    }

    /// Whether `take`, which wants all rows, can go on.
    mutating func takes(_ take: () throws -> Void) -> Bool {
        do {
            try take()
            return true
        } catch {
            self.error = error
            return false
        }
    }

    /// To be called when the listing has ended.
    func release() throws {
        if let error { throw error }
    }
}
