#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Unpacks `count` values of `width` bits that lie back to back, lowest bits first, in
/// (count × width + 7) / 8 bytes, and adds `base` to each, modulo 2^64. Nothing beyond is read or written.
/// False, with nothing written, where the CPU has no AVX2 and for widths other than 1 to 57.
/// Reason: shifting the values of a vector by different counts is an AVX2 instruction that Swift has no
/// name for, nor has it one for "compile this one function for a newer CPU and choose at run time". It is
/// what reading a run is made of: 0.2 ns a value instead of 1.
bool ingest_unpack(
    uint64_t *_Nonnull out, const void *_Nonnull packed, size_t count, unsigned width, uint64_t base);

/// The least and the greatest of `count` (at least 1) values. False, with nothing written, without AVX2.
/// Reason: as above; Swift's vectors have no 64-bit minimum either.
bool ingest_column_range(
    const uint64_t *_Nonnull values, size_t count, uint64_t *_Nonnull least,
    uint64_t *_Nonnull greatest);

/// How many of `count` values less `base` are 2^`width` … 2^63 - 1 for each of `width` (0 to 59), `width` + 1,
/// `width` + 2 and `width` + 3; all of them less `base` are below 2^63. False, with nothing written, without
/// AVX2.
/// Reason: as above. The encoder looks for the width that makes a column smallest, four widths at a time.
bool ingest_column_counts(
    const uint64_t *_Nonnull values, size_t count, uint64_t base, unsigned width,
    uint32_t *_Nonnull counts);

/// Packs the low `width` bits of `count` values less `base` back to back, lowest bits first, the last byte
/// filled with zero bits: what `ingest_unpack` reads. May write 16 bytes beyond. False, with nothing written,
/// without AVX2 and for widths other than 1 to 16.
/// Reason: as above; 0.4 ns a value instead of 0.8.
bool ingest_pack(
    void *_Nonnull out, const uint64_t *_Nonnull values, size_t count, unsigned width, uint64_t base);
