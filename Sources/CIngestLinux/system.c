#include "ingest_system.h"

#include "ingest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(time_t) == 8, "SYS_futex takes 64-bit seconds on this platform");
_Static_assert(sizeof(uint32_t) == 4, "a futex word is 32 bits");
_Static_assert(sizeof(off_t) == sizeof(int64_t), "offsets are 64 bits");

int ingest_rename_exclusive(
    int directory, const char *name, int new_directory, const char *new_name) {
    return renameat2(directory, name, new_directory, new_name, RENAME_NOREPLACE);
}

int ingest_rename_exchange(int directory, const char *name, const char *other) {
    return renameat2(directory, name, directory, other, RENAME_EXCHANGE);
}

int ingest_allocate(int descriptor, int64_t offset, int64_t byte_count) {
    return fallocate(descriptor, 0, offset, byte_count);
}

uint64_t ingest_birth_nanoseconds(int descriptor) {
    struct statx found;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &found) != 0) return 0;
    if (!(found.stx_mask & STATX_BTIME) || found.stx_btime.tv_sec < 0) return 0;
    return (uint64_t)found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
}

static struct flock lock_of(short type, int64_t first, int64_t byte_count) {
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = byte_count};
}

int ingest_lease(int descriptor, int64_t first) {
    struct flock held = lock_of(F_RDLCK, first, 0);
    if (fcntl(descriptor, F_OFD_SETLK, &held) != 0) return -1;
    struct flock passed = lock_of(F_UNLCK, 0, first);
    return first == 0 ? 0 : fcntl(descriptor, F_OFD_SETLK, &passed);
}

int ingest_is_leased(int descriptor, int64_t byte) {
    struct flock wanted = lock_of(F_WRLCK, byte, 1);
    if (fcntl(descriptor, F_OFD_GETLK, &wanted) != 0) return -1;
    return wanted.l_type != F_UNLCK;
}

void ingest_thread_name(const char *name) {
    char kept[16];  // the kernel's TASK_COMM_LEN, with the end
    strncpy(kept, name, sizeof kept - 1);
    kept[sizeof kept - 1] = 0;
    (void)pthread_setname_np(pthread_self(), kept);
}

int ingest_wait_readable(int first, int second, uint64_t nanoseconds_max) {
    struct pollfd ends[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    struct timespec limit = {
        .tv_sec = (time_t)(nanoseconds_max / 1000000000),
        .tv_nsec = (long)(nanoseconds_max % 1000000000)};
    if (ppoll(ends, 2, &limit, NULL) <= 0) return 0;
    return (ends[0].revents != 0) | (ends[1].revents != 0) << 1;
}

bool ingest_semaphore_wait(sem_t *semaphore, uint64_t nanoseconds_max) {
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    uint64_t nanoseconds = (uint64_t)limit.tv_nsec + nanoseconds_max % 1000000000;
    limit.tv_sec += (time_t)(nanoseconds_max / 1000000000 + nanoseconds / 1000000000);
    limit.tv_nsec = (long)(nanoseconds % 1000000000);
    while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &limit) != 0) {
        if (errno != EINTR) return false;
    }
    return true;
}

static const size_t huge_page_byte_count = 2u << 20;

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

bool ingest_pages_populate(void *pages, size_t first, size_t end) {
    size_t from = first & ~(huge_page_byte_count - 1);
    return from >= end || madvise((char *)pages + from, rounded_up(end) - from, MADV_POPULATE_WRITE) == 0;
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
