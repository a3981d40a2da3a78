// Columns of words ⇄ bit-packed columns, and columns times a weight.
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
// Bits of a weighed value, and of the lower half of a weight: 32 products of both fit a word.
#define WEIGHED_WIDTH 29u
#define WEIGHT_WIDTH 30u

static bool hasInstructions;

// What brings four values of a group down, from two loads at `first` and `second`.
struct steps {
    size_t first, second;
    uint8_t bytes[32];
    uint64_t shifts[4];
};
// By width; the values 0 to 3 of a group, and 4 to 7.
static struct steps stepsOf[WIDTH_MAX + 1][2];

// The same for all eight values of a group where they fit 32 bits with the 7 before them.
#define NARROW_WIDTH_MAX 25u
struct narrow {
    size_t second;
    uint8_t bytes[32];
    uint32_t shifts[8];
};
static struct narrow narrowOf[NARROW_WIDTH_MAX + 1];

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

static void makeNarrow(struct narrow *steps, unsigned width) {
    steps->second = width / 2;
    for (unsigned i = 0; i < 8; i++) {
        const unsigned bit = i * width;
        steps->shifts[i] = bit % 8;
        for (unsigned b = 0; b < 4; b++)
            steps->bytes[4 * i + b] = (uint8_t)(bit / 8 - (i < 4 ? 0 : steps->second) + b);
    }
}

// Runs before main, so the steps are complete before any thread can read them.
__attribute__((constructor)) static void prepare(void) {
    __builtin_cpu_init();
    hasInstructions = __builtin_cpu_supports("avx2");
    for (unsigned width = 1; width <= WIDTH_MAX; width++) {
        makeSteps(&stepsOf[width][0], width, 0);
        makeSteps(&stepsOf[width][1], width, 4);
        if (width <= NARROW_WIDTH_MAX) makeNarrow(&narrowOf[width], width);
    }
}

#define WITH_AVX2 __attribute__((target("avx2")))

WITH_AVX2 static inline __m256i four(
    const uint8_t *p, const struct steps *steps, __m256i mask) {
    __m256i bytes = _mm256_loadu2_m128i(
        (const __m128i *)(p + steps->second), (const __m128i *)(p + steps->first));
    bytes = _mm256_shuffle_epi8(bytes, _mm256_loadu_si256((const __m256i *)steps->bytes));
    bytes = _mm256_srlv_epi64(bytes, _mm256_loadu_si256((const __m256i *)steps->shifts));
    return _mm256_and_si256(bytes, mask);
}

// A column on its way: where its values go (nowhere, or `size` bytes each), and their range.
struct column {
    uint8_t *out;
    const uint8_t *packed;
    size_t count, total;
    unsigned width;
    uint64_t base, factor, least, greatest;
};

#define PART static inline __attribute__((always_inline))

// Whole groups of up to NARROW_WIDTH_MAX bits, as many as can be loaded without reading beyond the end; how many
// values. `size` and `scales` are constants where it is used.
PART WITH_AVX2 size_t narrowGroups(struct column *column, const unsigned size, const bool scales) {
    const struct narrow *steps = &narrowOf[column->width];
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)steps->bytes);
    const __m256i shifts = _mm256_loadu_si256((const __m256i *)steps->shifts);
    const __m256i mask = _mm256_set1_epi32((1 << column->width) - 1);
    const __m256i base = size == 8 ? _mm256_set1_epi64x((long long)column->base)
                                   : _mm256_set1_epi32((int)column->base);
    const __m256i factor = size == 8 ? _mm256_set1_epi64x((long long)column->factor)
                                     : _mm256_set1_epi32((int)column->factor);
    __m256i low = _mm256_set1_epi32(-1), high = _mm256_setzero_si256();
    const uint8_t *p = column->packed, *end = p + column->total;
    uint8_t *out = column->out;
    size_t i = 0;
    for (; i + 8 <= column->count && (size_t)(end - p) >= steps->second + LOAD_BYTE_COUNT;
         i += 8, p += column->width, out += 8 * size) {
        __m256i v = _mm256_loadu2_m128i((const __m128i *)(p + steps->second), (const __m128i *)p);
        v = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, bytes), shifts), mask);
        low = _mm256_min_epu32(low, v);
        high = _mm256_max_epu32(high, v);
        if (size == 8) {
            __m256i a = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(v));
            __m256i b = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(v, 1));
            if (scales) a = _mm256_mul_epu32(a, factor), b = _mm256_mul_epu32(b, factor);
            _mm256_storeu_si256((__m256i *)out, _mm256_add_epi64(a, base));
            _mm256_storeu_si256((__m256i *)out + 1, _mm256_add_epi64(b, base));
        } else if (size > 0) {
            v = _mm256_add_epi32(scales ? _mm256_mullo_epi32(v, factor) : v, base);
            if (size == 4) _mm256_storeu_si256((__m256i *)out, v);
            if (size == 2) {
                v = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
                v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
                _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(v));
            }
        }
    }
    uint32_t lows[8], highs[8];
    _mm256_storeu_si256((__m256i *)lows, low);
    _mm256_storeu_si256((__m256i *)highs, high);
    for (unsigned lane = 0; lane < 8 && i > 0; lane++) {
        if (lows[lane] < column->least) column->least = lows[lane];
        if (highs[lane] > column->greatest) column->greatest = highs[lane];
    }
    return i;
}

// The same for wider values, four at a time; below 2^57, they compare as signed ones.
PART WITH_AVX2 size_t wideGroups(struct column *column, const unsigned size, const bool scales) {
    const struct steps *steps = stepsOf[column->width];
    const __m256i mask = _mm256_set1_epi64x((long long)(~(uint64_t)0 >> (64 - column->width)));
    const __m256i base = _mm256_set1_epi64x((long long)column->base);
    const __m256i factor = _mm256_set1_epi64x((long long)column->factor);
    const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i low = _mm256_srli_epi64(_mm256_set1_epi64x(-1), 1), high = _mm256_setzero_si256();
    const uint8_t *p = column->packed, *end = p + column->total;
    uint8_t *out = column->out;
    size_t i = 0;
    for (; i + 8 <= column->count && (size_t)(end - p) >= steps[1].second + LOAD_BYTE_COUNT;
         i += 8, p += column->width) {
        for (unsigned half = 0; half < 2; half++, out += 4 * size) {
            __m256i v = four(p, &steps[half], mask);
            low = _mm256_blendv_epi8(low, v, _mm256_cmpgt_epi64(low, v));
            high = _mm256_blendv_epi8(high, v, _mm256_cmpgt_epi64(v, high));
            if (scales)
                v = _mm256_add_epi64(
                    _mm256_mul_epu32(v, factor),
                    _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(v, 32), factor), 32));
            v = _mm256_add_epi64(v, base);
            if (size == 8) _mm256_storeu_si256((__m256i *)out, v);
            if (size == 4)
                _mm_storeu_si128(
                    (__m128i *)out,
                    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(v, evens)));
        }
    }
    uint64_t lows[4], highs[4];
    _mm256_storeu_si256((__m256i *)lows, low);
    _mm256_storeu_si256((__m256i *)highs, high);
    for (unsigned lane = 0; lane < 4 && i > 0; lane++) {
        if (lows[lane] < column->least) column->least = lows[lane];
        if (highs[lane] > column->greatest) column->greatest = highs[lane];
    }
    return i;
}

// The last values, fewer than a group.
PART void singly(struct column *column, const unsigned size) {
    const uint64_t mask = ~(uint64_t)0 >> (64 - column->width);
    for (size_t i = 0; i < column->count; i++) {
        const size_t bit = i * column->width;
        uint64_t word;
        memcpy(&word, column->packed + bit / 8, sizeof word);
        word = word >> bit % 8 & mask;
        if (word < column->least) column->least = word;
        if (word > column->greatest) column->greatest = word;
        // The low bytes come first: x86.
        const uint64_t value = column->base + word * column->factor;
        if (size > 0) memcpy(column->out + i * size, &value, size);
    }
}

// `size` and the instructions' width are constants where it is used.
PART WITH_AVX2 void unpackAll(struct column *column, const unsigned size, const bool isNarrow) {
    // Of the last bytes no whole vector can be loaded: they go through a copy that has bytes to spare behind it.
    uint8_t copy[3 * WIDTH_MAX + 2 * LOAD_BYTE_COUNT] = {0};
    for (unsigned pass = 0; pass < 2; pass++) {
        const size_t done = isNarrow           ? narrowGroups(column, size, column->factor != 1)
                            : size == 2        ? 0
                                               : wideGroups(column, size, column->factor != 1);
        if (size > 0) column->out += done * size;
        column->packed += done / 8 * column->width;
        column->count -= done;
        column->total -= done / 8 * column->width;
        if (pass > 0) break;
        memcpy(copy, column->packed, column->total);
        column->packed = copy;
        column->total = sizeof copy;
    }
    singly(column, size);
}

WITH_AVX2 static void unpackFast(struct column *column, unsigned size) {
    const bool isNarrow = column->width <= NARROW_WIDTH_MAX;
    switch (size) {
    case 0: return isNarrow ? unpackAll(column, 0, true) : unpackAll(column, 0, false);
    case 2: return unpackAll(column, 2, true);
    case 4: return isNarrow ? unpackAll(column, 4, true) : unpackAll(column, 4, false);
    case 8: return isNarrow ? unpackAll(column, 8, true) : unpackAll(column, 8, false);
    }
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

// By which of four values are wanted: their places among the four, one behind the other.
static const uint64_t placesOf[16] = {
    0, 0, 1, 0x10000, 2, 0x20000, 0x20001, 0x200010000, 3, 0x30000, 0x30001, 0x300010000, 0x30002,
    0x300020000, 0x300020001, 0x3000200010000};

// Without a branch on how many of four are wanted, which would often be mispredicted.
WITH_AVX2 static void placesFast(
    const uint64_t *values, size_t count, uint64_t base, unsigned width, uint16_t *places) {
    const __m256i bases = _mm256_set1_epi64x((long long)base);
    const __m256i bound = _mm256_set1_epi64x((long long)(((uint64_t)1 << width) - 1));
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const __m256i next =
            _mm256_sub_epi64(_mm256_loadu_si256((const __m256i *)(values + i)), bases);
        const __m256i isAbove = _mm256_cmpgt_epi64(next, bound);
        const unsigned found = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(isAbove));
        const uint64_t four = placesOf[found] + i * 0x0001000100010001u;
        memcpy(places, &four, sizeof four);
        places += __builtin_popcount(found);
    }
    for (; i < count; i++)
        if ((values[i] - base) >> width != 0) *places++ = (uint16_t)i;
}

WITH_AVX2 static bool areBelow(const uint64_t *values, size_t count, unsigned width) {
    __m256i bits = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        bits = _mm256_or_si256(bits, _mm256_loadu_si256((const __m256i *)(values + i)));
    uint64_t rest = 0;
    for (; i < count; i++) rest |= values[i];
    bits = _mm256_or_si256(bits, _mm256_set1_epi64x((long long)rest));
    const __m256i above = _mm256_set1_epi64x((long long)(~(uint64_t)0 << width));
    return _mm256_testz_si256(bits, above);
}

WITH_AVX2 static void weighFast(
    const uint64_t *values, size_t count, uint64_t weight, uint64_t *low, uint64_t *high) {
    const uint64_t a = weight & (((uint64_t)1 << WEIGHT_WIDTH) - 1), b = weight >> WEIGHT_WIDTH;
    const __m256i as = _mm256_set1_epi64x((long long)a), bs = _mm256_set1_epi64x((long long)b);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const __m256i next = _mm256_loadu_si256((const __m256i *)(values + i));
        __m256i *const lows = (__m256i *)(low + i), *const highs = (__m256i *)(high + i);
        _mm256_storeu_si256(
            lows, _mm256_add_epi64(_mm256_loadu_si256(lows), _mm256_mul_epu32(next, as)));
        _mm256_storeu_si256(
            highs, _mm256_add_epi64(_mm256_loadu_si256(highs), _mm256_mul_epu32(next, bs)));
    }
    for (; i < count; i++) {
        low[i] += values[i] * a;
        high[i] += values[i] * b;
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
    void *out, size_t size, const void *packed, size_t count, unsigned width, uint64_t base,
    uint64_t factor, uint64_t *least, uint64_t *greatest) {
#if defined(__x86_64__)
    const unsigned widthMax = out != NULL && size == 2 ? NARROW_WIDTH_MAX : WIDTH_MAX;
    if (!hasInstructions || width - 1 >= widthMax || factor >> 32 != 0) return false;
    struct column column = {
        out, packed, count, (count * width + 7) / 8, width, base, factor, ~(uint64_t)0, 0};
    unpackFast(&column, out == NULL ? 0 : (unsigned)size);
    *least = column.least;
    *greatest = column.greatest;
    return true;
#else
    return false;
#endif
}

// Does the work if it fits and the processor has the instructions; else it is left to the caller.
#if defined(__x86_64__)
#define FAST(fits, work)                               \
    do {                                               \
        if (!hasInstructions || !(fits)) return false; \
        work;                                          \
        return true;                                   \
    } while (0)
#else
#define FAST(fits, work) return false
#endif

bool ingest_column_range(
    const uint64_t *values, size_t count, uint64_t *least, uint64_t *greatest) {
    FAST(true, rangeFast(values, count, least, greatest));
}

bool ingest_column_counts(
    const uint64_t *values, size_t count, uint64_t base, unsigned width, uint32_t *counts) {
    FAST(width <= 59, countFast(values, count, base, width, counts));
}

bool ingest_column_places(
    const uint64_t *values, size_t count, uint64_t base, unsigned width, uint16_t *places) {
    FAST(width <= 62, placesFast(values, count, base, width, places));
}

bool ingest_pack(
    void *out, const uint64_t *values, size_t count, unsigned width, uint64_t base) {
    FAST(width - 1 < 16, packFast(out, values, count, width, base));
}

bool ingest_column_weigh(
    const uint64_t *values, size_t count, uint64_t weight, uint64_t *low, uint64_t *high) {
    FAST(areBelow(values, count, WEIGHED_WIDTH), weighFast(values, count, weight, low, high));
}
