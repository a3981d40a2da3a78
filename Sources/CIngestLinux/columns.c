// Bit-packed columns → words.
//
// Eight values of w bits are w bytes, so every group of eight begins on a byte and its values lie at the
// same offsets and shifts as those of the group before. A vector of four is made from two loads of 16
// bytes: a byte shuffle moves the 8 bytes of each value into its lane (up to 57 bits, with the 7 before
// them, fit), and one shift by four different counts brings them down.
#include "ingest_columns.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDTH_MAX 57u
#define LOAD_BYTE_COUNT 16

static bool hasInstructions;

__attribute__((constructor)) static void prepare(void) {
    __builtin_cpu_init();
    hasInstructions = __builtin_cpu_supports("avx2");
}

// What brings four values of a group down, from two loads at `first` and `second`.
struct steps {
    size_t first, second;
    uint8_t bytes[32];
    uint64_t shifts[4];
};

static void makeSteps(struct steps *steps, unsigned width, unsigned value) {
    steps->first = value * width / 8;
    steps->second = (value + 2) * width / 8;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned bit = (value + i) * width;
        const size_t start = i < 2 ? steps->first : steps->second;
        steps->shifts[i] = bit % 8;
        for (unsigned b = 0; b < 8; b++)
            steps->bytes[8 * i + b] = (uint8_t)(bit / 8 - start + b);
    }
}

#define WITH_AVX2 __attribute__((target("avx2")))

WITH_AVX2 static inline __m256i four(
    const uint8_t *p, const struct steps *steps, __m256i mask, __m256i base) {
    __m256i bytes = _mm256_loadu2_m128i(
        (const __m128i *)(p + steps->second), (const __m128i *)(p + steps->first));
    bytes = _mm256_shuffle_epi8(bytes, _mm256_loadu_si256((const __m256i *)steps->bytes));
    bytes = _mm256_srlv_epi64(bytes, _mm256_loadu_si256((const __m256i *)steps->shifts));
    return _mm256_add_epi64(_mm256_and_si256(bytes, mask), base);
}

// Whole groups, as many as can be loaded without reading beyond `total` bytes; how many values.
WITH_AVX2 static size_t unpackGroups(
    uint64_t *out, const uint8_t *p, size_t count, size_t total, unsigned width, uint64_t base,
    const struct steps steps[2]) {
    const __m256i masks = _mm256_set1_epi64x((long long)(~(uint64_t)0 >> (64 - width)));
    const __m256i bases = _mm256_set1_epi64x((long long)base);
    const size_t reach = steps[1].second + LOAD_BYTE_COUNT;
    size_t i = 0;
    for (size_t start = 0; i + 8 <= count && start + reach <= total; i += 8, start += width) {
        _mm256_storeu_si256((__m256i *)(out + i), four(p + start, &steps[0], masks, bases));
        _mm256_storeu_si256((__m256i *)(out + i + 4), four(p + start, &steps[1], masks, bases));
    }
    return i;
}

// The rest goes through a copy that has bytes to spare behind it.
WITH_AVX2 static void unpackFast(
    uint64_t *out, const uint8_t *p, size_t count, unsigned width, uint64_t base) {
    struct steps steps[2];
    makeSteps(&steps[0], width, 0);
    makeSteps(&steps[1], width, 4);
    const size_t total = (count * width + 7) / 8;
    size_t done = unpackGroups(out, p, count, total, width, base, steps);
    // Less than reach, or a part of a group: below 2 × WIDTH_MAX + LOAD_BYTE_COUNT.
    uint8_t copy[3 * WIDTH_MAX + 2 * LOAD_BYTE_COUNT] = {0};
    const size_t start = done / 8 * width;
    memcpy(copy, p + start, total - start);
    const size_t more = unpackGroups(
        out + done, copy, count - done, sizeof copy, width, base, steps);
    if (done + more == count) return;
    uint64_t last[8];
    unpackGroups(last, copy + more / 8 * width, 8, sizeof copy - more / 8 * width, width, base, steps);
    memcpy(out + done + more, last, (count - done - more) * sizeof *out);
}
#endif

bool ingest_unpack(
    uint64_t *out, const void *packed, size_t count, unsigned width, uint64_t base) {
#if defined(__x86_64__)
    if (!hasInstructions || width - 1 >= WIDTH_MAX) return false;
    unpackFast(out, packed, count, width, base);
    return true;
#else
    return false;
#endif
}
