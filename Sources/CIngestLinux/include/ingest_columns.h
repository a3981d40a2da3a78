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
