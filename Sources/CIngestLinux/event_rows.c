// Decodes the packets of most senders straight into rows, and hashes each text where it lies: the fields of an event in
// the order of their numbers, as encoders write them, texts of ASCII of up to 64 bytes, numbers in their usual
// length. What is not of that form is left to the decoder that takes everything, with the whole packet.
//
// Hashed as it is found a text costs no second look at its place, and the hash's chains of instructions run beside
// those of the next fields.
#include "ingest_rows.h"
#include "keyed_hash_aes.h"

#if defined(__x86_64__)
#include <string.h>

#define TEXT_BYTE_COUNT_MAX INGEST_HASH_NEAR_MAX
// How many bytes behind an event must be there to be loaded: texts are loaded by sixteens, two at least.
#define SLACK_BYTE_COUNT 64
// Longer than any event of this form.
#define EVENT_BYTE_COUNT_MAX 640

// The first byte of a field: its number, and 0 for a varint, 2 for bytes.
#define TAG(number, wireType) ((number) << 3 | (wireType))

WITH_AES uint16_t load16(const uint8_t *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

WITH_AES uint32_t load32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

WITH_AES uint64_t load64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

// An event being read: what comes next, its end, and where byte 0 of the packet would be.
struct event {
    const uint8_t *at, *end;
    uintptr_t origin;
};

struct place {
    const uint8_t *p;
    size_t byteCount;
};

// MARK: Texts

// Loaded at 64 - n it keeps n bytes of a first block, 16 further on the rest of them in a second, and so on.
static const uint8_t keep[128] __attribute__((aligned(64))) = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

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

// Two blocks at least, then a branch for each: what names are longer than 32 bytes is much the same from one to
// the next.
WITH_AES struct text textAt(const struct subkeys *keys, struct place place) {
    const uint8_t *p = place.p, *mask = keep + TEXT_BYTE_COUNT_MAX - place.byteCount;
    __m128i zero = _mm_setzero_si128();
    struct text text = {zero, zero, zero};
    absorbBlock(&text, keys, p, mask, keys->mask[1]);
    absorbBlock(&text, keys, p + 16, mask + 16, keys->mask[2]);
    if (place.byteCount > 32)
        absorbBlock(&text, keys, p + 32, mask + 32, subkey(keys->key, MASK + 3));
    if (place.byteCount > 48)
        absorbBlock(&text, keys, p + 48, mask + 48, subkey(keys->key, MASK + 4));
    return text;
}

// The sum of a name. ORs its bytes into `seen`.
WITH_AES __m128i nameAt(const struct subkeys *keys, struct place place, __m128i *seen) {
    struct text text = textAt(keys, place);
    *seen = _mm_or_si128(*seen, text.seen);
    const uint64_t *start = keys->key->nameHeaders + 2 * place.byteCount;
    return _mm_xor_si128(text.sum, load((const uint8_t *)start));
}

// The hash of a platform, campaign or source. ORs into `seen` its bytes, and bytes over 127 for an `@`.
WITH_AES uint64_t attributionAt(
    const struct subkeys *keys, struct place place, __m128i *seen) {
    struct text text = textAt(keys, place);
    *seen = _mm_or_si128(*seen, _mm_or_si128(text.seen, text.at));
    const uint64_t *start = keys->key->nameHeaders + 2 * place.byteCount;
    return low(finished(keys, _mm_xor_si128(text.sum, load((const uint8_t *)start))));
}

WITH_AES uint64_t eventIDAt(const struct subkeys *keys, struct place place, uint64_t business) {
    uint8_t uuid[32] = {0};
    if (place.byteCount == UUID_TEXT_BYTE_COUNT && parseUUID(place.p, uuid))
        place = (struct place){uuid, 16};
    __m128i start = header(keys, INGEST_HASH_EVENT, business, place.byteCount);
    return low(finished(keys, _mm_xor_si128(textAt(keys, place).sum, start)));
}

// MARK: Fields

// A text whose tag and length are `head`, at `event->at`; passes it. All of the answer means nothing where the text
// is empty, too long, or not inside the event.
WITH_AES int takeText(struct event *event, uint32_t head, struct place *place) {
    size_t byteCount = head >> 8 & 0xFF;
    *place = (struct place){event->at + 2, byteCount};
    event->at += 2 + byteCount;
    return (byteCount - 1 < TEXT_BYTE_COUNT_MAX) & (event->at <= event->end);
}

WITH_AES uint16_t offsetOf(const struct event *event, struct place place) {
    return (uint16_t)((uintptr_t)place.p - event->origin);
}

// The value of 7 bits of each byte of `word` that are set in `bits`, pushed together in three steps.
WITH_AES uint64_t varintOf(uint64_t word) {
    word &= 0x7F7F7F7F7F7F7F7F;
    word = (word & 0x007F007F007F007F) | (word & 0x7F007F007F007F00) >> 1;
    word = (word & 0x00003FFF00003FFF) | (word & 0x3FFF00003FFF0000) >> 2;
    return (word & 0x0FFFFFFF) | (word & 0x0FFFFFFF00000000) >> 4;
}

// A varint of up to 8 bytes at `event->at`; passes it.
WITH_AES int takeVarint(struct event *event, uint64_t *value) {
    uint64_t word = load64(event->at), stops = ~word & 0x8080808080808080;
    if (stops == 0) return 0;
    *value = varintOf(word & (stops ^ (stops - 1)));
    event->at += (__builtin_ctzll(stops) + 1) >> 3;
    return 1;
}

// A varint of up to 4 bytes at `event->at`; passes it.
WITH_AES int takeSmallVarint(struct event *event, uint32_t *value) {
    uint32_t word = load32(event->at), stops = ~word & 0x80808080;
    if (stops == 0) return 0;
    word &= (stops ^ (stops - 1)) & 0x7F7F7F7F;
    word = (word & 0x007F007F) | (word & 0x7F007F00) >> 1;
    *value = (word & 0x3FFF) | (word & 0x3FFF0000) >> 2;
    event->at += (__builtin_ctz(stops) + 1) >> 3;
    return 1;
}

// The submessage whose tag and length are `head`, at `event->at`.
WITH_AES int takeViewability(struct event *event, uint32_t head, struct ingest_row *row) {
    const uint8_t *end = event->at + 2 + (head >> 8);
    uint32_t visible = 0, duration = 0;
    event->at += 2;
    if (end > event->end) return 0;
    if (event->at < end && *event->at == TAG(1, 0)) {
        event->at++;
        if (!takeSmallVarint(event, &visible)) return 0;
    }
    if (event->at < end && *event->at == TAG(2, 0)) {
        event->at++;
        if (!takeSmallVarint(event, &duration)) return 0;
    }
    if (event->at < end && *event->at == TAG(3, 0)) {
        row->format = event->at[1];
        event->at += 2;
    }
    row->visiblePartsPerMillion = visible;
    row->durationMilliseconds = duration;
    row->flags |= INGEST_ROW_MEASURED;
    return event->at == end && row->format < 3 && visible <= INGEST_ROW_VISIBLE_MAX;
}

// The fields behind the platform, which few events have.
__attribute__((AES_TARGET, noinline)) static int takeRareFields(
    const struct subkeys *keys, struct event event, struct ingest_row *row,
    struct ingest_rows *rows, __m128i *seen) {
    struct ingest_side side = {0};
    struct place place;
    uint64_t value;
    if (event.at < event.end && *event.at == TAG(10, 0)) {
        event.at++;
        if (!takeVarint(&event, &value) || value > INGEST_ROW_MONEY_MAX) return 0;
        side.revenueMicros = (int64_t)value;
    }
    if (event.at < event.end && *event.at == TAG(11, 0)) {
        event.at++;
        if (!takeVarint(&event, &value) || value > INGEST_ROW_MONEY_MAX) return 0;
        side.spendMicros = (int64_t)value;
    }
    if (event.at < event.end && *event.at == TAG(12, 2)) {
        if (!takeText(&event, load16(event.at), &place)) return 0;
        side.campaign = (struct ingest_row_name){
            attributionAt(keys, place, seen), offsetOf(&event, place), (uint8_t)place.byteCount};
    }
    if (event.at < event.end && *event.at == TAG(13, 2)) {
        if (!takeText(&event, load16(event.at), &place)) return 0;
        side.source = (struct ingest_row_name){
            attributionAt(keys, place, seen), offsetOf(&event, place), (uint8_t)place.byteCount};
    }
    if (event.at < event.end && load16(event.at) == (TAG(14, 0) | 1 << 8)) {
        row->flags |= INGEST_ROW_INVALID_TRAFFIC;
        event.at += 2;
    }
    if (side.revenueMicros | side.spendMicros | side.campaign.byteCount | side.source.byteCount) {
        rows->sides[rows->sideCount++] = side;
        row->side = (uint16_t)rows->sideCount;
    }
    return event.at == event.end;
}

// MARK: Events

// One event, of which `SLACK_BYTE_COUNT` bytes behind its end may be loaded. Before each field no more than 12 bytes
// behind the end have been passed, and behind a text none; what has run over the end fails at last.
WITH_AES int takeEvent(
    const struct subkeys *keys, struct event event, const uint64_t *onlyBusiness,
    struct ingest_row *row, struct ingest_rows *rows, __m128i *seen) {
    struct place place;
    *row = (struct ingest_row){0};
    // Type and reward: tag, value, tag, length.
    uint32_t head = load32(event.at);
    uint32_t type = head >> 8 & 0xFF;
    row->type = (uint8_t)type;
    event.at += 2;
    if ((head & 0x00FF00FF) != (TAG(1, 0) | TAG(2, 2) << 16) || type - 1 >= 3
        || !takeText(&event, head >> 16, &place))
        return 0;
    __m128i reward = nameAt(keys, place, seen);
    row->rewardOffset = offsetOf(&event, place);
    row->rewardByteCount = (uint8_t)place.byteCount;

    head = load16(event.at);
    if ((uint8_t)head != TAG(3, 2) || !takeText(&event, head, &place)) return 0;
    struct ingest_pair_hash pair =
        pairOf(keys, reward, finished(keys, nameAt(keys, place, seen)));
    row->businessOffset = offsetOf(&event, place);
    row->businessByteCount = (uint8_t)place.byteCount;
    row->pairHash = pair.low;
    row->pairTag = pair.tag;
    if (onlyBusiness && *onlyBusiness != pair.business) row->flags = INGEST_ROW_WRONG_BUSINESS;

    // From 1987 on microseconds have 8 bytes, so that where the next field is does not hang on their value.
    uint64_t bytes = load64(event.at + 1), time = varintOf(bytes);
    if (*event.at != TAG(4, 0) || (bytes & 0x8080808080808080) != 0x0080808080808080
        || time > INGEST_ROW_TIMESTAMP_MAX)
        return 0;
    row->timestampMicroseconds = (int64_t)time;
    event.at += 9;

    uint64_t id = 0;
    head = load16(event.at);
    if ((uint8_t)head == TAG(5, 2)) {
        if (!takeText(&event, head, &place)) return 0;
        id = eventIDAt(keys, place, pair.business);
        row->flags |= INGEST_ROW_EVENT_ID;
        head = load16(event.at);
    }
    row->eventHash = id + type * INGEST_HASH_OF_TYPE;
    if ((uint8_t)head == TAG(6, 2)) {
        if (!takeText(&event, head, &place)) return 0;
        row->sessionOffset = offsetOf(&event, place);
        row->sessionByteCount = (uint8_t)place.byteCount;
        const uint8_t *mask = keep + TEXT_BYTE_COUNT_MAX - place.byteCount;
        for (size_t i = 0; i < place.byteCount; i += 16)
            *seen = _mm_or_si128(*seen, _mm_and_si128(load(place.p + i), load(mask + i)));
        head = load16(event.at);
    }
    if ((uint8_t)head == TAG(7, 0)) {
        row->consent = (uint8_t)(head >> 8);
        if (row->consent >= 3) return 0;
        event.at += 2;
        head = load16(event.at);
    }
    if ((uint8_t)head == TAG(8, 2)) {
        if (!takeViewability(&event, head, row)) return 0;
        head = load16(event.at);
    }
    if ((uint8_t)head == TAG(9, 2)) {
        if (!takeText(&event, head, &place)) return 0;
        row->platform = (struct ingest_row_name){
            attributionAt(keys, place, seen), offsetOf(&event, place), (uint8_t)place.byteCount};
    }
    if (event.at == event.end) return 1;
    return event.at < event.end && takeRareFields(keys, event, row, rows, seen);
}

// The event of `byteCount` bytes at `at`, `offset` bytes from the packet's start. At the end of a packet from a copy, so
// that nothing beyond is loaded.
WITH_AES int takeMessage(
    const struct subkeys *keys, const uint8_t *at, size_t byteCount, size_t offset,
    const uint8_t *end, const uint64_t *onlyBusiness, struct ingest_rows *rows, __m128i *seen) {
    uint8_t copy[EVENT_BYTE_COUNT_MAX + SLACK_BYTE_COUNT];
    if ((size_t)(end - at) < byteCount + SLACK_BYTE_COUNT) {
        if (byteCount > EVENT_BYTE_COUNT_MAX) return 0;
        memcpy(copy, at, byteCount);
        memset(copy + byteCount, 0, SLACK_BYTE_COUNT);
        at = copy;
    }
    struct event event = {at, at + byteCount, (uintptr_t)at - offset};
    struct ingest_row *row = rows->rows + rows->rowCount++;
    return takeEvent(keys, event, onlyBusiness, row, rows, seen);
}

__attribute__((AES_TARGET)) static int decodeRows(
    const struct ingest_hash_key *key, const uint8_t *packet, size_t offset, size_t byteCount,
    const uint64_t *onlyBusiness, struct ingest_rows *rows) {
    struct subkeys keys = subkeysOf(key);
    __m128i seen = _mm_setzero_si128();
    const uint8_t *at = packet + offset, *end = at + byteCount;
    while (at < end) {
        // Tag and length, which has one byte or two: as good as random for events of about 128 bytes.
        uint32_t head = 0;
        if (end - at >= 4) head = load32(at);
        else memcpy(&head, at, (size_t)(end - at));
        uint32_t hasTwo = head >> 15 & 1;
        size_t messageByteCount = (head >> 8 & 0x7F) | (head >> 9 & 0x3F80 & -hasTwo);
        at += 2 + hasTwo;
        if ((head & 0x808000) == 0x808000) {
            // Three, as `EventBatchEncoder` writes that of padding.
            if (head >> 31 || (uint8_t)head == TAG(1, 2)) return 0;
            messageByteCount |= head >> 10 & 0x1FC000;
            at++;
        }
        if (at > end || (size_t)(end - at) < messageByteCount) return 0;
        if ((uint8_t)head == TAG(1, 2)) {
            if (!takeMessage(
                    &keys, at, messageByteCount, (size_t)(at - packet), end, onlyBusiness, rows,
                    &seen))
                return 0;
        } else if ((head & 0x87) != 2 || (uint8_t)head < TAG(1, 2)) {
            return 0;  // not the padding of a packet
        }
        at += messageByteCount;
    }
    return _mm_movemask_epi8(seen) == 0;
}
#endif

int ingest_decode_rows(
    const struct ingest_hash_key *key, const uint8_t *packet, size_t payloadOffset,
    size_t payloadByteCount, const uint64_t *onlyBusiness, struct ingest_rows *rows) {
    rows->rowCount = 0;
    rows->sideCount = 0;
#if defined(__x86_64__)
    if (__builtin_expect(ingest_hash_has_instructions, 1))
        return decodeRows(key, packet, payloadOffset, payloadByteCount, onlyBusiness, rows);
#endif
    return 0;
}
