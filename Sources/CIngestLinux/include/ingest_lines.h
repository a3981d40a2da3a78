#pragma once
#include "ingest_rows.h"
#include <stddef.h>
#include <stdint.h>

/// `EventDescriptor`, field by field.
struct ingest_event {
    int64_t timestampMicroseconds;
    uint64_t pairHash, businessHash, platformHash, campaignHash, sourceHash, eventHash;
    int64_t revenueMicros, spendMicros;
    uint32_t visiblePartsPerMillion, durationMilliseconds;
    uint16_t rewardOffset, businessOffset, platformOffset, campaignOffset, sourceOffset;
    uint16_t sessionOffset, eventIDOffset;
    uint8_t rewardByteCount, businessByteCount, platformByteCount, campaignByteCount;
    uint8_t sourceByteCount, sessionByteCount, eventIDByteCount;
    uint8_t type, consent, format, flags;
    uint32_t pairTag;
};

/// Decodes the JSON event that begins at `offset` of `packet` and is alone in its line, if it has the usual form: an object
/// of ASCII without escapes, each key once, the values of the kind that most writers give them, and none that a rule
/// refuses. Reads nothing from `end` on. The event is the one that `JSONEventFields` makes, but for its hashes; a UUID is
/// replaced by its 16 bytes in the packet.
///
/// - Returns: where the next line begins; 0: it has another form, and neither the event nor the packet was changed.
/// Reason: texts are searched by sixteen bytes, which takes a fifth of the time that a loop over bytes or words does.
size_t ingest_decode_line(
    uint8_t *_Nonnull packet, size_t offset, size_t end, struct ingest_event *_Nonnull event);
