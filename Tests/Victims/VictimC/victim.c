#define _GNU_SOURCE
#include "VictimC.h"

#include <errno.h>
#include <malloc.h>
#include <time.h>

__attribute__((noinline)) static double hidden_c_computation(unsigned milliseconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double start = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6, elapsed = 0;
  while (elapsed < milliseconds) {
    clock_gettime(CLOCK_MONOTONIC, &t);
    elapsed = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6 - start;
  }
  return elapsed;
}

__attribute__((noinline)) static int hidden_c_sleep(unsigned milliseconds) {
  struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  int result = nanosleep(&time, NULL) == 0 ? 0 : errno;
  __asm__ volatile("" : : : "memory");  // no tail call: the frame stays
  return result;
}

volatile double victim_c_result;

void victim_c_compute(unsigned milliseconds) {
  victim_c_result = hidden_c_computation(milliseconds);
}

int victim_c_sleep(unsigned milliseconds) {
  int result = hidden_c_sleep(milliseconds);
  __asm__ volatile("" : : : "memory");
  return result;
}

size_t victim_bytes_in_use(void) {
  struct mallinfo2 information = mallinfo2();
  return information.uordblks + information.hblkhd;
}
