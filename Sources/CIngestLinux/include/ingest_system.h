#pragma once
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

// System calls and library functions that Swift does not see.

// Glibc's module shows Swift neither renameat2 nor fallocate: both need _GNU_SOURCE.

/// renameat2(2) with RENAME_NOREPLACE: fails with EEXIST where the new name is taken.
int ingest_rename_exclusive(
    int directory, const char *name, int new_directory, const char *new_name);

/// renameat2(2) with RENAME_EXCHANGE: the two files change names.
int ingest_rename_exchange(int directory, const char *name, const char *other);

/// fallocate(2) with mode 0: reserves the range and grows the file over it.
int ingest_allocate(int descriptor, int64_t offset, int64_t byte_count);

// glibc declares statx for _GNU_SOURCE only.
/// When a file was made, in nanoseconds since 1970, by statx(2); 0 where its file system does not keep that.
uint64_t ingest_birth_nanoseconds(int descriptor);

// fcntl(2) takes a variable argument, and the commands of open-file-description locks need _GNU_SOURCE.

/// Holds a shared lock on the bytes from `first` on, and lets go of those before it. -1 and errno where it cannot.
int ingest_lease(int descriptor, int64_t first);

/// 1 where another open file has a lock on the byte, 0 where none has, -1 and errno where that is not known.
int ingest_is_leased(int descriptor, int64_t byte);

// glibc declares ppoll for _GNU_SOURCE only.
/// ppoll(2) for something to read from either of two descriptors (-1 = none): waits so long at most; bit i of the result says
/// that descriptor i is ready.
int ingest_wait_readable(int first, int second, uint64_t nanoseconds_max);

// glibc declares sem_clockwait for _GNU_SOURCE only.
/// sem_clockwait(3) by CLOCK_MONOTONIC: waits so long at most, signals or not; whether one unit was taken.
bool ingest_semaphore_wait(sem_t *semaphore, uint64_t nanoseconds_max);

// glibc declares pthread_setname_np for _GNU_SOURCE only, which Swift's import of it does not define.
// Names the calling thread; at most 15 bytes are kept.
void ingest_thread_name(const char *name);

// futex has no libc function, and Swift does not import `syscall`, which is variadic. Sleeps while
// *word == expected, until it is woken, a signal comes or the time is up; whether it was the last.
bool ingest_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_nanoseconds);

// Likewise. Wakes one thread that sleeps on the word.
void ingest_futex_wake(uint32_t *word);
