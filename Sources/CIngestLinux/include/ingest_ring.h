// The ring's memory, and sleeping on a word of it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// mmap reports failure by MAP_FAILED, a cast that Swift does not import, and asking for huge pages is
// worth nothing unless the start is aligned to 2 MiB. Zeroed private memory, taken when it is touched; NULL when there
// is no address space.
void *ingest_pages_map(size_t byte_count);

// Gives back what ingest_pages_map returned, with the same byte count.
void ingest_pages_unmap(void *pages, size_t byte_count);

// Moves what ingest_pages_map returned into a larger mapping: page tables are moved, no bytes, and at no time are there
// two copies. NULL, with nothing changed, where that cannot be had. (mremap is variadic, which Swift does not import.)
void *ingest_pages_grow(void *pages, size_t old_byte_count, size_t byte_count);

// Gives back the memory of the whole huge pages in [first, end) of what ingest_pages_map returned; they read as zeros.
void ingest_pages_forget(void *pages, size_t first, size_t end);

// Touches the whole huge pages with any byte in [first, end) of what ingest_pages_map returned, which keep what is in
// them, so that who comes later need not wait for the kernel to clear them. Does nothing before Linux 5.14.
void ingest_pages_populate(void *pages, size_t first, size_t end);

// futex has no libc function, and Swift does not import `syscall`, which is variadic. Sleeps while
// *word == expected, until it is woken, a signal comes or the time is up; whether it was the last.
bool ingest_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_nanoseconds);

// Likewise. Wakes one thread that sleeps on the word.
void ingest_futex_wake(uint32_t *word);
