#include "ingest_files.h"

#include <fcntl.h>
#include <stdio.h>

_Static_assert(sizeof(off_t) == sizeof(int64_t), "offsets are 64 bits");

int ingest_rename_exclusive(
    int directory, const char *name, int new_directory, const char *new_name) {
    return renameat2(directory, name, new_directory, new_name, RENAME_NOREPLACE);
}

int ingest_allocate(int descriptor, int64_t offset, int64_t byte_count) {
    return fallocate(descriptor, 0, offset, byte_count);
}
