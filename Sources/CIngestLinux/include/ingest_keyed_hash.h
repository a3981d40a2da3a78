#pragma once
#include <stddef.h>
#include <stdint.h>

/// How many 16-byte subkeys the keyed hash derives from its key: 9 block masks (one for the header
/// block, one for each of 8 data blocks), 4 round keys, 5 keys of the finish.
#define INGEST_HASH_SUBKEY_COUNT 18
/// The longest input of the keyed hash: its 8 data blocks.
#define INGEST_HASH_BYTE_COUNT_MAX 128

/// The subkeys of one directory's keyed hash. Plain data.
/// Reason: the hash reads them as vectors; Swift has no 16-byte vector that maps to AES instructions.
struct ingest_hash_key {
    uint64_t words[INGEST_HASH_SUBKEY_COUNT * 2];
};

/// Derives the subkeys: subkey i = AES-256 of the block (i, "ingestd1") under the 32-byte key.
/// Reason: needs AES, see above.
void ingest_hash_key_derive(struct ingest_hash_key *_Nonnull out, const uint8_t *_Nonnull key);

/// Hash of `byteCount` ≤ 128 bytes within `domain`, bound to `context`.
/// Reason: AES instructions, chosen at run time, with a software round that gives the same value.
uint64_t ingest_hash(
    const struct ingest_hash_key *_Nonnull key, uint32_t domain, uint64_t context,
    const void *_Nullable bytes, size_t byteCount);

/// The same value in plain C, on any CPU.
/// Reason: the fallback of the above; a symbol of its own so that tests compare the two.
uint64_t ingest_hash_portable(
    const struct ingest_hash_key *_Nonnull key, uint32_t domain, uint64_t context,
    const void *_Nullable bytes, size_t byteCount);

/// One AES-256 block encryption in plain C.
/// Reason: lets a test hold the software AES against the published vector of FIPS 197.
void ingest_aes256_encrypt(
    uint8_t *_Nonnull out, const uint8_t *_Nonnull in, const uint8_t *_Nonnull key);
