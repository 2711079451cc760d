/* Preloaded: makes the n-th write, sync or truncation of a file called app.db… fail, and so many after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long calls, first, last;
static char kinds[8];
static int is_short;

/* Fail calls `from` to `to` (from 1) of these kinds: w, s, t; a short write leaves half of it in the file. */
void failing_arm(const char *which, long from, long to, int shortened) {
    strncpy(kinds, which, sizeof kinds - 1);
    calls = 0, first = from, last = to, is_short = shortened;
}

long failing_calls(void) { return calls; }

static int fails(int fd, char kind) {
    char link[64], name[4096];
    if (!first || !strchr(kinds, kind)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, name, sizeof name - 1);
    if (size < 0) return 0;
    name[size] = 0;
    if (!strstr(name, "/app.db") || strstr(name, "-owner")) return 0;
    calls++;
    if (calls < first || calls > last) return 0;
    errno = kind == 's' ? EIO : ENOSPC;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    if (!fails(fd, 'w')) return real(fd, data, size, at);
    if (is_short) real(fd, data, size / 2, at);
    return -1;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    if (!fails(fd, 'w')) return real(fd, data, size, at);
    if (is_short) real(fd, data, size / 2, at);
    return -1;
}

int fsync(int fd) {
    REAL(fsync);
    return fails(fd, 's') ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return fails(fd, 's') ? -1 : real(fd);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    return fails(fd, 't') ? -1 : real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    return fails(fd, 't') ? -1 : real(fd, size);
}
