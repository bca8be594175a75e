// What the signal handler does with the processor: check and copy memory, take registers, repeat a call.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../process_internal.h"
#include "cunwind_timer.h"

// As in CLinux/close_range.h: CUnwind imports no target.
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define UNSANITIZED __attribute__((no_sanitize("address", "thread")))

// rt_sigprocmask copies the set before it checks the operation (kernel/signal.c), so with an operation
// that does not exist it answers EINVAL for a set that can be read, and changes nothing. No filter can forbid the call:
// the C library makes it in every pthread_create.
bool cunwind_arch_is_readable(uint64_t address) {
  long result = SYS_rt_sigprocmask;
  register long size __asm__("r10") = 8;
  __asm__ volatile("syscall" : "+a"(result) : "D"(-1L), "S"(address), "d"(0L), "r"(size) : "rcx", "r11", "memory");
  return result == -EINVAL;
}

void cunwind_arch_copy(void *to, uint64_t from, size_t length) {
  const void *source = (const void *)(uintptr_t)from;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(source), "+c"(length) : : "memory");
}

static const int dwarf_to_greg[CUNWIND_REGISTERS] = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

UNSANITIZED void cunwind_arch_copy_registers(const ucontext_t *context, uint64_t registers[CUNWIND_REGISTERS]) {
  for (int i = 0; i < CUNWIND_REGISTERS; i++)
    registers[i] = (uint64_t)context->uc_mcontext.gregs[dwarf_to_greg[i]];
}

// close has released its descriptor before it fails with EINTR: repeated, it would close what another thread has
// opened.
UNSANITIZED static bool is_repeatable(int64_t number) { return number != SYS_close && number != SYS_close_range; }

bool cunwind_is_interrupted_syscall(uint64_t rax, const unsigned char code[7]) {
  if (rax != (uint64_t)-EINTR || code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05) return false;
  int32_t number;
  memcpy(&number, code + 1, sizeof number);
  return is_repeatable(number);
}

// How many bytes of instructions lead from loading the number of an interrupted system call to
// `rip`; 0 if they are not such instructions. In a process with threads, glibc 2.36 loads the first
// argument of epoll_pwait, pselect and similar calls in between (`mov 4(%rsp),%edi`).
UNSANITIZED static unsigned call_length(uint64_t rax, uint64_t rip) {
  unsigned char code[11];
  if (cunwind_checked_copy(code, rip - sizeof code, sizeof code) != sizeof code) return 0;
  if (cunwind_is_interrupted_syscall(rax, code + 4)) return 7;
  if (code[5] != 0x8b || code[6] != 0x7c || code[7] != 0x24) return 0;
  unsigned char joined[7];
  memcpy(joined, code, 5);
  memcpy(joined + 5, code + 9, 2);
  return cunwind_is_interrupted_syscall(rax, joined) ? 11 : 0;
}

UNSANITIZED static bool read_word(uint64_t address, int64_t *word) {
  return cunwind_checked_copy(word, address, sizeof *word) == sizeof *word;
}

// Since glibc 2.41 no register has the number of an interrupted cancellable call, but the caller's frame has it.
UNSANITIZED static bool restart_cancellable(greg_t *gregs) {
  uint64_t rip = (uint64_t)gregs[REG_RIP], rsp = (uint64_t)gregs[REG_RSP];
  int64_t number, returns_to;
  if (rip == cunwind_own.cancellable.inner_call_end) {
    if (!read_word(rsp, &returns_to) || (uint64_t)returns_to != cunwind_own.cancellable.inner_returns_to) return false;
    if (!read_word(rsp + cunwind_own.cancellable.number_offset, &number) || !is_repeatable(number)) return false;
    gregs[REG_RAX] = number;
    gregs[REG_RIP] -= 2;
    return true;
  }
  // `mov displacement(%rsp),%rax; syscall` in a process without threads.
  unsigned char code[7];
  if (cunwind_checked_copy(code, rip - sizeof code, sizeof code) != sizeof code) return false;
  if (code[0] != 0x48 || code[1] != 0x8b || code[2] != 0x44 || code[3] != 0x24) return false;
  if (code[5] != 0x0f || code[6] != 0x05) return false;
  if (!read_word(rsp + code[4], &number) || !is_repeatable(number)) return false;
  gregs[REG_RIP] -= 7;
  return true;
}

UNSANITIZED void cunwind_arch_restart_call(ucontext_t *context) {
  greg_t *gregs = context->uc_mcontext.gregs;
  if ((uint64_t)gregs[REG_RAX] != (uint64_t)-EINTR) return;
  if (cunwind_own.cancellable.inner != 0 && restart_cancellable(gregs)) return;
  gregs[REG_RIP] -= call_length((uint64_t)gregs[REG_RAX], (uint64_t)gregs[REG_RIP]);
}

#endif
