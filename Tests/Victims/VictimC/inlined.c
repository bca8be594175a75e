// Three ways to block, which an optimizer makes one function, as it does in any release build.
#include "VictimC.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

__attribute__((always_inline)) static inline void refresh_cache(unsigned milliseconds) { usleep(milliseconds * 1000); }

__attribute__((always_inline)) static inline void call_partner(unsigned milliseconds) { poll(NULL, 0, (int)milliseconds); }

__attribute__((always_inline)) static inline void parse_upload(unsigned milliseconds) {
  struct timespec first, now;
  clock_gettime(CLOCK_MONOTONIC, &first);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 < milliseconds);
}

void victim_inlined_work(int number, unsigned milliseconds) {
  if (number % 3 == 0) {
    refresh_cache(milliseconds);
  } else if (number % 3 == 1) {
    call_partner(milliseconds);
  } else {
    parse_upload(milliseconds);
  }
  __asm__ volatile("" : : : "memory");  // no tail call: the frame stays
}
