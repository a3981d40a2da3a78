#include "ingest_system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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
