// What Swift cannot import or express on Linux. One header a subject; each symbol has its reason
// beside it.
#pragma once
#include "ingest_columns.h"
#include "ingest_hash.h"
#include "ingest_memory.h"
#include "ingest_rows.h"
#include "ingest_system.h"
#include "ingest_udp.h"
