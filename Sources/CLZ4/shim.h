// liblz4's block interface, the only part used: one call compresses, one decompresses, both bounded
// by the sizes they are given.
#pragma once
#include <lz4.h>
