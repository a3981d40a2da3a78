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
#include "ingest_hash.h"

#include <string.h>

#define MASK 0
#define ROUND 9
#define FINISH 13
#define UUID_TEXT_BYTE_COUNT 36

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
    for (uint64_t byteCount = 0; byteCount <= 32; byteCount++) {
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
    whole = fourRounds(sum, key, FINISH, FINISH + 1);
    return (struct ingest_pair_hash){whole.low, (uint32_t)whole.high};
}

// MARK: Events

// An event's arrays, `index` descriptors after the first.
struct event {
    const uint16_t *offsets;
    const uint8_t *byteCounts;
    uint64_t *hashes;
    uint32_t *pairTag;
};

static inline struct event eventAt(const struct ingest_events *events, size_t index) {
    size_t distance = index * events->stride;
    return (struct event){
        (const uint16_t *)((const uint8_t *)events->offsets + distance),
        events->byteCounts + distance,
        (uint64_t *)((uint8_t *)events->hashes + distance),
        (uint32_t *)((uint8_t *)events->pairTags + distance),
    };
}

// MARK: The hash with AES instructions

#if defined(__x86_64__)
#include <immintrin.h>
#define WITH_AES __attribute__((target("aes,avx"), always_inline)) static inline

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

WITH_AES __m128i absorbed(const struct subkeys *keys, __m128i data, __m128i mask) {
    __m128i state = _mm_xor_si128(data, mask);
    for (int i = 0; i < 4; i++) state = _mm_aesenc_si128(state, keys->round[i]);
    return state;
}

// How many bytes a text may have to be hashed where it is: 4 blocks. A UUID in text has 36, with a prefix 40.
#define NEAR_BYTE_COUNT_MAX 64

// Loaded at 64 - n it keeps n bytes of a first block, 16 further on the rest of them in a second, and so on.
static const uint8_t keep[128] __attribute__((aligned(64))) = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

WITH_AES __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

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

// What became of a text: its data blocks' sum, all its bytes ORed, and all its `@` as bytes of 255.
struct text {
    __m128i sum, seen, at;
};

WITH_AES void absorbBlock(
    struct text *text, const struct subkeys *keys, const uint8_t *p, const uint8_t *mask,
    __m128i subkey) {
    __m128i data = _mm_and_si128(load(p), load(mask));
    text->sum = _mm_xor_si128(text->sum, absorbed(keys, data, subkey));
    text->seen = _mm_or_si128(text->seen, data);
    text->at = _mm_or_si128(text->at, _mm_cmpeq_epi8(data, _mm_set1_epi8('@')));
}

// The text of `byteCount` bytes at `p`, of which `isNear` holds. Two blocks at least, then a branch for each:
// what names are longer than 32 bytes is much the same from one to the next.
WITH_AES struct text textAt(const struct subkeys *keys, const uint8_t *p, size_t byteCount) {
    const uint8_t *mask = keep + NEAR_BYTE_COUNT_MAX - byteCount;
    __m128i zero = _mm_setzero_si128();
    struct text text = {zero, zero, zero};
    absorbBlock(&text, keys, p, mask, keys->mask[1]);
    absorbBlock(&text, keys, p + 16, mask + 16, keys->mask[2]);
    if (byteCount > 32)
        absorbBlock(&text, keys, p + 32, mask + 32, subkey(keys->key, MASK + 3));
    if (byteCount > 48)
        absorbBlock(&text, keys, p + 48, mask + 48, subkey(keys->key, MASK + 4));
    return text;
}

// The sum of any input, from a copy that is filled up with zeros. ORs all bytes into `seen`.
__attribute__((target("aes,avx"), noinline)) static __m128i sumOfCopy(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const uint8_t *p,
    size_t byteCount, __m128i *seen) {
    struct subkeys keys = subkeysOf(key);
    uint8_t copy[INGEST_HASH_BYTE_COUNT_MAX] = {0};
    if (byteCount > 0) memcpy(copy, p, byteCount);
    __m128i sum = header(&keys, domain, context, byteCount);
    for (size_t i = 0; i < 2 || 16 * i < byteCount; i++) {
        __m128i data = load(copy + 16 * i);
        sum = _mm_xor_si128(sum, absorbed(&keys, data, subkey(key, MASK + 1 + i)));
        *seen = _mm_or_si128(*seen, data);
    }
    return sum;
}

__attribute__((target("aes,avx"))) static uint64_t hashOne(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const uint8_t *p,
    size_t byteCount) {
    struct subkeys keys = subkeysOf(key);
    __m128i ignored = _mm_setzero_si128();
    return low(finished(&keys, sumOfCopy(key, domain, context, p, byteCount, &ignored)));
}

WITH_AES struct ingest_pair_hash pairOf(
    const struct subkeys *keys, __m128i sumOfReward, __m128i business) {
    __m128i hash = finished(keys, _mm_xor_si128(sumOfReward, business));
    return (struct ingest_pair_hash){low(hash), (uint32_t)_mm_extract_epi32(hash, 2)};
}

__attribute__((target("aes,avx"))) static struct ingest_pair_hash hashPair(
    const struct ingest_hash_key *key, const uint8_t *reward, size_t rewardByteCount,
    const uint8_t *business, size_t businessByteCount) {
    struct subkeys keys = subkeysOf(key);
    __m128i ignored = _mm_setzero_si128();
    __m128i whole = finished(
        &keys, sumOfCopy(key, INGEST_HASH_NAME, 0, business, businessByteCount, &ignored));
    __m128i sum = sumOfCopy(key, INGEST_HASH_NAME, 0, reward, rewardByteCount, &ignored);
    return pairOf(&keys, sum, whole);
}

// MARK: The events of a packet with AES instructions

// Whether a text may be loaded where it is: short, and not at the very end of the packet.
WITH_AES int isNear(const struct ingest_events *events, const uint8_t *p, size_t byteCount) {
    size_t loaded = byteCount <= 32 ? 32 : (byteCount + 15) & ~(size_t)15;
    return __builtin_expect(
        ((size_t)(events->end - p) >= loaded) & (byteCount <= NEAR_BYTE_COUNT_MAX), 1);
}

WITH_AES __m128i sumOfNearName(
    const struct subkeys *keys, struct text text, size_t byteCount) {
    __m128i start = byteCount <= 32
        ? load((const uint8_t *)(keys->key->nameHeaders + 2 * byteCount))
        : header(keys, INGEST_HASH_NAME, 0, byteCount);
    return _mm_xor_si128(text.sum, start);
}

// The sum of reward or business. ORs its bytes into `seen`.
WITH_AES __m128i sumOfName(
    const struct subkeys *keys, const struct ingest_events *events, struct event event,
    int index, __m128i *seen) {
    const uint8_t *p = events->packet + event.offsets[index];
    size_t byteCount = event.byteCounts[index];
    if (!isNear(events, p, byteCount))
        return sumOfCopy(keys->key, INGEST_HASH_NAME, 0, p, byteCount, seen);
    struct text text = textAt(keys, p, byteCount);
    *seen = _mm_or_si128(*seen, text.seen);
    return sumOfNearName(keys, text, byteCount);
}

WITH_AES void hashNames(
    const struct subkeys *keys, const struct ingest_events *events, struct event event,
    __m128i *seen) {
    __m128i business =
        finished(keys, sumOfName(keys, events, event, INGEST_EVENT_BUSINESS, seen));
    __m128i reward = sumOfName(keys, events, event, INGEST_EVENT_REWARD, seen);
    struct ingest_pair_hash pair = pairOf(keys, reward, business);
    event.hashes[INGEST_EVENT_PAIR_HASH] = pair.low;
    event.hashes[INGEST_EVENT_BUSINESS] = low(business);
    *event.pairTag = pair.tag;
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

WITH_AES void hashEventID(
    const struct subkeys *keys, const struct ingest_events *events, struct event event) {
    const uint8_t *p = events->packet + event.offsets[INGEST_EVENT_ID];
    size_t byteCount = event.byteCounts[INGEST_EVENT_ID];
    uint64_t business = event.hashes[INGEST_EVENT_BUSINESS];
    uint8_t uuid[32] = {0};
    if (byteCount == UUID_TEXT_BYTE_COUNT && parseUUID(p, uuid)) {
        p = uuid;
        byteCount = 16;
    } else if (!isNear(events, p, byteCount)) {
        __m128i ignored = _mm_setzero_si128();
        __m128i sum =
            sumOfCopy(keys->key, INGEST_HASH_EVENT, business, p, byteCount, &ignored);
        event.hashes[INGEST_EVENT_ID_HASH] = low(finished(keys, sum));
        return;
    }
    __m128i start = header(keys, INGEST_HASH_EVENT, business, byteCount);
    struct text text = textAt(keys, p, byteCount);
    event.hashes[INGEST_EVENT_ID_HASH] = low(finished(keys, _mm_xor_si128(text.sum, start)));
}

// Platform, campaign or source. ORs into `seen` its bytes, and bytes over 127 for an `@` or too long a
// text, which is not hashed.
WITH_AES void hashAttribution(
    const struct subkeys *keys, const struct ingest_events *events, struct event event,
    int index, __m128i *seen) {
    const uint8_t *p = events->packet + event.offsets[index];
    size_t byteCount = event.byteCounts[index];
    uint8_t copy[NEAR_BYTE_COUNT_MAX] = {0};
    if (byteCount > NEAR_BYTE_COUNT_MAX) {
        *seen = _mm_set1_epi8(-1);
        return;
    }
    if (!isNear(events, p, byteCount)) p = memcpy(copy, p, byteCount);
    struct text text = textAt(keys, p, byteCount);
    *seen = _mm_or_si128(*seen, _mm_or_si128(text.seen, text.at));
    event.hashes[index] = low(finished(keys, sumOfNearName(keys, text, byteCount)));
}

// ORs the session's bytes into `seen`.
WITH_AES void seeSession(
    const struct ingest_events *events, struct event event, __m128i *seen) {
    const uint8_t *p = events->packet + event.offsets[INGEST_EVENT_SESSION];
    size_t byteCount = event.byteCounts[INGEST_EVENT_SESSION];
    if (isNear(events, p, byteCount)) {
        const uint8_t *mask = keep + NEAR_BYTE_COUNT_MAX - byteCount;
        for (size_t i = 0; i < byteCount; i += 16)
            *seen = _mm_or_si128(*seen, _mm_and_si128(load(p + i), load(mask + i)));
    } else {
        for (size_t i = 0; i < byteCount; i++)
            *seen = _mm_or_si128(*seen, _mm_cvtsi32_si128(p[i]));
    }
}

__attribute__((target("aes,avx"))) static int hashEventsFast(
    const struct ingest_hash_key *key, const struct ingest_events *given) {
    // Copies of our own: the hashes that are stored might be anywhere, for all that the compiler knows.
    struct ingest_events copy = *given;
    const struct ingest_events *events = &copy;
    struct subkeys keys = subkeysOf(key);
    __m128i seen = _mm_setzero_si128();
    for (size_t i = 0; i < copy.count; i++) {
        hashNames(&keys, events, eventAt(events, i), &seen);
    }
    for (size_t i = 0; i < copy.count; i++) {
        struct event event = eventAt(events, i);
        if (event.byteCounts[INGEST_EVENT_ID] != 0) hashEventID(&keys, events, event);
        seeSession(events, event, &seen);
        for (int text = INGEST_EVENT_PLATFORM; text <= INGEST_EVENT_SOURCE; text++)
            if (event.byteCounts[text] != 0) hashAttribution(&keys, events, event, text, &seen);
    }
    return _mm_movemask_epi8(seen) == 0;
}

static int hasInstructions;
// Runs before main, so the choice is made before any thread can read it.
__attribute__((constructor)) static void choose(void) {
    __builtin_cpu_init();
    hasInstructions = __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx");
}
#endif

uint64_t ingest_hash(
    const struct ingest_hash_key *key, uint32_t domain, uint64_t context, const void *bytes,
    size_t byteCount) {
#if defined(__x86_64__)
    if (__builtin_expect(hasInstructions, 1))
        return hashOne(key, domain, context, bytes, byteCount);
#endif
    return ingest_hash_portable(key, domain, context, bytes, byteCount);
}

struct ingest_pair_hash ingest_hash_pair(
    const struct ingest_hash_key *key, const void *reward, size_t rewardByteCount,
    const void *business, size_t businessByteCount) {
#if defined(__x86_64__)
    if (__builtin_expect(hasInstructions, 1))
        return hashPair(key, reward, rewardByteCount, business, businessByteCount);
#endif
    return ingest_hash_pair_portable(key, reward, rewardByteCount, business, businessByteCount);
}

int ingest_hash_events(
    const struct ingest_hash_key *key, const struct ingest_events *events) {
#if defined(__x86_64__)
    if (__builtin_expect(hasInstructions, 1)) return hashEventsFast(key, events);
#endif
    for (size_t i = 0; i < events->count; i++) {
        struct event event = eventAt(events, i);
        const uint8_t *reward = events->packet + event.offsets[INGEST_EVENT_REWARD];
        const uint8_t *business = events->packet + event.offsets[INGEST_EVENT_BUSINESS];
        size_t businessByteCount = event.byteCounts[INGEST_EVENT_BUSINESS];
        struct ingest_pair_hash pair = ingest_hash_pair_portable(
            key, reward, event.byteCounts[INGEST_EVENT_REWARD], business, businessByteCount);
        event.hashes[INGEST_EVENT_PAIR_HASH] = pair.low;
        *event.pairTag = pair.tag;
        event.hashes[INGEST_EVENT_BUSINESS] =
            ingest_hash_portable(key, INGEST_HASH_NAME, 0, business, businessByteCount);
        if (event.byteCounts[INGEST_EVENT_ID] != 0)
            event.hashes[INGEST_EVENT_ID_HASH] = ingest_hash_portable(
                key, INGEST_HASH_EVENT, event.hashes[INGEST_EVENT_BUSINESS],
                events->packet + event.offsets[INGEST_EVENT_ID],
                event.byteCounts[INGEST_EVENT_ID]);
    }
    return 0;
}
