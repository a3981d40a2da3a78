// Columns of words ⇄ bit-packed columns.
//
// Eight values of w bits are w bytes, so every group of eight begins on a byte and its values lie at the
// same offsets and shifts as those of the group before. A vector of four is made from two loads of 16
// bytes: a byte shuffle moves the 8 bytes of each value into its lane (up to 57 bits, with the 7 before
// them, fit), and one shift by four different counts brings them down. Packing goes the other way: four
// values of up to 16 bits are shifted apart and joined to a word, two words to the bytes of a group.
#include "ingest_columns.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDTH_MAX 57u
#define LOAD_BYTE_COUNT 16

static bool hasInstructions;

// What brings four values of a group down, from two loads at `first` and `second`.
struct steps {
    size_t first, second;
    uint8_t bytes[32];
    uint64_t shifts[4];
};
// By width; the values 0 to 3 of a group, and 4 to 7.
static struct steps stepsOf[WIDTH_MAX + 1][2];

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

// Runs before main, so the steps are complete before any thread can read them.
__attribute__((constructor)) static void prepare(void) {
    __builtin_cpu_init();
    hasInstructions = __builtin_cpu_supports("avx2");
    for (unsigned width = 1; width <= WIDTH_MAX; width++) {
        makeSteps(&stepsOf[width][0], width, 0);
        makeSteps(&stepsOf[width][1], width, 4);
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
    const struct steps *steps = stepsOf[width];
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

// Comparisons are of signed numbers: with the top bit turned over they order unsigned ones.
WITH_AVX2 static void rangeFast(
    const uint64_t *values, size_t count, uint64_t *least, uint64_t *greatest) {
    const uint64_t top = (uint64_t)1 << 63;
    const __m256i turn = _mm256_set1_epi64x((long long)top);
    __m256i low = _mm256_set1_epi64x((long long)(values[0] ^ top)), high = low;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const __m256i next =
            _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(values + i)), turn);
        low = _mm256_blendv_epi8(low, next, _mm256_cmpgt_epi64(low, next));
        high = _mm256_blendv_epi8(high, next, _mm256_cmpgt_epi64(next, high));
    }
    uint64_t lows[4], highs[4];
    _mm256_storeu_si256((__m256i *)lows, _mm256_xor_si256(low, turn));
    _mm256_storeu_si256((__m256i *)highs, _mm256_xor_si256(high, turn));
    uint64_t a = lows[0], b = highs[0];
    for (int lane = 1; lane < 4; lane++) {
        if (lows[lane] < a) a = lows[lane];
        if (highs[lane] > b) b = highs[lane];
    }
    for (; i < count; i++) {
        if (values[i] < a) a = values[i];
        if (values[i] > b) b = values[i];
    }
    *least = a;
    *greatest = b;
}

WITH_AVX2 static void countFast(
    const uint64_t *values, size_t count, uint64_t base, unsigned width, uint32_t *counts) {
    const __m256i bases = _mm256_set1_epi64x((long long)base);
    __m256i bound[4], sum[4];
    for (unsigned k = 0; k < 4; k++) {
        bound[k] = _mm256_set1_epi64x((long long)(((uint64_t)1 << (width + k)) - 1));
        sum[k] = _mm256_setzero_si256();
    }
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const __m256i next =
            _mm256_sub_epi64(_mm256_loadu_si256((const __m256i *)(values + i)), bases);
        for (unsigned k = 0; k < 4; k++)
            sum[k] = _mm256_sub_epi64(sum[k], _mm256_cmpgt_epi64(next, bound[k]));
    }
    for (unsigned k = 0; k < 4; k++) {
        uint64_t lanes[4];
        _mm256_storeu_si256((__m256i *)lanes, sum[k]);
        uint64_t found = lanes[0] + lanes[1] + lanes[2] + lanes[3];
        for (size_t rest = i; rest < count; rest++)
            found += (values[rest] - base) >> (width + k) != 0;
        counts[k] = (uint32_t)found;
    }
}

// The four values in the lanes of `values`, shifted apart, as one word.
WITH_AVX2 static inline uint64_t joined(__m256i values, __m256i shifts) {
    const __m256i apart = _mm256_sllv_epi64(values, shifts);
    const __m128i halves =
        _mm_or_si128(_mm256_castsi256_si128(apart), _mm256_extracti128_si256(apart, 1));
    return (uint64_t)_mm_cvtsi128_si64(halves) | (uint64_t)_mm_extract_epi64(halves, 1);
}

WITH_AVX2 static void packFast(
    uint8_t *out, const uint64_t *values, size_t count, unsigned width, uint64_t base) {
    const __m256i masks = _mm256_set1_epi64x((long long)(~(uint64_t)0 >> (64 - width)));
    const __m256i bases = _mm256_set1_epi64x((long long)base);
    const __m256i shifts = _mm256_set_epi64x(3 * width, 2 * width, width, 0);
    const unsigned half = 4 * width;
    uint64_t last[8];
    for (size_t i = 0; i < count; i += 8, out += width) {
        const uint64_t *group = values + i;
        if (count - i < 8) {
            for (size_t k = 0; k < 8; k++) last[k] = k < count - i ? group[k] : base;
            group = last;
        }
        const __m256i low = _mm256_loadu_si256((const __m256i *)group);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(group + 4));
        const uint64_t a = joined(_mm256_and_si256(_mm256_sub_epi64(low, bases), masks), shifts);
        const uint64_t b = joined(_mm256_and_si256(_mm256_sub_epi64(high, bases), masks), shifts);
        const uint64_t words[2] = {
            half < 64 ? a | b << half : a, half < 64 ? b >> (64 - half) : b};
        memcpy(out, words, sizeof words);
    }
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

bool ingest_column_range(
    const uint64_t *values, size_t count, uint64_t *least, uint64_t *greatest) {
#if defined(__x86_64__)
    if (!hasInstructions) return false;
    rangeFast(values, count, least, greatest);
    return true;
#else
    return false;
#endif
}

bool ingest_column_counts(
    const uint64_t *values, size_t count, uint64_t base, unsigned width, uint32_t *counts) {
#if defined(__x86_64__)
    if (!hasInstructions || width > 59) return false;
    countFast(values, count, base, width, counts);
    return true;
#else
    return false;
#endif
}

bool ingest_pack(
    void *out, const uint64_t *values, size_t count, unsigned width, uint64_t base) {
#if defined(__x86_64__)
    if (!hasInstructions || width - 1 >= 16) return false;
    packFast(out, values, count, width, base);
    return true;
#else
    return false;
#endif
}
