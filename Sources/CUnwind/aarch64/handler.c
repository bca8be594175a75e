// What the signal handler does with the processor: check and copy memory, take registers.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "cunwind_timer.h"

#define UNSANITIZED __attribute__((no_sanitize("address", "thread")))

// rt_sigprocmask copies the set before it checks the operation (kernel/signal.c), so with an operation
// that does not exist it answers EINVAL for a set that can be read, and changes nothing. No filter can forbid the call:
// the C library makes it in every pthread_create.
bool cunwind_arch_is_readable(uint64_t address) {
  return cunwind_raw_call(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EINVAL;
}

// In assembly, so that the compiler makes no call of memcpy of it.
void cunwind_arch_copy(void *to, uint64_t from, size_t length) {
  uint64_t kept;
  __asm__ volatile(
      "1: cmp %2, #8\n"
      "b.lo 2f\n"
      "ldr %3, [%1], #8\n"
      "str %3, [%0], #8\n"
      "sub %2, %2, #8\n"
      "b 1b\n"
      "2: cbz %2, 3f\n"
      "ldrb %w3, [%1], #1\n"
      "strb %w3, [%0], #1\n"
      "sub %2, %2, #1\n"
      "b 2b\n"
      "3:"
      : "+r"(to), "+r"(from), "+r"(length), "=&r"(kept)
      :
      : "memory", "cc");
}

UNSANITIZED void cunwind_arch_copy_registers(const ucontext_t *context, uint64_t registers[CUNWIND_REGISTERS]) {
  for (int i = 0; i < CUNWIND_STACK_POINTER; i++) registers[i] = context->uc_mcontext.regs[i];
  registers[CUNWIND_STACK_POINTER] = context->uc_mcontext.sp;
  registers[CUNWIND_PROGRAM_COUNTER] = context->uc_mcontext.pc;
}

// A call's first argument and its result share X0, and the kernel keeps the argument to itself: a call that has ended
// with EINTR cannot begin again.
UNSANITIZED void cunwind_arch_restart_call(ucontext_t *context) { (void)context; }

#endif
