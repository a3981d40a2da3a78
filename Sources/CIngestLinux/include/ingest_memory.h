// Memory operations that Swift has no name for.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Swift has no prefetch intrinsic. A prefetch never faults, whatever the address.
static inline void ingest_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }

// Loads a word that nothing waits for; the address must be readable. For a batch of addresses in a loop, where prefetches
// that follow each other seem to be left out in part (docs/decisions/0060); where other work lies between, prefetch.
static inline void ingest_touch(const void *address) {
    const uint64_t word = *(const volatile uint64_t *)address;
    __asm__ volatile("" ::"r"(word));
}

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

// A cache line of 8 slots, looked at as a whole.

/// What the 8 slots of a line of the dedup index say, one bit a slot: bits 0–7 those that hold and have the identity of
/// `word` (bits 24–26 and 28–63), 8–15 those that are free, 16–23 those with bit 27. A slot holds if its generation
/// (bits 0–7) is one of the `span` + 1 from `oldest` on, round from 255 to 1; else it is free. The line begins on a
/// multiple of 64 bytes.
/// Reason: Swift's vectors have no instruction that makes bits of a comparison; slot by slot it costs four times as much.
static inline uint32_t ingest_slots_scan(
    const uint64_t *line, uint64_t word, uint8_t oldest, uint8_t span) {
#if defined(__SSE2__)
    const __m128i *pairs = (const __m128i *)line;
    const __m128 a = _mm_castsi128_ps(_mm_load_si128(pairs));
    const __m128 b = _mm_castsi128_ps(_mm_load_si128(pairs + 1));
    const __m128 c = _mm_castsi128_ps(_mm_load_si128(pairs + 2));
    const __m128 d = _mm_castsi128_ps(_mm_load_si128(pairs + 3));
    const __m128i low0 = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    const __m128i low4 = _mm_castps_si128(_mm_shuffle_ps(c, d, _MM_SHUFFLE(2, 0, 2, 0)));
    const __m128i high0 = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i high4 = _mm_castps_si128(_mm_shuffle_ps(c, d, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i identity = _mm_set1_epi32((int)0xf7000000u);
    const __m128i low = _mm_set1_epi32((int)((uint32_t)word & 0xf7000000u));
    const __m128i high = _mm_set1_epi32((int)(uint32_t)(word >> 32));
    const __m128i zero = _mm_setzero_si128();
    const __m128i equal0 = _mm_and_si128(
        _mm_cmpeq_epi32(high0, high), _mm_cmpeq_epi32(_mm_and_si128(low0, identity), low));
    const __m128i equal4 = _mm_and_si128(
        _mm_cmpeq_epi32(high4, high), _mm_cmpeq_epi32(_mm_and_si128(low4, identity), low));
    const __m128i equal = _mm_packs_epi16(_mm_packs_epi32(equal0, equal4), zero);
    const __m128i byte = _mm_set1_epi32(0xff);
    const __m128i generations =
        _mm_packus_epi16(_mm_packs_epi32(_mm_and_si128(low0, byte), _mm_and_si128(low4, byte)), zero);
    const __m128i age = _mm_sub_epi8(generations, _mm_set1_epi8((char)oldest));
    const __m128i is_old = _mm_cmpeq_epi8(_mm_min_epu8(age, _mm_set1_epi8((char)span)), age);
    const __m128i holds = _mm_andnot_si128(_mm_cmpeq_epi8(generations, zero), is_old);
    const uint32_t held = (uint32_t)_mm_movemask_epi8(holds) & 0xff;
    const uint32_t matching = (uint32_t)_mm_movemask_epi8(equal) & held;
    // Bit 27 becomes the sign of its 32 bits.
    const uint32_t marked =
        (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_slli_epi32(low0, 4)))
        | (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_slli_epi32(low4, 4))) << 4;
    return matching | (held ^ 0xff) << 8 | marked << 16;
#else
    uint32_t matching = 0, held = 0, marked = 0;
    for (int i = 0; i < 8; i++) {
        const uint8_t generation = (uint8_t)line[i];
        const uint32_t holds = generation != 0 && (uint8_t)(generation - oldest) <= span;
        held |= holds << i;
        matching |= (holds && ((line[i] ^ word) & 0xfffffffff7000000u) == 0 ? 1u : 0u) << i;
        marked |= (uint32_t)(line[i] >> 27 & 1) << i;
    }
    return matching | (held ^ 0xff) << 8 | marked << 16;
#endif
}

/// What a cache line of 4 entries of 16 bytes says: bits 0, 4, 8, 12 those whose first 12 bytes are `low` and `tag`, bits
/// 16, 20, 24, 28 those whose last 4 bytes are 0. The line begins on a multiple of 64 bytes.
/// Reason: at which entry a walk ends is as good as random, so that entry by entry a CPU guesses wrong.
static inline uint32_t ingest_pairs_scan(const void *line, uint64_t low, uint32_t tag) {
#if defined(__SSE2__)
    const __m128i *entries = (const __m128i *)line;
    const __m128i a = _mm_load_si128(entries), b = _mm_load_si128(entries + 1);
    const __m128i c = _mm_load_si128(entries + 2), d = _mm_load_si128(entries + 3);
    const __m128i wanted = _mm_set_epi32(0, (int)tag, (int)(uint32_t)(low >> 32), (int)(uint32_t)low);
    const __m128i equal = _mm_packs_epi16(
        _mm_packs_epi32(_mm_cmpeq_epi32(a, wanted), _mm_cmpeq_epi32(b, wanted)),
        _mm_packs_epi32(_mm_cmpeq_epi32(c, wanted), _mm_cmpeq_epi32(d, wanted)));
    // A byte for each 4 bytes of the line: the last of an entry, compared with 0, says that it is free.
    const uint32_t bits = (uint32_t)_mm_movemask_epi8(equal);
    return (bits & bits >> 1 & bits >> 2 & 0x1111) | (bits >> 3 & 0x1111) << 16;
#else
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        const uint64_t last = ingest_word(line, (size_t)i * 16 + 8);
        bits |= (uint32_t)(ingest_word(line, (size_t)i * 16) == low && (uint32_t)last == tag) << 4 * i;
        bits |= (uint32_t)(last >> 32 == 0) << (4 * i + 16);
    }
    return bits;
#endif
}

/// Which of 16 numbers, of a cache line or of a column, are `number`, one bit each. They begin on a multiple of 16 bytes.
/// Reason: as `ingest_pairs_scan`.
static inline uint32_t ingest_numbers_scan(const uint32_t *line, uint32_t number) {
#if defined(__SSE2__)
    const __m128i *quads = (const __m128i *)line;
    const __m128i wanted = _mm_set1_epi32((int)number);
    const __m128i a = _mm_cmpeq_epi32(_mm_load_si128(quads), wanted);
    const __m128i b = _mm_cmpeq_epi32(_mm_load_si128(quads + 1), wanted);
    const __m128i c = _mm_cmpeq_epi32(_mm_load_si128(quads + 2), wanted);
    const __m128i d = _mm_cmpeq_epi32(_mm_load_si128(quads + 3), wanted);
    return (uint32_t)_mm_movemask_epi8(
        _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
#else
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)(line[i] == number) << i;
    return bits;
#endif
}

/// The same of 8 numbers, half of a cache line. They begin on a multiple of 16 bytes. Reason: as `ingest_pairs_scan`.
static inline uint32_t ingest_eight_numbers_scan(const uint32_t *numbers, uint32_t number) {
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi32((int)number);
    const __m128i low = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)numbers), wanted);
    const __m128i high = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)numbers + 1), wanted);
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()));
#else
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++) bits |= (uint32_t)(numbers[i] == number) << i;
    return bits;
#endif
}

/// Moves the claims of one line of the dedup index to another that is all zeros: those that hold (as above), lie in their own line
/// (bits 24–26 are 0) and have `bit`, which is one of bits 28–63. Bit 27 stays where it is. `false`, and nothing is
/// changed, where the other line is not all zeros.
/// Reason: which claims move is as good as random, so that slot by slot a CPU guesses wrong several times a line. Here is
/// no branch that depends on them, and the compiler must not make one.
static inline bool ingest_slots_split(
    uint64_t *from, uint64_t *to, uint64_t bit, uint8_t oldest, uint8_t span) {
    uint64_t used = 0;
    for (int i = 0; i < 8; i++) used |= to[i];
    if (used != 0) return false;
    const uint64_t mark = 1u << 27;
    const uint32_t held = ~(ingest_slots_scan(from, 0, oldest, span) >> 8) & 0xff;
    size_t end = 0;
    for (int i = 0; i < 8; i++) {
        const uint64_t slot = from[i];
        const uint64_t moves =
            (held >> i & 1) & (uint64_t)((slot & bit) != 0) & (uint64_t)((slot & 7u << 24) == 0);
        // At most at i, since at most one was moved for each before: a zero where nothing moves.
        to[end] = slot & (0 - moves) & ~mark;
        from[i] = slot & ((moves - 1) | mark);
        end += moves;
    }
    return true;
}

/// Frees the slots of a line of the dedup index that do not hold (as above), but for their bit 27.
/// - Returns: the slots with that bit, one bit each.
/// Reason: slot by slot, whether it has expired is a branch that is often mispredicted: 96 → 73 ns an event in a full
/// index.
static inline uint32_t ingest_slots_sweep(uint64_t *line, uint8_t oldest, uint8_t span) {
    const uint64_t mark = 1u << 27;
    const uint32_t bits = ingest_slots_scan(line, 0, oldest, span);
    const uint32_t held = ~(bits >> 8) & 0xff;
    for (int i = 0; i < 8; i++) line[i] &= (0 - (uint64_t)(held >> i & 1)) | mark;
    return bits >> 16;
}

// mmap reports failure by MAP_FAILED, a cast that Swift does not import, and asking for huge pages is
// worth nothing unless the start is aligned to 2 MiB. Zeroed private memory, taken when it is touched; NULL when there
// is no address space.
void *ingest_pages_map(size_t byte_count);

// Gives back what ingest_pages_map returned, with the same byte count.
void ingest_pages_unmap(void *pages, size_t byte_count);

// Moves what ingest_pages_map returned into a larger mapping: page tables are moved, no bytes, and at no time are there
// two copies. NULL, with nothing changed, where that cannot be had. (mremap is variadic, which Swift does not import.)
void *ingest_pages_grow(void *pages, size_t old_byte_count, size_t byte_count);

// Gives back the memory of the whole huge pages in [first, end) of what ingest_pages_map returned; they read as zeros.
void ingest_pages_forget(void *pages, size_t first, size_t end);

// Touches the whole huge pages with any byte in [first, end) of what ingest_pages_map returned, which keep what is in
// them, so that who comes later need not wait for the kernel to clear them. `false` before Linux 5.14.
bool ingest_pages_populate(void *pages, size_t first, size_t end);
