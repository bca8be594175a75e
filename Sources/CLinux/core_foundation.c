#include "core_foundation.h"

#include <stdint.h>
#include <time.h>

#include "fork.h"

// Held while CoreFoundation's lock is: a child that inherited that one locked could never use a run loop.
static uint32_t look_up_lock;

__attribute__((constructor)) static void register_lock(void) { clinux_fork_register_lock(&look_up_lock); }

void *clinux_cf_main_run_loop(void) {
  uint32_t free = 0;
  while (!__atomic_compare_exchange_n(&look_up_lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    struct timespec pause = {.tv_nsec = 100000};
    nanosleep(&pause, NULL);
    free = 0;
  }
  // 0 stands for the main thread.
  void *loop = _CFRunLoopGet0b(0);
  __atomic_store_n(&look_up_lock, 0, __ATOMIC_RELEASE);
  return loop;
}
