#include "ingest_threads.h"

#include <pthread.h>
#include <string.h>

void ingest_thread_name(const char *name) {
    char kept[16];  // the kernel's TASK_COMM_LEN, with the end
    strncpy(kept, name, sizeof kept - 1);
    kept[sizeof kept - 1] = 0;
    (void)pthread_setname_np(pthread_self(), kept);
}
