#include "loop.h"
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

int clinux_has_even_tick;

// The processor says whether its counter runs evenly through all frequencies and sleeps (invariant TSC).
__attribute__((constructor)) static void look_for_even_tick(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8))) clinux_has_even_tick = 1;
#endif
}

int clinux_descriptor_is(int descriptor, const char *name) {
  char path[32], found[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(path, found, sizeof found - 1);
  if (length < 0) return 0;
  found[length] = 0;
  return strcmp(found, name) == 0;
}

__thread void *clinux_loop_current;
__thread clinux_loop_callee_t clinux_loop_callee;

typedef __attribute__((swiftcall)) void (*drain_queue)(void);
extern __attribute__((swiftcall)) void (*swift_task_asyncMainDrainQueue_hook)(drain_queue original, drain_queue override)
    __attribute__((weak));

static void (*async_main_body)(void);

static __attribute__((swiftcall)) void host_async_main(drain_queue original, drain_queue override) {
  (void)original;
  (void)override;
  async_main_body();
  __builtin_trap();
}

int clinux_host_async_main(void (*body)(void)) {
  if (&swift_task_asyncMainDrainQueue_hook == NULL) return 0;
  async_main_body = body;
  swift_task_asyncMainDrainQueue_hook = host_async_main;
  return 1;
}
