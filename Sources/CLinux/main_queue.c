#include "main_queue.h"

#include <unistd.h>

#include "dispatch_queue.h"

// dispatch/queue.h. The queue is declared as bytes: nothing here uses its layout but by clinux_dispatch_queue_layout_is_known().
extern char _dispatch_main_q[] __attribute__((weak));
extern void dispatch_async_f(void *queue, void *context, void (*work)(void *)) __attribute__((weak));

bool clinux_main_queue_is_here(void) { return _dispatch_main_q != 0 && dispatch_async_f != 0; }

// libdispatch makes the queue when it is loaded, and so is this.
static pid_t loaded_in;
__attribute__((constructor)) static void remember_process(void) { loaded_in = getpid(); }

bool clinux_main_queue_is_inherited(void) { return getpid() != loaded_in; }

void clinux_main_queue_post(void *context, void (*work)(void *)) { dispatch_async_f(_dispatch_main_q, context, work); }

bool clinux_main_queue_state(uint64_t *state) {
  if (_dispatch_main_q == 0 || !clinux_dispatch_queue_layout_is_known()) return false;
  *state = __atomic_load_n((const uint64_t *)(_dispatch_main_q + 56), __ATOMIC_ACQUIRE);
  return true;
}
