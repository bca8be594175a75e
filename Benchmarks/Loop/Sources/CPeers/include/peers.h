// One benchmark row of one peer: nanoseconds per operation, negative where a peer has no such thing.
#ifndef PEERS_H
#define PEERS_H
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

typedef struct {
  const char *name;
  double (*round_trip)(int count);
  double (*post)(int batches, int batch);
  double (*self_post)(int batches, int batch);
  double (*timer_churn)(int pending, int count);
  double (*fire)(int timers);
  double (*descriptors)(int watched, int count);
  double (*empty)(int count);
  // Allocates a timer, adds it, cancels it, frees it; may be NULL.
  double (*timer_life)(int count);
} peer;

// Ends with a peer without a name.
const peer *peers(void);

static inline int64_t peer_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline uint64_t peer_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}
static inline int peer_eventfd(int flags) { return eventfd(0, flags); }
static inline void peer_signal(int fd) { uint64_t one = 1; (void)!write(fd, &one, 8); }
static inline void peer_await(int fd) { uint64_t n; (void)!read(fd, &n, 8); }
#endif
