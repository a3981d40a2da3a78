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

/// The domains: what is hashed as a name never meets what is hashed as an event id.
#define INGEST_HASH_NAME 1
#define INGEST_HASH_EVENT 2

/// What is added to the hash of an event's id for each step of its type, see `KeyedHash.event`.
#define INGEST_HASH_OF_TYPE 0x9E3779B97F4A7C15

/// Names of up to so many bytes are hashed where they lie in a packet.
#define INGEST_HASH_NEAR_MAX 64

/// The subkeys of one directory's keyed hash, and what they make of the header blocks of names of 0 to 64
/// bytes, which would else be computed for each name anew. Plain data.
/// Reason: the hash reads them as vectors; Swift has no 16-byte vector that maps to AES instructions.
struct ingest_hash_key {
    uint64_t words[INGEST_HASH_SUBKEY_COUNT * 2];
    uint64_t nameHeaders[(INGEST_HASH_NEAR_MAX + 1) * 2];
};

/// Derives the subkeys: subkey i = AES-256 of the block (i, "ingestd1") under the 32-byte key.
/// Reason: needs AES, see above.
void ingest_hash_key_derive(struct ingest_hash_key *_Nonnull out, const uint8_t *_Nonnull key);

/// Hash of `byteCount` ≤ 128 bytes within `domain`, bound to `context`.
/// Reason: AES instructions, chosen at run time, with a software round that gives the same value.
uint64_t ingest_hash(
    const struct ingest_hash_key *_Nonnull key, uint32_t domain, uint64_t context,
    const void *_Nullable bytes, size_t byteCount);

/// 96 bits over both names of a (reward, business), and the hash of the business by itself.
struct ingest_pair_hash {
    uint64_t low, business;
    uint32_t tag;
};

/// Hash of a reward and its business, of up to 128 bytes each: bound to the length of both, so that no two pairs are
/// the same input.
/// Reason: as `ingest_hash`.
struct ingest_pair_hash ingest_hash_pair(
    const struct ingest_hash_key *_Nonnull key, const void *_Nonnull reward,
    size_t rewardByteCount, const void *_Nonnull business, size_t businessByteCount);

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

/// Bytes that stay where they are.
struct ingest_text {
    const uint8_t *_Nonnull bytes;
    size_t byteCount;
};

/// SipHash-2-4 of each of `count` texts under the key whose first 8 bytes are `low` and whose last are `high`,
/// little-endian. Of 24 bytes 17 ns each, 5 where eight that are equally long follow each other and the CPU has AVX-512.
/// Reason: beside the other hashes; no library that the project has brings it.
void ingest_siphash(
    uint64_t low, uint64_t high, const struct ingest_text *_Nonnull texts, size_t count,
    uint64_t *_Nonnull out);
