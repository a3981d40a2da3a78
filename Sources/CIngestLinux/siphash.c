// SipHash-2-4 (Aumasson, Bernstein, 2012): the pseudonyms of sessions.
#include "ingest_hash.h"

#include <string.h>

static inline uint64_t rotated(uint64_t a, int count) { return a << count | a >> (64 - count); }

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline void sipRound(struct sip *s) {
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotated(s->v1, 13) ^ s->v0;
    s->v3 = rotated(s->v3, 16) ^ s->v2;
    s->v0 = rotated(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotated(s->v1, 17) ^ s->v2;
    s->v3 = rotated(s->v3, 21) ^ s->v0;
    s->v2 = rotated(s->v2, 32);
}

static inline void absorb(struct sip *s, uint64_t word) {
    s->v3 ^= word;
    sipRound(s);
    sipRound(s);
    s->v0 ^= word;
}

uint64_t ingest_siphash(uint64_t low, uint64_t high, const void *bytes, size_t byteCount) {
    struct sip s = {
        low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d, low ^ 0x6c7967656e657261,
        high ^ 0x7465646279746573};
    const uint8_t *from = bytes;
    size_t left = byteCount;
    for (; left >= 8; from += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        absorb(&s, word);
    }
    uint64_t last = 0;
    for (size_t i = 0; i < left; i++) last |= (uint64_t)from[i] << 8 * i;
    absorb(&s, last | (uint64_t)(byteCount & 0xff) << 56);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++) sipRound(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
