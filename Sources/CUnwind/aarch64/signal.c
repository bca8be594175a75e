// The layout of the frame that the kernel puts on the stack for a signal's handler.
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

// struct rt_sigframe of arch/arm64/kernel/signal.c: 128 bytes of siginfo, 176 of ucontext, and the fault's address; then
// X0 to X30, the stack pointer and the program counter, as DWARF numbers them.
bool cunwind_arch_read_interrupted(cunwind_unwinder *u, uint64_t sp, uint64_t registers[CUNWIND_REGISTERS]) {
  // The kernel sets uc_link to NULL.
  uint64_t next;
  if (!cunwind_read_word(u, sp + 128 + 8, &next) || next != 0) return false;
  for (size_t i = 0; i < CUNWIND_REGISTERS; i++)
    if (!cunwind_read_word(u, sp + 128 + 176 + 8 + 8 * i, &registers[i])) return false;
  return true;
}

#endif
