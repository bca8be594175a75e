// Steps over the frame that the kernel puts on the stack for a signal's handler.
#define _GNU_SOURCE
#include <string.h>

#include "architecture.h"

#if CUNWIND_HAS_STACKS

#include "modules.h"
#include "unwinder.h"

bool cunwind_is_at_signal_return(cunwind_unwinder *u, const struct cunwind_walk *w) {
  // A return address was compared when its frame was added.
  if (w->frames[w->result.count - 1].is_return_address) return false;
  if (cunwind_arch_is_signal_return(u, w->ip)) return true;
  if (cunwind_arch_is_signal_return(u, w->ip - CUNWIND_SIGNAL_RETURN_MOVE)) return true;
  // In the call: a perf event may come before the kernel has restored the program counter.
  return cunwind_arch_is_signal_return(u, w->ip - CUNWIND_SIGNAL_RETURN) && cunwind_function_start(u->process, w->ip) != w->ip;
}

// What was interrupted is an instruction and not a call, on a stack that may lie anywhere. The kernel has put the
// registers where the handler returns to, whatever the unwind tables say of that.
bool cunwind_step_over_signal(cunwind_unwinder *u, struct cunwind_walk *w) {
  uint64_t registers[CUNWIND_REGISTERS];
  if (!cunwind_arch_read_interrupted(u, w->sp, registers)) return false;
  // Anything between is garbage, and might go round for ever.
  bool is_further_up = registers[CUNWIND_STACK_POINTER] > w->sp;
  if (!is_further_up && registers[CUNWIND_STACK_POINTER] >= w->entered) return false;
  memcpy(u->registers, registers, sizeof registers);
  u->known = CUNWIND_ALL_KNOWN;
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  w->ip = registers[CUNWIND_PROGRAM_COUNTER];
  w->sp = registers[CUNWIND_STACK_POINTER];
  if (!is_further_up) w->entered = w->sp;
  cunwind_add_frame(u, w, w->ip, w->sp, false);
  return true;
}

#endif
