#include "ingest_ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const size_t huge_page_byte_count = 2u << 20;

_Static_assert(sizeof(time_t) == 8, "SYS_futex takes 64-bit seconds on this platform");
_Static_assert(sizeof(uint32_t) == 4, "a futex word is 32 bits");

static size_t rounded_up(size_t byte_count) {
    return (byte_count + huge_page_byte_count - 1) & ~(huge_page_byte_count - 1);
}

void *ingest_pages_map(size_t byte_count) {
    if (byte_count == 0 || byte_count > SIZE_MAX / 2) return NULL;
    // One huge page more than asked for, so that an aligned start lies inside; the rest goes back.
    size_t wanted = rounded_up(byte_count);
    size_t mapped = wanted + huge_page_byte_count;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *aligned = (char *)rounded_up((size_t)start);
    size_t before = (size_t)(aligned - start), after = mapped - wanted - before;
    if (before > 0) munmap(start, before);
    if (after > 0) munmap(aligned + wanted, after);
    // Advice only: without huge pages everything still holds, a little slower.
    (void)madvise(aligned, wanted, MADV_HUGEPAGE);
    return aligned;
}

void ingest_pages_unmap(void *pages, size_t byte_count) {
    if (pages != NULL) munmap(pages, rounded_up(byte_count));
}

void *ingest_pages_grow(void *pages, size_t old_byte_count, size_t byte_count) {
    size_t kept = rounded_up(old_byte_count);
    if (pages == NULL || byte_count < kept) return NULL;
    void *larger = ingest_pages_map(byte_count);
    if (larger == NULL) return NULL;
    if (mremap(pages, kept, kept, MREMAP_MAYMOVE | MREMAP_FIXED, larger) != MAP_FAILED) return larger;
    ingest_pages_unmap(larger, byte_count);
    return NULL;
}

void ingest_pages_forget(void *pages, size_t first, size_t end) {
    size_t from = rounded_up(first), to = end & ~(huge_page_byte_count - 1);
    if (from < to) (void)madvise((char *)pages + from, to - from, MADV_DONTNEED);
}

void ingest_pages_populate(void *pages, size_t first, size_t end) {
    size_t from = first & ~(huge_page_byte_count - 1);
    if (from < end) (void)madvise((char *)pages + from, rounded_up(end) - from, MADV_POPULATE_WRITE);
}

bool ingest_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_nanoseconds) {
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_nanoseconds / 1000000000u),
        .tv_nsec = (long)(timeout_nanoseconds % 1000000000u),
    };
    long answer = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &timeout, NULL, 0);
    return answer < 0 && errno == ETIMEDOUT;
}

void ingest_futex_wake(uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
