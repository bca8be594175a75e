// The frame that the kernel puts on the stack for a signal's handler.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"

// `mov $__NR_rt_sigreturn,%rax; syscall` in glibc, musl and Go.
bool cunwind_arch_is_signal_return(cunwind_unwinder *u, uint64_t address) {
  unsigned char code[9];
  return cunwind_read_cached(u, address, code, sizeof code) &&
         memcmp(code, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", sizeof code) == 0;
}

bool cunwind_arch_is_at_signal_return(cunwind_unwinder *u, const struct cunwind_walk *w) {
  return cunwind_arch_is_signal_return(u, w->ip) ||
         (!w->frames[w->result.count - 1].is_return_address && cunwind_arch_is_signal_return(u, w->ip - 7));
}

// What was interrupted is an instruction and not a call, on a stack that may lie anywhere. The kernel has
// put the registers where the handler returns to, whatever the unwind tables say of that (struct ucontext:
// 40 bytes, then struct sigcontext_64 of asm/sigcontext.h).
bool cunwind_arch_step_over_signal(cunwind_unwinder *u, struct cunwind_walk *w) {
  static const unsigned char order[CUNWIND_REGISTERS] = {
      8, 9, 10, 11, 12, 13, 14, 15, 5, 4, CUNWIND_FRAME_POINTER, 3, 1, 0, 2, CUNWIND_STACK_POINTER,
      CUNWIND_PROGRAM_COUNTER};
  uint64_t registers[CUNWIND_REGISTERS];
  for (size_t i = 0; i < CUNWIND_REGISTERS; i++)
    if (!cunwind_read_word(u, w->sp + 40 + 8 * i, &registers[order[i]])) return false;
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
