// glibc 2.41 and later make a cancellable call by three functions without names: `__syscall_cancel` (outer) calls
// `__internal_syscall_cancel` (middle), which calls `__syscall_cancel_arch` (inner).
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "../unwinder.h"
#include "code.h"

#define LENGTH 48u

// The target of the first call in the function at `address`; 0 if there is none.
static uint64_t first_call(const cunwind_process *process, uint64_t address) {
  uint32_t code[LENGTH];
  size_t count = address == 0 ? 0 : cunwind_read(process, address, code, sizeof code) / sizeof *code;
  for (size_t i = 0; i < count; i++)
    if (cunwind_is_call(code[i])) return cunwind_call_target(code[i], address + 4 * i);
  return 0;
}

// Instructions between a system call and the return: glibc 2.41 gives the frame of the middle function back there.
#define END_LENGTH 4u

// Whether the function at `address` ends with a system call, and takes the number from a register.
static bool calls_for_another(const cunwind_process *process, uint64_t address) {
  uint32_t code[LENGTH];
  size_t count = address == 0 ? 0 : cunwind_read(process, address, code, sizeof code) / sizeof *code;
  bool takes_number = false;
  for (size_t i = 0; i < count; i++) {
    takes_number |= (code[i] & 0xffe0ffffu) == 0xaa0003e8u;  // mov x8, xN
    if (code[i] != 0xd4000001u) continue;
    for (size_t end = i + 1; end < count && end <= i + 1 + END_LENGTH; end++)
      if (cunwind_is_return(code[end])) return takes_number;
  }
  return false;
}

void cunwind_arch_learn_cancellable(cunwind_process *process, uint64_t pause) {
  uint64_t outer = first_call(process, pause), middle = first_call(process, outer), inner = first_call(process, middle);
  if (!calls_for_another(process, middle) || !calls_for_another(process, inner)) return;
  process->cancellable.outer = cunwind_function_start(process, outer);
  process->cancellable.middle = cunwind_function_start(process, middle);
  process->cancellable.inner = cunwind_function_start(process, inner);
}

// The jump in the function that `caller` has called, if that has jumped to the outer function as its last action; or 0.
static uint64_t jump_to_outer(cunwind_unwinder *u, const cunwind_frame *caller) {
  const struct cunwind_cancellable *known = &u->process->cancellable;
  uint64_t target;
  if (!caller->is_return_address || cunwind_match_call(u, caller->address, &target) != FOLLOWS_A_CALL) return 0;
  target = target == 0 ? 0 : cunwind_resolve_target(u, target);
  if (target == 0 || target == known->outer) return 0;
  for (uint64_t at = target; at < target + 4 * LENGTH && cunwind_function_of(u, at) == target; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) return 0;
    if (cunwind_branch_target(code, at) == known->outer) return at;
  }
  return 0;
}

size_t cunwind_arch_count_cancellable(cunwind_unwinder *u, cunwind_frame *frames, size_t count) {
  const struct cunwind_cancellable *known = &u->process->cancellable;
  size_t left_out = 0;
  while (known->inner != 0 && left_out + 1 < count) {
    const cunwind_frame *frame = &frames[left_out];
    uint64_t start = cunwind_function_of(u, frame->address - frame->is_return_address);
    if (start != known->inner && start != known->middle && start != known->outer) break;
    left_out++;
  }
  // read(2) and others jump to the outer function, which then has their place on the stack.
  uint64_t jump = left_out == 0 ? 0 : jump_to_outer(u, &frames[left_out]);
  if (jump == 0) return left_out;
  cunwind_frame *frame = &frames[left_out - 1];
  *frame = (cunwind_frame){.address = jump, .stack_pointer = frames[left_out].stack_pointer};
  return left_out - 1;
}

#endif
