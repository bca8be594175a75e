#include "core_foundation.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "fork.h"

static uint32_t lock;

__attribute__((constructor)) static void register_lock(void) { clinux_fork_register_lock(&lock); }

void clinux_cf_lock(void) {
  uint32_t free = 0;
  while (!__atomic_compare_exchange_n(&lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    struct timespec pause = {.tv_nsec = 100000};
    nanosleep(&pause, NULL);
    free = 0;
  }
}

void clinux_cf_unlock(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

// 0 means the main thread.
void *clinux_cf_main_run_loop(void) { return _CFRunLoopGet0b(0); }

bool clinux_cf_is_own_run_loop(const void *loop) { return _CFRunLoopGet0b((unsigned long)pthread_self()) == loop; }
