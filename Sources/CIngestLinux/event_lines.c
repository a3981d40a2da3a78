// Decodes events of JSON as nearly all writers give them: an object of plain ASCII, a key once, texts without escapes,
// numbers as digits, a time in UTC. What is not of that form is left to the decoder that takes everything, which
// begins again at the line's first byte.
#include "ingest_rows.h"
#include "keyed_hash_aes.h"

#if defined(__x86_64__)
#include <string.h>

#define NAME_BYTE_COUNT_MAX 128
#define ID_BYTE_COUNT_MAX 64

// A line being read: what comes next, and the end of what may be read.
struct line {
    const uint8_t *at, *end;
};

struct text {
    const uint8_t *p;
    size_t byteCount;
};

// The fields of an event; in `seen` a bit each.
enum field {
    TYPE, REWARD, BUSINESS, TIMESTAMP, EVENT_ID, SESSION, CONSENT, METADATA, VIEWABILITY,
    DURATION, FORMAT, PLATFORM, REVENUE, SPEND, CAMPAIGN, SOURCE, INVALID_TRAFFIC, UNKNOWN,
};

// MARK: Grammar

// The byte at `at`; 0, which no line holds, at the end.
WITH_AES uint8_t peek(const struct line *line) { return line->at < line->end ? *line->at : 0; }

WITH_AES int accept(struct line *line, uint8_t byte) {
    if (peek(line) != byte) return 0;
    line->at++;
    return 1;
}

// Many writers put a space behind a comma or a colon.
WITH_AES void passSpace(struct line *line) {
    if (peek(line) == ' ') line->at++;
}

// 16 bytes at `p`, zeros from `end` on: these are no text.
WITH_AES __m128i loadUpTo(const uint8_t *p, const uint8_t *end) {
    if (__builtin_expect(end - p >= 16, 1)) return _mm_loadu_si128((const __m128i *)p);
    uint8_t bytes[16] = {0};
    if (p < end) memcpy(bytes, p, (size_t)(end - p));
    return _mm_loadu_si128((const __m128i *)bytes);
}

// A string of ASCII without escapes, whose quote is at `at`; passes it.
WITH_AES int takeText(struct line *line, struct text *text) {
    const uint8_t *start = line->at + 1;
    if (peek(line) != '"') return 0;
    for (const uint8_t *p = start;; p += 16) {
        __m128i block = loadUpTo(p, line->end);
        // As signed numbers bytes over 127 are below 32 as well.
        __m128i stops = _mm_or_si128(
            _mm_cmplt_epi8(block, _mm_set1_epi8(0x20)),
            _mm_or_si128(
                _mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))));
        unsigned bits = (unsigned)_mm_movemask_epi8(stops);
        if (bits == 0) continue;
        p += __builtin_ctz(bits);
        if (p >= line->end || *p != '"') return 0;
        *text = (struct text){start, (size_t)(p - start)};
        line->at = p + 1;
        return 1;
    }
}

// A key, its colon and a space.
WITH_AES int takeKey(struct line *line, struct text *key) {
    if (!takeText(line, key) || !accept(line, ':')) return 0;
    passSpace(line);
    return 1;
}

#define IS(text, word) ((text).byteCount == sizeof word - 1 && !memcmp((text).p, word, sizeof word - 1))

// A known key has one meaning beside metadata and in it, but for those that are read beside it alone.
WITH_AES enum field fieldOf(struct text key, int isInside) {
    switch (key.byteCount) {
    case 5: return IS(key, "spend") ? SPEND : UNKNOWN;
    case 6: return IS(key, "format") ? FORMAT : IS(key, "source") ? SOURCE : UNKNOWN;
    case 7:
        return IS(key, "eventId") ? EVENT_ID
            : IS(key, "consent")  ? CONSENT
            : IS(key, "revenue")  ? REVENUE
                                  : UNKNOWN;
    case 8:
        if (!isInside && IS(key, "rewardId")) return REWARD;
        if (!isInside && IS(key, "metadata")) return METADATA;
        return IS(key, "duration")  ? DURATION
            : IS(key, "platform") ? PLATFORM
            : IS(key, "campaign") ? CAMPAIGN
                                  : UNKNOWN;
    case 9:
        if (!isInside && IS(key, "eventType")) return TYPE;
        if (!isInside && IS(key, "timestamp")) return TIMESTAMP;
        return IS(key, "sessionId") ? SESSION : UNKNOWN;
    case 10: return !isInside && IS(key, "businessId") ? BUSINESS : UNKNOWN;
    case 11: return IS(key, "viewability") ? VIEWABILITY : UNKNOWN;
    case 14: return IS(key, "invalidTraffic") ? INVALID_TRAFFIC : UNKNOWN;
    default: return UNKNOWN;
    }
}

// MARK: Numbers

WITH_AES int isDigit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

// Digits, at most `most`; passes them. Returns how many, 0 where there are more.
WITH_AES int takeDigits(struct line *line, int most, uint64_t *value) {
    int count = 0;
    for (; isDigit(peek(line)); line->at++, count++) {
        if (count == most) return 0;
        *value = *value * 10 + (uint64_t)(*line->at - '0');
    }
    return count;
}

// A number without sign or exponent, in a string or not, times 10^scale: cut there, and whether anything was.
WITH_AES int takeDecimal(struct line *line, int scale, uint64_t *value, int *isCut) {
    int isString = accept(line, '"');
    const uint8_t *first = line->at;
    uint64_t whole = 0;
    int count = takeDigits(line, 10, &whole);
    if (count == 0 || (*first == '0' && count > 1)) return 0;
    *isCut = 0;
    int left = scale;
    if (accept(line, '.')) {
        if (!isDigit(peek(line))) return 0;
        for (; isDigit(peek(line)); line->at++) {
            uint8_t digit = (uint8_t)(*line->at - '0');
            if (left > 0) {
                whole = whole * 10 + digit;
                left--;
            } else {
                *isCut |= digit != 0;
            }
        }
    }
    for (; left > 0; left--) whole *= 10;
    *value = whole;
    return !isString || accept(line, '"');
}

WITH_AES int takeTwo(const uint8_t *p, unsigned *value) {
    *value = (unsigned)(p[0] - '0') * 10 + (unsigned)(p[1] - '0');
    return isDigit(p[0]) & isDigit(p[1]);
}

// Days since 1970 of a date from 1970 on; -1 if there is none of that kind.
WITH_AES int64_t dayOf(unsigned year, unsigned month, unsigned day) {
    static const uint16_t before[13] = {0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    static const uint8_t lengths[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || month - 1 >= 12) return -1;
    unsigned isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day - 1 >= lengths[month] + (month == 2 ? isLeap : 0)) return -1;
    unsigned past = year - 1;
    int64_t days = (int64_t)(year - 1970) * 365 + (past / 4 - past / 100 + past / 400) - 477;
    return days + before[month] + (month > 2 ? isLeap : 0) + day - 1;
}

// YYYY-MM-DDThh:mm:ss, up to 6 digits of a fraction or none, Z.
WITH_AES int timeOf(struct text text, int64_t *microseconds) {
    const uint8_t *p = text.p;
    unsigned century, year, month, day, hour, minute, second;
    if (text.byteCount < 20 || text.byteCount > 27 || p[text.byteCount - 1] != 'Z') return 0;
    if ((p[4] ^ '-') | (p[7] ^ '-') | (p[10] ^ 'T') | (p[13] ^ ':') | (p[16] ^ ':')) return 0;
    if (!(takeTwo(p, &century) & takeTwo(p + 2, &year) & takeTwo(p + 5, &month)
          & takeTwo(p + 8, &day) & takeTwo(p + 11, &hour) & takeTwo(p + 14, &minute)
          & takeTwo(p + 17, &second)))
        return 0;
    int64_t days = dayOf(century * 100 + year, month, day);
    if (days < 0 || hour > 23 || minute > 59 || second > 59) return 0;
    uint64_t fraction = 0;
    size_t digitCount = 0;
    if (text.byteCount > 20) {
        digitCount = text.byteCount - 21;
        if (p[19] != '.' || digitCount == 0) return 0;
        for (size_t i = 0; i < digitCount; i++) {
            if (!isDigit(p[20 + i])) return 0;
            fraction = fraction * 10 + (uint64_t)(p[20 + i] - '0');
        }
    }
    for (; digitCount < 6; digitCount++) fraction *= 10;
    *microseconds = (days * 86400 + hour * 3600 + minute * 60 + second) * 1000000
        + (int64_t)fraction;
    return *microseconds <= INGEST_ROW_TIMESTAMP_MAX;
}

WITH_AES int takeTime(struct line *line, int64_t *microseconds) {
    struct text text;
    if (takeText(line, &text)) return timeOf(text, microseconds);
    uint64_t milliseconds = 0;
    uint8_t first = peek(line);
    int count = takeDigits(line, 15, &milliseconds);
    *microseconds = (int64_t)milliseconds * 1000;
    return count > 0 && (first != '0' || count == 1) && *microseconds <= INGEST_ROW_TIMESTAMP_MAX;
}

// MARK: Values

// The place of a text of 1 to `most` bytes.
WITH_AES int takePlace(
    struct line *line, const uint8_t *packet, size_t most, uint16_t *offset, uint8_t *byteCount) {
    struct text text;
    if (!takeText(line, &text) || text.byteCount - 1 >= most) return 0;
    *offset = (uint16_t)(text.p - packet);
    *byteCount = (uint8_t)text.byteCount;
    return 1;
}

// One of three words: its number from `first` on.
#define WORD(text, first, one, two, three) \
    (IS(text, one) ? (first) : IS(text, two) ? (first) + 1 : IS(text, three) ? (first) + 2 : 255)

WITH_AES int takeMoney(struct line *line, int64_t *micros) {
    uint64_t value;
    int isCut;
    if (!takeDecimal(line, 6, &value, &isCut) || isCut || value > INGEST_ROW_MONEY_MAX) return 0;
    *micros = (int64_t)value;
    return 1;
}

WITH_AES int takeWord(struct line *line, const char *word, size_t byteCount) {
    if ((size_t)(line->end - line->at) < byteCount || memcmp(line->at, word, byteCount)) return 0;
    line->at += byteCount;
    return 1;
}

WITH_AES int takeMark(struct line *line, uint8_t *flags) {
    int isString = accept(line, '"');
    if (takeWord(line, "true", 4)) *flags |= INGEST_ROW_INVALID_TRAFFIC;
    else if (!takeWord(line, "false", 5)) return 0;
    return !isString || accept(line, '"');
}

// The value of a key that is no event's: a text, a number or a literal.
WITH_AES int passValue(struct line *line) {
    struct text text;
    uint64_t value;
    int isCut;
    switch (peek(line)) {
    case '"': return takeText(line, &text);
    case 't': return takeWord(line, "true", 4);
    case 'f': return takeWord(line, "false", 5);
    case 'n': return takeWord(line, "null", 4);
    default: return takeDecimal(line, 0, &value, &isCut);
    }
}

WITH_AES int takeValue(
    struct line *line, const uint8_t *packet, enum field field, struct ingest_event *event) {
    struct text text;
    uint64_t value;
    int isCut;
    switch (field) {
    case TYPE:
        if (!takeText(line, &text)) return 0;
        event->type = WORD(text, 1, "impression", "click", "redemption");
        return event->type != 255;
    case REWARD:
        return takePlace(
            line, packet, NAME_BYTE_COUNT_MAX, &event->rewardOffset, &event->rewardByteCount);
    case BUSINESS:
        return takePlace(
            line, packet, NAME_BYTE_COUNT_MAX, &event->businessOffset, &event->businessByteCount);
    case TIMESTAMP: return takeTime(line, &event->timestampMicroseconds);
    case EVENT_ID:
        return takePlace(
            line, packet, ID_BYTE_COUNT_MAX, &event->eventIDOffset, &event->eventIDByteCount);
    case SESSION:
        return takePlace(
            line, packet, ID_BYTE_COUNT_MAX, &event->sessionOffset, &event->sessionByteCount);
    case CONSENT:
        if (!takeText(line, &text)) return 0;
        event->consent = WORD(text, 0, "notSet", "optIn", "optOut");
        return event->consent != 255;
    case FORMAT:
        if (!takeText(line, &text)) return 0;
        event->format = WORD(text, 0, "display", "largeDisplay", "video");
        return event->format != 255;
    case VIEWABILITY:
        if (!takeDecimal(line, 6, &value, &isCut)) return 0;
        event->visiblePartsPerMillion = (uint32_t)value;
        // Just above 1 is cut to 1, but it is above.
        return value < INGEST_ROW_VISIBLE_MAX || (value == INGEST_ROW_VISIBLE_MAX && !isCut);
    case DURATION:
        if (!takeDecimal(line, 3, &value, &isCut) || value > UINT32_MAX) return 0;
        event->durationMilliseconds = (uint32_t)value;
        return 1;
    case PLATFORM:
        return takePlace(
            line, packet, NAME_BYTE_COUNT_MAX, &event->platformOffset, &event->platformByteCount);
    case CAMPAIGN:
        return takePlace(
            line, packet, NAME_BYTE_COUNT_MAX, &event->campaignOffset, &event->campaignByteCount);
    case SOURCE:
        return takePlace(
            line, packet, NAME_BYTE_COUNT_MAX, &event->sourceOffset, &event->sourceByteCount);
    case REVENUE: return takeMoney(line, &event->revenueMicros);
    case SPEND: return takeMoney(line, &event->spendMicros);
    case INVALID_TRAFFIC: return takeMark(line, &event->flags);
    default: return passValue(line);
    }
}

// MARK: Events

// The members of an object behind its brace, and the closing one. `seen` gets a bit of each known key.
WITH_AES int takeMetadata(
    struct line *line, const uint8_t *packet, struct ingest_event *event, uint32_t *seen) {
    struct text key;
    if (!accept(line, '{')) return 0;
    if (accept(line, '}')) return 1;
    do {
        passSpace(line);
        if (!takeKey(line, &key)) return 0;
        enum field field = fieldOf(key, 1);
        if (*seen & ~(1u << UNKNOWN) & 1u << field) return 0;
        *seen |= 1u << field;
        if (!takeValue(line, packet, field, event)) return 0;
    } while (accept(line, ','));
    return accept(line, '}');
}

WITH_AES int takeEvent(
    struct line *line, const uint8_t *packet, struct ingest_event *event, uint32_t *seen) {
    struct text key;
    if (!accept(line, '{')) return 0;
    do {
        passSpace(line);
        if (!takeKey(line, &key)) return 0;
        enum field field = fieldOf(key, 0);
        if (*seen & ~(1u << UNKNOWN) & 1u << field) return 0;
        *seen |= 1u << field;
        int isTaken = field == METADATA ? takeMetadata(line, packet, event, seen)
                                        : takeValue(line, packet, field, event);
        if (!isTaken) return 0;
    } while (accept(line, ','));
    return accept(line, '}');
}

// Passes the end of the line: nothing, white space, a newline.
WITH_AES int takeLineEnd(struct line *line) {
    while (peek(line) == ' ' || peek(line) == '\r' || peek(line) == '\t') line->at++;
    return line->at == line->end || accept(line, '\n');
}

__attribute__((AES_TARGET)) static size_t decodeLine(
    uint8_t *packet, size_t offset, size_t end, struct ingest_event *event) {
    const uint32_t needed = 1u << TYPE | 1u << REWARD | 1u << BUSINESS | 1u << TIMESTAMP;
    const uint32_t measures = 1u << VIEWABILITY | 1u << DURATION;
    struct ingest_event made = {0};
    struct line line = {packet + offset, packet + end};
    uint32_t seen = 0;
    if (!takeEvent(&line, packet, &made, &seen) || (seen & needed) != needed
        || !takeLineEnd(&line))
        return 0;
    if ((seen & measures) == measures) made.flags |= INGEST_ROW_MEASURED;
    else made.visiblePartsPerMillion = made.durationMilliseconds = made.format = 0;
    if (made.eventIDByteCount != 0) made.flags |= INGEST_ROW_EVENT_ID;
    uint8_t *id = packet + made.eventIDOffset, uuid[16];
    // Not in place: what is no UUID is written as well.
    if (made.eventIDByteCount == UUID_TEXT_BYTE_COUNT && parseUUID(id, uuid)) {
        memcpy(id, uuid, sizeof uuid);
        made.eventIDByteCount = sizeof uuid;
    }
    *event = made;
    return (size_t)(line.at - packet);
}
#endif

size_t ingest_decode_line(
    uint8_t *packet, size_t offset, size_t end, struct ingest_event *event) {
#if defined(__x86_64__)
    if (__builtin_expect(ingest_hash_has_instructions, 1))
        return decodeLine(packet, offset, end, event);
#endif
    return 0;
}
