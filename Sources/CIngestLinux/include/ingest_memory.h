// Memory operations that Swift has no name for.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// Swift has no prefetch intrinsic. A prefetch never faults, whatever the address.
static inline void ingest_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }

// memcmp for equality alone; Swift's own comparison of raw buffers goes element by element.
static inline bool ingest_equal(const void *a, const void *b, size_t count) {
    return memcmp(a, b, count) == 0;
}
