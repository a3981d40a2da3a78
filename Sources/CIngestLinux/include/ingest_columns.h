#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Unpacks `count` values of `width` bits that lie back to back, lowest bits first, in
/// (count × width + 7) / 8 bytes; multiplies each by `factor` (below 2^32), adds `base`, modulo 2^64, and
/// stores the low `size` (2, 4 or 8) bytes of each; `out` null stores nothing. Nothing beyond is read or
/// written. `least` and `greatest` are of the packed values, 2^64 - 1 and 0 where there are none.
/// False, with nothing written, where the CPU has no AVX2 and for widths other than 1 to 57, 25 for size 2.
/// Reason: shifting the values of a vector by different counts is an AVX2 instruction that Swift has no
/// name for, nor has it one for "compile this one function for a newer CPU and choose at run time". It is
/// what reading blocks and runs is made of: 0.1 ns a value of up to 25 bits, 0.3 of a wider one, instead of 1.
bool ingest_unpack(
    void *_Nullable out, size_t size, const void *_Nonnull packed, size_t count, unsigned width,
    uint64_t base, uint64_t factor, uint64_t *_Nonnull least, uint64_t *_Nonnull greatest);

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

/// Writes the places, ascending, of those of `count` (up to 2^16) values that less `base` are 2^`width` (0 to 62) or more;
/// all of them less `base` are below 2^63. May write four places beyond. False, with nothing written, without AVX2.
/// Reason: as above. In a loop over all values, to find the few that are patches cost 1.5 ns a value, here 0.3.
bool ingest_column_places(
    const uint64_t *_Nonnull values, size_t count, uint64_t base, unsigned width,
    uint16_t *_Nonnull places);

/// Packs the low `width` bits of `count` values less `base` back to back, lowest bits first, the last byte
/// filled with zero bits: what `ingest_unpack` reads. May write 16 bytes beyond. False, with nothing written,
/// without AVX2 and for widths other than 1 to 16.
/// Reason: as above; 0.4 ns a value instead of 0.8.
bool ingest_pack(
    void *_Nonnull out, const uint64_t *_Nonnull values, size_t count, unsigned width, uint64_t base);

/// Adds to `low` and `high` each of `count` values times the lower 30 bits of `weight` (below 2^62) and times the
/// bits above them, modulo 2^64. False, with nothing written, without AVX2 and where a value is 2^29 or more.
/// Reason: as above. `verify` weighs each column of counters so, at 0.3 ns a value; with vectors of SSE2 it took twice that.
bool ingest_column_weigh(
    const uint64_t *_Nonnull values, size_t count, uint64_t weight, uint64_t *_Nonnull low,
    uint64_t *_Nonnull high);
