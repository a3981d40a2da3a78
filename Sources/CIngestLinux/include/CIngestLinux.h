// What Swift cannot import or express on Linux. One header a subject; each symbol has its reason
// beside it.
#pragma once
#include "ingest_checksum.h"
#include "ingest_columns.h"
#include "ingest_memory.h"
#include "ingest_files.h"
#include "ingest_ring.h"
#include "ingest_slots.h"
#include "ingest_keyed_hash.h"
#include "ingest_threads.h"
#include "ingest_udp.h"
