// The frame that the kernel puts on the stack for a signal's handler.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "../unwinder.h"

// `mov x8, #__NR_rt_sigreturn; svc #0` in the vDSO.
bool cunwind_arch_is_signal_return(cunwind_unwinder *u, uint64_t address) {
  uint32_t code[2];
  return cunwind_read_cached(u, address, code, sizeof code) && code[0] == 0xd2801168u && code[1] == 0xd4000001u;
}

bool cunwind_arch_is_at_signal_return(cunwind_unwinder *u, const struct cunwind_walk *w) {
  return cunwind_arch_is_signal_return(u, w->ip) ||
         (!w->frames[w->result.count - 1].is_return_address && cunwind_arch_is_signal_return(u, w->ip - 4));
}

// What was interrupted is an instruction and not a call, on a stack that may lie anywhere. The kernel has put the
// registers where the handler returns to (struct rt_sigframe of arch/arm64/kernel/signal.c: 128 bytes of siginfo, 176 of
// ucontext, and the fault's address; then X0 to X30, the stack pointer and the program counter, as DWARF numbers them).
bool cunwind_arch_step_over_signal(cunwind_unwinder *u, struct cunwind_walk *w) {
  uint64_t registers[CUNWIND_REGISTERS];
  for (size_t i = 0; i < CUNWIND_REGISTERS; i++)
    if (!cunwind_read_word(u, w->sp + 128 + 176 + 8 + 8 * i, &registers[i])) return false;
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
