// The parts of the keyed hash with AES instructions, for `keyed_hash.c`, which says what the hash is, and for
// `event_rows.c`, which hashes texts where they lie in a packet.
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
#endif
