// The layout of the frame that the kernel puts on the stack for a signal's handler.
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

// struct ucontext: 40 bytes, then struct sigcontext_64 of asm/sigcontext.h.
bool cunwind_arch_read_interrupted(cunwind_unwinder *u, uint64_t sp, uint64_t registers[CUNWIND_REGISTERS]) {
  static const unsigned char order[CUNWIND_REGISTERS] = {
      8, 9, 10, 11, 12, 13, 14, 15, 5, 4, CUNWIND_FRAME_POINTER, 3, 1, 0, 2, CUNWIND_STACK_POINTER,
      CUNWIND_PROGRAM_COUNTER};
  // The kernel sets uc_link to NULL.
  uint64_t next;
  if (!cunwind_read_word(u, sp + 8, &next) || next != 0) return false;
  for (size_t i = 0; i < CUNWIND_REGISTERS; i++)
    if (!cunwind_read_word(u, sp + 40 + 8 * i, &registers[order[i]])) return false;
  return true;
}

#endif
