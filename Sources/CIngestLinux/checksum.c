// CRC-32C, reflected polynomial 0x82F63B78, initial value and final complement all ones (RFC 3720).
//
// The instruction has a latency of 3 cycles and a throughput of 1, so one chain runs at a third of the
// speed; three chains over three adjacent lanes fill it. The lanes are joined by shifting a lane's
// remainder over the bytes that follow it, which is one carry-less multiplication by x^(8n-33) mod P
// (the instruction that reduces the product supplies x^32, the reflected multiplication another x).
// Method: V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel.
#include "ingest_hash.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u
#define LANE_WORD_COUNT_MAX 128

static uint32_t table[8][256];
// Per lane length in words: what shifts a remainder over one lane, and over two.
static uint64_t shiftOne[LANE_WORD_COUNT_MAX + 1];
static uint64_t shiftTwo[LANE_WORD_COUNT_MAX + 1];
static int hasInstructions;

static uint32_t timesX(uint32_t value) {
    return (value >> 1) ^ (POLYNOMIAL & (0u - (value & 1u)));
}

// Runs before main, so the tables are complete before any thread can read them.
__attribute__((constructor)) static void prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = timesX(value);
        table[0][i] = value;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF];
    // 0x80000000 is x^0; a lane of n words needs x^(64n-33).
    uint32_t power = 0x80000000u;
    for (int i = 0; i < 64 - 33; i++) power = timesX(power);
    for (int n = 1; n <= 2 * LANE_WORD_COUNT_MAX; n++) {
        if (n <= LANE_WORD_COUNT_MAX) shiftOne[n] = power;
        if (n % 2 == 0) shiftTwo[n / 2] = power;
        for (int i = 0; i < 64; i++) power = timesX(power);
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    hasInstructions = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#endif
}

static uint64_t load64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

uint32_t ingest_crc32c_portable(uint32_t seed, const void *bytes, size_t byteCount) {
    const uint8_t *p = bytes;
    uint32_t crc = ~seed;
    for (; byteCount >= 8; byteCount -= 8, p += 8) {
        uint64_t word = load64(p) ^ crc;
        crc = table[7][word & 0xFF] ^ table[6][word >> 8 & 0xFF] ^ table[5][word >> 16 & 0xFF]
            ^ table[4][word >> 24 & 0xFF] ^ table[3][word >> 32 & 0xFF]
            ^ table[2][word >> 40 & 0xFF] ^ table[1][word >> 48 & 0xFF] ^ table[0][word >> 56];
    }
    for (; byteCount > 0; byteCount--, p++) crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("sse4.2,pclmul"))) static uint64_t shifted(uint64_t crc, uint64_t shift) {
    __m128i product = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)shift), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32cFast(
    uint32_t seed, const void *bytes, size_t byteCount) {
    const uint8_t *p = bytes;
    uint64_t crc = (uint32_t)~seed;
    while (byteCount >= 24 * 4) {
        size_t words = byteCount / 24;
        if (words > LANE_WORD_COUNT_MAX) words = LANE_WORD_COUNT_MAX;
        const uint8_t *second = p + words * 8, *third = p + words * 16;
        uint64_t crc1 = 0, crc2 = 0;
        for (size_t i = 0; i < words; i++) {
            crc = _mm_crc32_u64(crc, load64(p + i * 8));
            crc1 = _mm_crc32_u64(crc1, load64(second + i * 8));
            crc2 = _mm_crc32_u64(crc2, load64(third + i * 8));
        }
        crc = _mm_crc32_u64(0, shifted(crc, shiftTwo[words]) ^ shifted(crc1, shiftOne[words])) ^ crc2;
        p += words * 24;
        byteCount -= words * 24;
    }
    for (; byteCount >= 8; byteCount -= 8, p += 8) crc = _mm_crc32_u64(crc, load64(p));
    uint32_t rest = (uint32_t)crc;
    for (; byteCount > 0; byteCount--, p++) rest = _mm_crc32_u8(rest, *p);
    return ~rest;
}
#endif

uint32_t ingest_crc32c(uint32_t seed, const void *bytes, size_t byteCount) {
#if defined(__x86_64__)
    if (__builtin_expect(hasInstructions, 1)) return crc32cFast(seed, bytes, byteCount);
#endif
    return ingest_crc32c_portable(seed, bytes, byteCount);
}
