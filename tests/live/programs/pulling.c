/* Preloaded: at the n-th time that this process changes a file or sends something, it is killed, signalled or refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls, at;
/* k: SIGKILL before the call, h: after half of a write, i: SIGINT, t: SIGTERM, f: no room in files from then on;
   s: SIGKILL at what makes things last or known to others: syncs, new names, what is sent. */
static char way;

void pulling_arm(char how, long number) { way = how, calls = 0, at = number; }

long pulling_calls(void) { return calls; }

/* What is said on stdout and stderr is no change of anything. */
static int is_counted(int fd) {
    struct stat found;
    if (!at || fd <= 2 || fstat(fd, &found) != 0) return 0;
    return S_ISREG(found.st_mode) || S_ISSOCK(found.st_mode) || S_ISDIR(found.st_mode);
}

static int is_file(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* 1: that call is to fail; 2: half of it is done, then comes the end. */
static int pulled(int fd, int writes) {
    if (fd >= 0 ? !is_counted(fd) : !at) return 0;
    if (way == 's' && writes && is_file(fd)) return 0;
    calls++;
    if (way == 'f' && calls >= at && writes && is_file(fd)) {
        errno = ENOSPC;
        return 1;
    }
    if (calls != at) return 0;
    if (way == 'k' || way == 's') kill(getpid(), SIGKILL);
    if (way == 'h' && writes) return 2;
    if (way == 'h') kill(getpid(), SIGKILL);
    if (way == 'i') kill(getpid(), SIGINT);
    if (way == 't') kill(getpid(), SIGTERM);
    return 0;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define CHANGE(fd, whole, half) \
    switch (pulled(fd, 1)) { \
    case 1: return -1; \
    case 2: (void)!(half); kill(getpid(), SIGKILL); \
    } \
    return whole

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    CHANGE(fd, real(fd, data, size), real(fd, data, size / 2));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t place) {
    REAL(pwrite64);
    CHANGE(fd, real(fd, data, size, place), real(fd, data, size / 2, place));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t place) {
    REAL(pwrite);
    CHANGE(fd, real(fd, data, size, place), real(fd, data, size / 2, place));
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    REAL(send);
    CHANGE(fd, real(fd, data, size, flags), real(fd, data, size / 2, flags));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    pulled(fd, 0);
    return real(fd, message, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return pulled(fd, 1) == 1 ? -1 : real(fd, parts, count);
}

int fsync(int fd) {
    REAL(fsync);
    pulled(fd, 0);
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    pulled(fd, 0);
    return real(fd);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    pulled(fd, 0);
    return real(fd, size);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    pulled(-1, 0);
    return real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    pulled(-1, 0);
    return real(path);
}
