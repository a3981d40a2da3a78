// packet → decode → [ring → admit → block → segment → compaction → snapshot] → query
import CIngestLinux
import Glibc

/// A counting semaphore whose time limits follow the monotonic clock.
///
/// Those of Dispatch wait for a point in wall time on Linux (`sem_timedwait`): a clock that is set back meanwhile holds
/// whoever waits for as long.
///
/// **Cost** A signal and a wait that finds one are an atomic operation each; a wait that sleeps is a system call.
@safe package final class WaitSemaphore: @unchecked Sendable {
    // `@unchecked Sendable`: the C functions may be called by any thread.
    private let semaphore: UnsafeMutablePointer<sem_t>

    package init() {
        unsafe semaphore = .allocate(capacity: 1)
        // SAFETY, of all calls: the memory is allocated until `deinit`, and no thread waits without a reference.
        unsafe sem_init(semaphore, 0, 0)
    }

    deinit {
        unsafe sem_destroy(semaphore)
        unsafe semaphore.deallocate()
    }

    package func signal() { unsafe sem_post(semaphore) }

    /// Takes a signal, and waits for it as long as it takes.
    package func wait() { while unsafe sem_wait(semaphore) != 0 && errno == EINTR {} }

    /// Takes a signal, and waits for it so long at most; `false` if none came.
    package func wait(nanosecondsMax: UInt64) -> Bool {
        if unsafe sem_trywait(semaphore) == 0 { return true }
        if nanosecondsMax == 0 { return false }
        return unsafe ingest_semaphore_wait(semaphore, nanosecondsMax)
    }
}
