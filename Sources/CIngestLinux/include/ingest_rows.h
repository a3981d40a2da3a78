#pragma once
#include "ingest_hash.h"
#include <stddef.h>
#include <stdint.h>

/// `PacketRow.Name`.
struct ingest_row_name {
    uint64_t hash;
    uint16_t offset;
    uint8_t byteCount;
} __attribute__((packed, aligned(4)));

/// `PacketRow`, field by field.
struct ingest_row {
    int64_t timestampMicroseconds;
    uint64_t pairHash, eventHash;
    struct ingest_row_name platform;
    uint32_t pairTag, visiblePartsPerMillion, durationMilliseconds;
    uint16_t rewardOffset, businessOffset, side, sessionOffset;
    uint8_t sessionByteCount, rewardByteCount, businessByteCount, type, consent, format, flags;
};

/// `PacketSide`, field by field.
struct ingest_side {
    int64_t revenueMicros, spendMicros;
    struct ingest_row_name campaign __attribute__((aligned(8)));
    struct ingest_row_name source __attribute__((aligned(8)));
};

/// `EventDescriptor.Flags`.
#define INGEST_ROW_MEASURED 1
#define INGEST_ROW_EVENT_ID 2
#define INGEST_ROW_INVALID_TRAFFIC 4
#define INGEST_ROW_WRONG_BUSINESS 8

/// `Limits`.
#define INGEST_ROW_VISIBLE_MAX 1000000
#define INGEST_ROW_MONEY_MAX 1000000000000000
#define INGEST_ROW_TIMESTAMP_MAX 9214646400000000

/// Where a packet's rows go, and how many came.
struct ingest_rows {
    struct ingest_row *_Nonnull rows;
    struct ingest_side *_Nonnull sides;
    uint32_t rowCount, sideCount;
};

/// Decodes a batch of `payloadByteCount` bytes at `payloadOffset` of `packet` into rows, if each of its events has its fields
/// in the order of their numbers, and nothing that a rule refuses, drops or changes: as the packets of nearly all
/// senders. Reads nothing beyond the payload. The rows are those that `EventDecoder` makes.
///
/// There is room for `payloadByteCount / 16 + 1` rows, and as many side records. Rows of another business than
/// `onlyBusiness` (a `KeyedHash.name`) are marked, if it is given.
/// 0: it has another form, or this CPU no AES instructions; what was written means nothing.
/// Reason: the hash, see `ingest_hash`; a call for each text would cost more than its hash.
int ingest_decode_rows(
    const struct ingest_hash_key *_Nonnull key, const uint8_t *_Nonnull packet,
    size_t payloadOffset, size_t payloadByteCount, const uint64_t *_Nullable onlyBusiness,
    struct ingest_rows *_Nonnull rows);
