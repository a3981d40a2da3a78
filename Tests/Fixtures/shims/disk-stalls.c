// For LD_PRELOAD: of each hundred calls of fdatasync one takes 300 ms longer, as those of a disk that is busy.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

int fdatasync(int descriptor) {
    static atomic_uint count;
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (atomic_fetch_add(&count, 1) % 100 == 99) {
        struct timespec pause = {.tv_nsec = 300000000};
        nanosleep(&pause, NULL);
    }
    return next(descriptor);
}
