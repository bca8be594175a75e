// An architecture that has no folder, or another C library than glibc: reports go out without a stack, and say so.
#include <errno.h>
#include <string.h>

#include "architecture.h"

#if !CUNWIND_HAS_STACKS

#include "cunwind_perf.h"
#include "cunwind_timer.h"
#include "cunwind_unwind.h"

const char *cunwind_load(void) {
#ifdef __GLIBC__
  return "there are no stacks on this architecture";
#else
  return "stacks are captured with glibc only";
#endif
}

cunwind_unwinder *cunwind_unwinder_create(cunwind_process *process) {
  (void)process;
  return NULL;
}
void cunwind_unwinder_destroy(cunwind_unwinder *u) { (void)u; }
void cunwind_unwinder_flush(cunwind_unwinder *u) { (void)u; }
cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  (void)u, (void)snapshot, (void)frames, (void)capacity;
  return (cunwind_backtrace){.end = CUNWIND_END_LOST};
}

uint64_t cunwind_context_distance(const cunwind_process *process, uint64_t address) {
  (void)process, (void)address;
  return 0;
}

bool cunwind_is_continuation(const cunwind_process *process, uint64_t address) {
  (void)process, (void)address;
  return false;
}

bool cunwind_perf_is_permitted(void) { return false; }

void cunwind_perf_keep_ready(void) {}
enum cunwind_capture_result cunwind_perf_open(cunwind_perf *perf, cunwind_process *process, int32_t thread) {
  memset(perf, 0, sizeof *perf);
  perf->descriptor = -1;
  perf->process = process;
  perf->thread = thread;
  return CUNWIND_CAPTURE_UNSUPPORTED;
}
bool cunwind_perf_request(cunwind_perf *perf) {
  (void)perf;
  return false;
}
enum cunwind_capture_result cunwind_perf_wait(cunwind_perf *perf, uint64_t timeout_ns, cunwind_snapshot *snapshot) {
  (void)perf, (void)timeout_ns, (void)snapshot;
  return CUNWIND_CAPTURE_UNSUPPORTED;
}
void cunwind_perf_close(cunwind_perf *perf) { (void)perf; }

int cunwind_breakpoint_begin(int32_t thread, uint64_t address, enum cunwind_breakpoint kind) {
  (void)thread, (void)address, (void)kind;
  return -1;
}
bool cunwind_breakpoint_is_hit(int descriptor) {
  (void)descriptor;
  return true;
}

bool cunwind_is_readable(uint64_t address) {
  (void)address;
  return false;
}
int cunwind_timer_signal(uint64_t blocked) {
  (void)blocked;
  return -ENOSYS;
}
bool cunwind_timer_borrow_profiling_signal(void) { return false; }
int cunwind_timer_check(void) { return -ENOTSUP; }
enum cunwind_capture_result cunwind_timer_begin(cunwind_timer *timer, int32_t thread, int number) {
  (void)timer, (void)thread, (void)number;
  return CUNWIND_CAPTURE_UNSUPPORTED;
}
enum cunwind_capture_result cunwind_timer_wait(cunwind_timer *timer, uint64_t timeout_ns, cunwind_snapshot *snapshot) {
  (void)timer, (void)timeout_ns, (void)snapshot;
  return CUNWIND_CAPTURE_UNSUPPORTED;
}
void cunwind_timer_end(cunwind_timer *timer) { (void)timer; }
bool cunwind_timer_is_copying(const cunwind_timer *timer) {
  (void)timer;
  return false;
}

#endif
