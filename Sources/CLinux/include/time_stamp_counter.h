// The processor's time-stamp counter: 10 ns for what costs 23 through clock_gettime. Swift cannot reach the instruction; it can go
// when it can.
#ifndef CLINUX_TIME_STAMP_COUNTER_H
#define CLINUX_TIME_STAMP_COUNTER_H

#include <stdint.h>

#if defined(__x86_64__)
/// The counter. Not ordered with the instructions around it: tens of nanoseconds either way.
static inline uint64_t clinux_time_stamp_counter(void) { return __builtin_ia32_rdtsc(); }
#else
static inline uint64_t clinux_time_stamp_counter(void) { return 0; }
#endif

#endif
