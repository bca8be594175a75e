// A computation in so many small functions that no two samples are likely to meet the same; some are inlined.
#include "VictimC.h"

#include <time.h>

static volatile unsigned long state = 1;

#define STEPS(n) \
  for (int i = 0; i < 50000; i++) state = state * 31 + n
#define CALLED(n) \
  __attribute__((noinline)) static void called_part_##n(void) { STEPS(n); }
#define INLINED(n) \
  __attribute__((always_inline)) static inline void inlined_part_##n(void) { STEPS(n); }
#define TEN(kind, n) kind(n##0) kind(n##1) kind(n##2) kind(n##3) kind(n##4) kind(n##5) kind(n##6) kind(n##7) kind(n##8) kind(n##9)
#define FIFTY(kind) TEN(kind, 1) TEN(kind, 2) TEN(kind, 3) TEN(kind, 4) TEN(kind, 5)

FIFTY(CALLED)
FIFTY(INLINED)

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

#define CALL(n) called_part_##n();
#define CALL_INLINED(n) inlined_part_##n();

__attribute__((noinline)) static unsigned long hidden_computation_in_parts(double end) {
  while (now() < end) {
    FIFTY(CALL)
    FIFTY(CALL_INLINED)
  }
  return state;
}

unsigned long victim_c_compute_in_parts(unsigned milliseconds) {
  unsigned long result = hidden_computation_in_parts(now() + milliseconds);
  __asm__ volatile("" : : : "memory");  // no tail call: the frame stays
  return result;
}
