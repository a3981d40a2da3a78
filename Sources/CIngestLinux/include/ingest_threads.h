// Threads, as operators see them.
#pragma once

// glibc declares pthread_setname_np for _GNU_SOURCE only, which Swift's import of it does not define.
// Names the calling thread; at most 15 bytes are kept.
void ingest_thread_name(const char *name);
