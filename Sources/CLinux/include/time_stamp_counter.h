// The processor's counter of time: on x86_64, 10 ns for what costs 23 through clock_gettime. Swift cannot reach the instruction; it can
// go when it can.
#ifndef CLINUX_TIME_STAMP_COUNTER_H
#define CLINUX_TIME_STAMP_COUNTER_H

#include <stdint.h>

#if defined(__x86_64__)
/// The counter. Not ordered with the instructions around it: tens of nanoseconds either way.
static inline uint64_t clinux_time_stamp_counter(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
/// The counter that the kernel's clock is made of, too. Not ordered either, and not finer than that clock.
static inline uint64_t clinux_time_stamp_counter(void) {
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
}
#else
static inline uint64_t clinux_time_stamp_counter(void) { return 0; }
#endif

#endif
