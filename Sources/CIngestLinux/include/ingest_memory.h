// Memory operations that Swift has no name for.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Swift has no prefetch intrinsic. A prefetch never faults, whatever the address.
static inline void ingest_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }

static inline uint64_t ingest_word(const void *bytes, size_t offset) {
    uint64_t word;
    memcpy(&word, (const char *)bytes + offset, sizeof word);
    return word;
}

// How many bytes two names begin with in common, `count` at most: what the order of names and their coding ask for.
static inline size_t ingest_shared_byte_count(const void *a, const void *b, size_t count) {
    const unsigned char *left = (const unsigned char *)a;
    const unsigned char *right = (const unsigned char *)b;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t x, y;
        memcpy(&x, left + i, 8);
        memcpy(&y, right + i, 8);
        if (x != y) return i + (size_t)__builtin_ctzll(x ^ y) / 8;
    }
    while (i < count && left[i] == right[i]) i++;
    return i;
}

// Whether `count` bytes are equal. Swift's own comparison of raw buffers goes element by element, and a call of
// memcmp costs more than the name of a reward does: words of 8 bytes, the last of which may overlap.
static inline bool ingest_equal(const void *a, const void *b, size_t count) {
    if (count < 8 || count > 64) return memcmp(a, b, count) == 0;
    uint64_t difference = ingest_word(a, count - 8) ^ ingest_word(b, count - 8);
    for (size_t i = 0; i + 8 < count; i += 8) difference |= ingest_word(a, i) ^ ingest_word(b, i);
    return difference == 0;
}
