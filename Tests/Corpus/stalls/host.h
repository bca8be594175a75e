// A stall is a function that blocks or keeps its thread for STALL_MS. The host calls it as one turn of a watched loop.
#ifndef STALLS_HOST_H
#define STALLS_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STALL_MS = 250 };

typedef struct stall {
  const char *name;
  void (*run)(void);
} stall;

// Defines a stall. The linker gathers them, so that there is no table to keep.
#define STALL(NAME)                                                                                   \
  static void stall_##NAME(void);                                                                     \
  __attribute__((used, section("stalls"))) static const struct stall entry_##NAME = {#NAME, stall_##NAME}; \
  static void stall_##NAME(void)

#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))

// Whether the stall has lasted long enough, in seconds of CLOCK_MONOTONIC. Ask once a millisecond of work.
//
// A part of whoever asks, as `artificial` says to debuggers: a sample may find the question, which is no stall's function.
#define PART_OF_CALLER static inline __attribute__((always_inline, artificial))
extern double deadline;
PART_OF_CALLER double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
PART_OF_CALLER bool is_late(void) { return now_seconds() >= deadline; }

// About a millisecond of work, which an optimizer cannot shorten.
enum { ROUNDS = 400000 };
#define MIX(x) ((x) ^= (x) << 13, (x) ^= (x) >> 7, (x) ^= (x) << 17)

// What is computed goes here, so that it is computed.
extern volatile uint64_t result;

// Ends the program with a status of its own if the stall could not be prepared.
void require(bool condition, const char *what);

// Calls `action` on a thread of its own, called `name`, when the stall has lasted long enough.
void later(const char *name, void (*action)(void *), void *argument);

// Calls `before` on a thread of its own at once, and `after` on it when the stall has lasted long enough; returns when `before` has.
void meanwhile(const char *name, void (*before)(void *), void (*after)(void *), void *argument);

#ifdef __cplusplus
}
#endif

#endif
