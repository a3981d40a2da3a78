// The parts of the keyed hash with AES instructions, for `keyed_hash.c`, which says what the hash is, and for
// `event_rows.c`, which hashes texts where they lie in a packet; and how it reads a UUID in text, for `event_lines.c` too.
#pragma once
#include "ingest_hash.h"

// The places of the subkeys.
#define MASK 0
#define ROUND 9
#define FINISH 13
#define UUID_TEXT_BYTE_COUNT 36

#if defined(__x86_64__)
#include <immintrin.h>
#define AES_TARGET target("aes,avx")
#define WITH_AES __attribute__((AES_TARGET, always_inline)) static inline

// Whether this CPU has them; known before main.
extern int ingest_hash_has_instructions;

// The subkeys in registers: read from memory they would be read again after every hash that is stored.
struct subkeys {
    __m128i mask[3], round[4], finish[5];
    const struct ingest_hash_key *key;
};

WITH_AES __m128i subkey(const struct ingest_hash_key *key, size_t index) {
    return _mm_loadu_si128((const __m128i *)(key->words + 2 * index));
}

WITH_AES struct subkeys subkeysOf(const struct ingest_hash_key *key) {
    struct subkeys keys = {.key = key};
    for (size_t i = 0; i < 3; i++) keys.mask[i] = subkey(key, MASK + i);
    for (size_t i = 0; i < 4; i++) keys.round[i] = subkey(key, ROUND + i);
    for (size_t i = 0; i < 5; i++) keys.finish[i] = subkey(key, FINISH + i);
    return keys;
}

WITH_AES __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

WITH_AES __m128i absorbed(const struct subkeys *keys, __m128i data, __m128i mask) {
    __m128i state = _mm_xor_si128(data, mask);
    for (int i = 0; i < 4; i++) state = _mm_aesenc_si128(state, keys->round[i]);
    return state;
}

WITH_AES __m128i finished(const struct subkeys *keys, __m128i sum) {
    sum = _mm_xor_si128(sum, keys->finish[0]);
    for (int i = 1; i <= 4; i++) sum = _mm_aesenc_si128(sum, keys->finish[i]);
    return sum;
}

WITH_AES uint64_t low(__m128i hash) { return (uint64_t)_mm_cvtsi128_si64(hash); }

WITH_AES __m128i header(
    const struct subkeys *keys, uint32_t domain, uint64_t context, size_t byteCount) {
    __m128i block = _mm_set_epi64x(
        (long long)context, (long long)((uint64_t)domain << 32 | byteCount));
    return absorbed(keys, block, keys->mask[0]);
}

WITH_AES struct ingest_pair_hash pairOf(
    const struct subkeys *keys, __m128i sumOfReward, __m128i business) {
    __m128i hash = finished(keys, _mm_xor_si128(sumOfReward, business));
    return (struct ingest_pair_hash){
        low(hash), low(business), (uint32_t)_mm_extract_epi32(hash, 2)};
}

// The values of 16 hexadecimal digits of either case; ORs 255 into `wrong` for any other byte.
WITH_AES __m128i digitValues(__m128i text, __m128i *wrong) {
    __m128i digit = _mm_sub_epi8(text, _mm_set1_epi8('0'));
    __m128i letter = _mm_sub_epi8(_mm_or_si128(text, _mm_set1_epi8(32)), _mm_set1_epi8('a'));
    __m128i isDigit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
    __m128i isLetter = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(5)), letter);
    *wrong = _mm_or_si128(
        *wrong, _mm_andnot_si128(_mm_or_si128(isDigit, isLetter), _mm_set1_epi8(-1)));
    return _mm_blendv_epi8(_mm_add_epi8(letter, _mm_set1_epi8(10)), digit, isDigit);
}

// The 16 bytes of the UUID in the 36 bytes of text at `p`; 0 if it is none. As `UUIDText.parse`.
WITH_AES int parseUUID(const uint8_t *p, uint8_t *uuid) {
    if ((p[8] ^ '-') | (p[13] ^ '-') | (p[18] ^ '-') | (p[23] ^ '-')) return 0;
    __m128i first = load(p), second = load(p + 16), third = load(p + 20), wrong = {0, 0};
    __m128i high = _mm_or_si128(
        _mm_shuffle_epi8(
            first, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, -1, -1)),
        _mm_shuffle_epi8(
            second, _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1)));
    __m128i low = _mm_or_si128(
        _mm_shuffle_epi8(
            second, _mm_setr_epi8(3, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)),
        _mm_shuffle_epi8(
            third, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
    // Two digits of a byte: 16 × the first + the second.
    __m128i weights = _mm_set1_epi16(0x0110);
    high = _mm_maddubs_epi16(digitValues(high, &wrong), weights);
    low = _mm_maddubs_epi16(digitValues(low, &wrong), weights);
    _mm_storeu_si128((__m128i *)uuid, _mm_packus_epi16(high, low));
    return _mm_movemask_epi8(wrong) == 0;
}
#endif
