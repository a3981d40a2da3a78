// The keyed hash of names and event ids, algorithm 1 of the manifest.
//
//     header block   (byteCount u32, domain u32, context u64)
//     data blocks    16 bytes each, the last filled up with zeros; at least two
//     sum            = XOR over all blocks i of AES4(block i ^ mask[i])     4 rounds, keys 9…12
//     whole          = AES4(sum ^ key 13)                                   4 rounds, keys 14…17
//     hash           = low 64 bits of whole
//     pair           = AES4(sum of the reward ^ whole of the business ^ key 13)
//
// The byte count in the header block makes the block list an injective function of the input. Each mask
// is secret and its own, so blocks cannot be exchanged or cancelled; four AES rounds with secret keys
// have a maximum expected differential probability near 2^-111 (Keliher and Sui, 2005), which bounds
// what a sender who does not know the key can do to make two inputs collide. The blocks are independent
// of each other: a CPU runs them side by side, so an id of 36 bytes costs little more than one of 8.
// Two data blocks at least, so that lengths up to 32 need no branch: lengths are as good as random, and
// a branch that is guessed wrong costs more than four rounds.
#include "keyed_hash_aes.h"
#include "ingest_memory.h"

#include <stdbool.h>
#include <string.h>

struct block {
    uint64_t low, high;
};

// MARK: AES in software

static const uint8_t sbox[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76,
    0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0,
    0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75,
    0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84,
    0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8,
    0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2,
    0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb,
    0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79,
    0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a,
    0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e,
    0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16,
};

static uint8_t timesTwo(uint8_t a) { return (uint8_t)((a << 1) ^ ((a >> 7) * 0x1b)); }

// SubBytes, ShiftRows, MixColumns (unless it is the last round), AddRoundKey: what `aesenc` and
// `aesenclast` do. Byte 4c + r of the block is row r of column c.
static void aesRound(uint8_t state[16], const uint8_t key[16], int isLast) {
    uint8_t s[16];
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 4; r++) s[4 * c + r] = sbox[state[4 * ((c + r) & 3) + r]];
    for (int c = 0; c < 4; c++) {
        const uint8_t *a = s + 4 * c;
        uint8_t all = a[0] ^ a[1] ^ a[2] ^ a[3];
        for (int r = 0; r < 4; r++) {
            uint8_t mixed = a[r] ^ all ^ timesTwo(a[r] ^ a[(r + 1) & 3]);
            state[4 * c + r] = (isLast ? a[r] : mixed) ^ key[4 * c + r];
        }
    }
}

void ingest_aes256_encrypt(uint8_t *out, const uint8_t *in, const uint8_t *key) {
    uint8_t schedule[240];
    memcpy(schedule, key, 32);
    uint8_t constant = 1;
    for (int i = 32; i < 240; i += 4) {
        uint8_t t[4];
        memcpy(t, schedule + i - 4, 4);
        if (i % 32 == 0) {
            uint8_t first = t[0];
            for (int j = 0; j < 3; j++) t[j] = sbox[t[j + 1]];
            t[3] = sbox[first];
            t[0] ^= constant;
            constant = timesTwo(constant);
        } else if (i % 32 == 16) {
            for (int j = 0; j < 4; j++) t[j] = sbox[t[j]];
        }
        for (int j = 0; j < 4; j++) schedule[i + j] = schedule[i - 32 + j] ^ t[j];
    }
    uint8_t state[16];
    for (int j = 0; j < 16; j++) state[j] = in[j] ^ schedule[j];
    for (int round = 1; round <= 14; round++) aesRound(state, schedule + 16 * round, round == 14);
    memcpy(out, state, 16);
}

// MARK: The hash in software

static struct block fourRounds(
    struct block in, const struct ingest_hash_key *key, int whitening, int firstRound) {
    uint8_t state[16];
    in.low ^= key->words[2 * whitening];
    in.high ^= key->words[2 * whitening + 1];
    memcpy(state, &in, 16);
    for (int i = 0; i < 4; i++)
        aesRound(state, (const uint8_t *)(key->words + 2 * (firstRound + i)), 0);
    memcpy(&in, state, 16);
    return in;
}

void ingest_hash_key_derive(struct ingest_hash_key *out, const uint8_t *key) {
    for (uint8_t i = 0; i < INGEST_HASH_SUBKEY_COUNT; i++) {
        uint8_t in[16] = {i, 0, 0, 0, 0, 0, 0, 0, 'i', 'n', 'g', 'e', 's', 't', 'd', '1'};
        ingest_aes256_encrypt((uint8_t *)(out->words + 2 * i), in, key);
    }
    for (uint64_t byteCount = 0; byteCount <= INGEST_HASH_NEAR_MAX; byteCount++) {
        struct block header = {byteCount | (uint64_t)INGEST_HASH_NAME << 32, 0};
        header = fourRounds(header, out, MASK, ROUND);
        memcpy(out->nameHeaders + 2 * byteCount, &header, sizeof header);
    }
}

static struct block sumPortable(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const void *bytes,
    size_t byteCount) {
    struct block header = {(uint32_t)byteCount | (uint64_t)domain << 32, context};
    struct block sum = fourRounds(header, key, MASK, ROUND);
    for (size_t i = 0; i < 2 || 16 * i < byteCount; i++) {
        struct block data = {0, 0};
        size_t rest = 16 * i < byteCount ? byteCount - 16 * i : 0;
        if (rest > 0) memcpy(&data, (const uint8_t *)bytes + 16 * i, rest < 16 ? rest : 16);
        data = fourRounds(data, key, MASK + 1 + (int)i, ROUND);
        sum.low ^= data.low;
        sum.high ^= data.high;
    }
    return sum;
}

uint64_t ingest_hash_portable(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const void *bytes,
    size_t byteCount) {
    struct block sum = sumPortable(key, domain, context, bytes, byteCount);
    return fourRounds(sum, key, FINISH, FINISH + 1).low;
}

struct ingest_pair_hash ingest_hash_pair_portable(
    const struct ingest_hash_key *key, const void *reward, size_t rewardByteCount,
    const void *business, size_t businessByteCount) {
    struct block whole = fourRounds(
        sumPortable(key, INGEST_HASH_NAME, 0, business, businessByteCount), key, FINISH,
        FINISH + 1);
    struct block sum = sumPortable(key, INGEST_HASH_NAME, 0, reward, rewardByteCount);
    sum.low ^= whole.low;
    sum.high ^= whole.high;
    sum = fourRounds(sum, key, FINISH, FINISH + 1);
    return (struct ingest_pair_hash){sum.low, whole.low, (uint32_t)sum.high};
}

// MARK: The hash with AES instructions

#if defined(__x86_64__)
// Loaded at 16 - n it moves the last n bytes of a block to its start, and zeros behind them.
static const uint8_t lastBytes[32] = {
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

// The last `byteCount` mod 16 bytes, filled up with zeros. No copy where it can be helped: a load waits long for
// several stores that it reads from.
WITH_AES __m128i lastBlock(const uint8_t *p, size_t byteCount) {
    size_t rest = byteCount & 15;
    if (byteCount >= 16)
        return _mm_shuffle_epi8(load(p + byteCount - 16), load(lastBytes + 16 - rest));
    uint8_t copy[16] = {0};
    memcpy(copy, p, rest);
    return load(copy);
}

// The sum of any input.
WITH_AES __m128i sumOf(
    const struct subkeys *keys, uint32_t domain, uint64_t context, const uint8_t *p,
    size_t byteCount) {
    __m128i sum = header(keys, domain, context, byteCount);
    for (size_t i = 0; i < 2 || 16 * i < byteCount; i++) {
        __m128i data = _mm_setzero_si128();
        if (16 * i + 16 <= byteCount) data = load(p + 16 * i);
        else if (16 * i < byteCount) data = lastBlock(p, byteCount);
        sum = _mm_xor_si128(sum, absorbed(keys, data, subkey(keys->key, MASK + 1 + i)));
    }
    return sum;
}

__attribute__((AES_TARGET)) static uint64_t hashOne(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const uint8_t *p,
    size_t byteCount) {
    struct subkeys keys = subkeysOf(key);
    return low(finished(&keys, sumOf(&keys, domain, context, p, byteCount)));
}

__attribute__((AES_TARGET)) static struct ingest_pair_hash hashPair(
    const struct ingest_hash_key *key, const uint8_t *reward, size_t rewardByteCount,
    const uint8_t *business, size_t businessByteCount) {
    struct subkeys keys = subkeysOf(key);
    __m128i whole = sumOf(&keys, INGEST_HASH_NAME, 0, business, businessByteCount);
    __m128i sum = sumOf(&keys, INGEST_HASH_NAME, 0, reward, rewardByteCount);
    return pairOf(&keys, sum, finished(&keys, whole));
}

int ingest_hash_has_instructions;
// Runs before main, so the choice is made before any thread can read it.
__attribute__((constructor)) static void choose(void) {
    __builtin_cpu_init();
    ingest_hash_has_instructions =
        __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx");
}
#endif

uint64_t ingest_hash(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const void *bytes,
    size_t byteCount) {
#if defined(__x86_64__)
    if (__builtin_expect(ingest_hash_has_instructions, 1))
        return hashOne(key, domain, context, bytes, byteCount);
#endif
    return ingest_hash_portable(key, domain, context, bytes, byteCount);
}

struct ingest_pair_hash ingest_hash_pair(
    const struct ingest_hash_key *key, const void *reward, size_t rewardByteCount,
    const void *business, size_t businessByteCount) {
#if defined(__x86_64__)
    if (__builtin_expect(ingest_hash_has_instructions, 1))
        return hashPair(key, reward, rewardByteCount, business, businessByteCount);
#endif
    return ingest_hash_pair_portable(key, reward, rewardByteCount, business, businessByteCount);
}

// MARK: SipHash-2-4 (Aumasson, Bernstein, 2012): the pseudonyms of sessions.

// Eight hashes side by side, one in each lane; a lane is to a vector what the number is to itself, so that the steps below
// are those of both.
typedef uint64_t lanes __attribute__((vector_size(64)));

#define ROTATED(a, count) ((a) << (count) | (a) >> (64 - (count)))

#define SIP_ROUND(s) \
    do { \
        (s).v0 += (s).v1; \
        (s).v2 += (s).v3; \
        (s).v1 = ROTATED((s).v1, 13) ^ (s).v0; \
        (s).v3 = ROTATED((s).v3, 16) ^ (s).v2; \
        (s).v0 = ROTATED((s).v0, 32); \
        (s).v2 += (s).v1; \
        (s).v0 += (s).v3; \
        (s).v1 = ROTATED((s).v1, 17) ^ (s).v2; \
        (s).v3 = ROTATED((s).v3, 21) ^ (s).v0; \
        (s).v2 = ROTATED((s).v2, 32); \
    } while (0)

#define SIP_ABSORB(s, word) \
    do { \
        (s).v3 ^= (word); \
        SIP_ROUND(s); \
        SIP_ROUND(s); \
        (s).v0 ^= (word); \
    } while (0)

#define SIP_FINISH(s) \
    do { \
        (s).v2 ^= 0xff; \
        for (int i = 0; i < 4; i++) SIP_ROUND(s); \
    } while (0)

static const uint64_t sipStart[4] = {
    0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573};

// The last word: what is left of the bytes behind `from`, and the count of all.
static inline uint64_t sipLast(const struct ingest_text *text, size_t from) {
    const size_t left = text->byteCount - from;
    uint64_t last = 0;
    if (from > 0) {
        last = left == 0 ? 0 : ingest_word(text->bytes, text->byteCount - 8) >> (64 - 8 * left);
    } else {
        for (size_t i = 0; i < left; i++) last |= (uint64_t)text->bytes[i] << 8 * i;
    }
    return last | (uint64_t)(text->byteCount & 0xff) << 56;
}

static uint64_t sipOne(uint64_t low, uint64_t high, const struct ingest_text *text) {
    struct {
        uint64_t v0, v1, v2, v3;
    } s = {low ^ sipStart[0], high ^ sipStart[1], low ^ sipStart[2], high ^ sipStart[3]};
    size_t at = 0;
    for (; at + 8 <= text->byteCount; at += 8) {
        const uint64_t word = ingest_word(text->bytes, at);
        SIP_ABSORB(s, word);
    }
    const uint64_t last = sipLast(text, at);
    SIP_ABSORB(s, last);
    SIP_FINISH(s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#if defined(__x86_64__)
// Of texts that are equally long.
__attribute__((target("avx512f"))) static void sipEight(
    uint64_t low, uint64_t high, const struct ingest_text *texts, uint64_t *out) {
    const lanes zero = {0};
    struct {
        lanes v0, v1, v2, v3;
    } s = {
        zero + (low ^ sipStart[0]), zero + (high ^ sipStart[1]), zero + (low ^ sipStart[2]),
        zero + (high ^ sipStart[3])};
    lanes word = zero;
    size_t at = 0;
    for (; at + 8 <= texts[0].byteCount; at += 8) {
        for (int i = 0; i < 8; i++) word[i] = ingest_word(texts[i].bytes, at);
        SIP_ABSORB(s, word);
    }
    for (int i = 0; i < 8; i++) word[i] = sipLast(&texts[i], at);
    SIP_ABSORB(s, word);
    SIP_FINISH(s);
    const lanes hashes = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    memcpy(out, &hashes, sizeof hashes);
}

static bool hasLanes;

__attribute__((constructor)) static void findLanes(void) {
    __builtin_cpu_init();
    hasLanes = __builtin_cpu_supports("avx512f");
}

// Whether the first eight of some texts are equally long.
static bool areAlike(const struct ingest_text *texts) {
    size_t differing = 0;
    for (int i = 1; i < 8; i++) differing |= texts[i].byteCount ^ texts[0].byteCount;
    return differing == 0;
}
#endif

void ingest_siphash(
    uint64_t low, uint64_t high, const struct ingest_text *texts, size_t count, uint64_t *out) {
    size_t done = 0;
    while (done < count) {
#if defined(__x86_64__)
        if (hasLanes && count - done >= 8 && areAlike(texts + done)) {
            sipEight(low, high, texts + done, out + done);
            done += 8;
            continue;
        }
#endif
        out[done] = sipOne(low, high, texts + done);
        done++;
    }
}
