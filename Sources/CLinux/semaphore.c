#define _GNU_SOURCE
#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

#include "process.h"

#ifdef __GLIBC__
int clinux_semaphore_wait_until(sem_t *semaphore, const struct timespec *deadline) {
  return sem_clockwait(semaphore, CLOCK_MONOTONIC, deadline);
}
#else
#define SECOND 1000000000u
// A deadline that is further away is none.
#define YEAR (31536000ull * SECOND)

static uint64_t nanoseconds(const struct timespec *time) {
  return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

// musl waits for the time that is left by the wall clock when the wait begins: a clock that is set later
// does not change the wait.
int clinux_semaphore_wait_until(sem_t *semaphore, const struct timespec *deadline) {
  while (true) {
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t left = nanoseconds(deadline) > nanoseconds(&now) ? nanoseconds(deadline) - nanoseconds(&now) : 0;
    if (left > YEAR) return sem_wait(semaphore);
    clock_gettime(CLOCK_REALTIME, &end);
    uint64_t until = nanoseconds(&end) + left;
    end = (struct timespec){.tv_sec = (time_t)(until / SECOND), .tv_nsec = (long)(until % SECOND)};
    int result = sem_timedwait(semaphore, &end);
    // Early if the clock was set between the two calls.
    if (result == 0 || errno != ETIMEDOUT || left == 0) return result;
  }
}
#endif
