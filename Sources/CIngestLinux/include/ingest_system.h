#pragma once
#include <stdint.h>

// System calls and library functions that Swift does not see.

// Glibc's module shows Swift neither renameat2 nor fallocate: both need _GNU_SOURCE.

/// renameat2(2) with RENAME_NOREPLACE: fails with EEXIST where the new name is taken.
int ingest_rename_exclusive(
    int directory, const char *name, int new_directory, const char *new_name);

/// fallocate(2) with mode 0: reserves the range and grows the file over it.
int ingest_allocate(int descriptor, int64_t offset, int64_t byte_count);

// glibc declares pthread_setname_np for _GNU_SOURCE only, which Swift's import of it does not define.
// Names the calling thread; at most 15 bytes are kept.
void ingest_thread_name(const char *name);
