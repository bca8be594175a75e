// The processor's time-stamp counter: 10 ns for what costs 23 through clock_gettime. Swift cannot reach the instruction.
#ifndef CLINUX_TICKS_H
#define CLINUX_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
/// The counter. Not ordered with the instructions around it: tens of nanoseconds either way.
static inline uint64_t clinux_ticks(void) { return __builtin_ia32_rdtsc(); }
#else
static inline uint64_t clinux_ticks(void) { return 0; }
#endif

#endif
