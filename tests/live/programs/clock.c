/* Preloaded: the wall clock of this process is wrong by as many milliseconds as the file $WAKEFUL_CLOCK says, now. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long off_ms(void) {
    static volatile long long *found;
    if (!found) {
        static long long none;
        const char *path = getenv("WAKEFUL_CLOCK");
        int fd = path ? open(path, O_RDONLY) : -1;
        void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *found, PROT_READ, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        found = page == MAP_FAILED ? &none : page;
    }
    return *found;
}

int clock_gettime(clockid_t which, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, time);
    if (failed || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)) return failed;
    long long nanoseconds = time->tv_nsec + off_ms() % 1000 * 1000000;
    time->tv_sec += off_ms() / 1000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
    time->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec, now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
