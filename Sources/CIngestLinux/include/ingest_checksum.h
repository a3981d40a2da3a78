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
