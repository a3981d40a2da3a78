#include "ingest_system.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(off_t) == sizeof(int64_t), "offsets are 64 bits");

int ingest_rename_exclusive(
    int directory, const char *name, int new_directory, const char *new_name) {
    return renameat2(directory, name, new_directory, new_name, RENAME_NOREPLACE);
}

int ingest_allocate(int descriptor, int64_t offset, int64_t byte_count) {
    return fallocate(descriptor, 0, offset, byte_count);
}

void ingest_thread_name(const char *name) {
    char kept[16];  // the kernel's TASK_COMM_LEN, with the end
    strncpy(kept, name, sizeof kept - 1);
    kept[sizeof kept - 1] = 0;
    (void)pthread_setname_np(pthread_self(), kept);
}
