#pragma once
#include <stddef.h>
#include <stdint.h>

/// CRC-32C (Castagnoli) of `byteCount` bytes, going on from `seed` (0 at the start).
/// Reason: Swift has no name for the `crc32` and `pclmulqdq` instructions, nor for "compile this one
/// function for a newer CPU and choose at run time".
uint32_t ingest_crc32c(uint32_t seed, const void *_Nullable bytes, size_t byteCount);

/// The same value by tables, on any CPU.
/// Reason: the fallback of the above; a symbol of its own so that tests compare the two.
uint32_t ingest_crc32c_portable(uint32_t seed, const void *_Nullable bytes, size_t byteCount);

/// How many 16-byte subkeys the keyed hash derives from its key: 9 block masks (one for the header
/// block, one for each of 8 data blocks), 4 round keys, 5 keys of the finish.
#define INGEST_HASH_SUBKEY_COUNT 18
/// The longest input of the keyed hash: its 8 data blocks.
#define INGEST_HASH_BYTE_COUNT_MAX 128

/// The domains: what is hashed as a name never meets what is hashed as an event id.
#define INGEST_HASH_NAME 1
#define INGEST_HASH_EVENT 2

/// The subkeys of one directory's keyed hash, and what they make of the header blocks of names of 0 to 32
/// bytes, which would else be computed for each name anew. Plain data.
/// Reason: the hash reads them as vectors; Swift has no 16-byte vector that maps to AES instructions.
struct ingest_hash_key {
    uint64_t words[INGEST_HASH_SUBKEY_COUNT * 2];
    uint64_t nameHeaders[33 * 2];
};

/// Derives the subkeys: subkey i = AES-256 of the block (i, "ingestd1") under the 32-byte key.
/// Reason: needs AES, see above.
void ingest_hash_key_derive(struct ingest_hash_key *_Nonnull out, const uint8_t *_Nonnull key);

/// Hash of `byteCount` ≤ 128 bytes within `domain`, bound to `context`.
/// Reason: AES instructions, chosen at run time, with a software round that gives the same value.
uint64_t ingest_hash(
    const struct ingest_hash_key *_Nonnull key, uint32_t domain, uint64_t context,
    const void *_Nullable bytes, size_t byteCount);

/// 96 bits over both names of a (reward, business).
struct ingest_pair_hash {
    uint64_t low;
    uint32_t tag;
};

/// Hash of a reward and its business, of up to 128 bytes each: bound to the length of both, so that no two pairs are
/// the same input.
/// Reason: as `ingest_hash`.
struct ingest_pair_hash ingest_hash_pair(
    const struct ingest_hash_key *_Nonnull key, const void *_Nonnull reward,
    size_t rewardByteCount, const void *_Nonnull business, size_t businessByteCount);

/// An event's texts and hashes by their index in its descriptor's arrays: `hashes` has the
/// pair's at the reward's place, no session's, and the event id's there.
#define INGEST_EVENT_REWARD 0
#define INGEST_EVENT_PAIR_HASH 0
#define INGEST_EVENT_BUSINESS 1
#define INGEST_EVENT_PLATFORM 2
#define INGEST_EVENT_SOURCE 4
#define INGEST_EVENT_SESSION 5
#define INGEST_EVENT_ID_HASH 5
#define INGEST_EVENT_ID 6

/// The events of one packet, as arrays inside their descriptors: pointers into the first descriptor, and
/// the distance from one to the next. All bytes of `packet` up to `end` may be loaded.
struct ingest_events {
    const uint8_t *_Nonnull packet;
    const uint8_t *_Nonnull end;
    const uint16_t *_Nonnull offsets;
    const uint8_t *_Nonnull byteCounts;
    uint64_t *_Nonnull hashes;
    uint32_t *_Nonnull pairTags;
    size_t stride;
    size_t count;
};

/// The hashes of business and pair (names of 1 to 128 bytes), of the event id within the business (up to 64)
/// and of platform, campaign and source, of all events. Texts of 0 bytes are left alone; an id that is a
/// UUID in text is hashed as its 16 bytes.
/// 1 if that is all there is to do: names and sessions are ASCII, platforms, campaigns and sources too
/// and without `@` and of up to 64 bytes. 0: look at each event.
/// Reason: a hash is a chain of instructions that wait for each other; over all events of a packet a CPU
/// runs several chains side by side. And the bytes are in registers for the other questions too.
int ingest_hash_events(
    const struct ingest_hash_key *_Nonnull key, const struct ingest_events *_Nonnull events);

/// The same values in plain C, on any CPU.
/// Reason: the fallback of the above; symbols of their own so that tests compare the two.
uint64_t ingest_hash_portable(
    const struct ingest_hash_key *_Nonnull key, uint32_t domain, uint64_t context,
    const void *_Nullable bytes, size_t byteCount);

struct ingest_pair_hash ingest_hash_pair_portable(
    const struct ingest_hash_key *_Nonnull key, const void *_Nonnull reward,
    size_t rewardByteCount, const void *_Nonnull business, size_t businessByteCount);

/// One AES-256 block encryption in plain C.
/// Reason: lets a test hold the software AES against the published vector of FIPS 197.
void ingest_aes256_encrypt(
    uint8_t *_Nonnull out, const uint8_t *_Nonnull in, const uint8_t *_Nonnull key);

/// SipHash-2-4 of `byteCount` bytes under the key whose first 8 bytes are `low` and whose last are `high`, little-endian.
/// 14 ns for 24 bytes.
/// Reason: beside the other hashes; no library that the project has brings it.
uint64_t ingest_siphash(
    uint64_t low, uint64_t high, const void *_Nullable bytes, size_t byteCount);
