// Preloaded into a daemon: the wall clock that it reads is an hour ahead of the kernel's, which is what a wait until a point
// in wall time is measured by.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static const time_t ahead = 3600;

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = next(clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead;
    return answer;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*next)(struct timeval *, void *);
    if (!next) next = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int answer = next(now, zone);
    if (answer == 0) now->tv_sec += ahead;
    return answer;
}
