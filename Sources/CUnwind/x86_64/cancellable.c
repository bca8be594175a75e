// glibc 2.41 and later make a cancellable call by three functions without names: `__syscall_cancel` (outer) calls
// `__internal_syscall_cancel` (middle), which calls `__syscall_cancel_arch` (inner).
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"

// The target of the first call in `code`, which lies at `address`; 0 if there is none. `end` is where it returns to.
static uint64_t first_call(const cunwind_process *process, const unsigned char *code, size_t from, size_t length, uint64_t address, uint64_t *end) {
  for (size_t at = from; at + 5 <= length; at++) {
    if (code[at] != 0xe8) continue;
    int32_t displacement;
    memcpy(&displacement, code + at + 1, sizeof displacement);
    *end = address + at + 5;
    uint64_t target = *end + (uint64_t)(int64_t)displacement;
    // Any byte may be e8.
    if (cunwind_function_start(process, target) == target) return target;
  }
  return 0;
}

// Where `bytes` begin in `code`; `length` if they do not.
static size_t find(const unsigned char *code, size_t length, const char *bytes, size_t count) {
  for (size_t at = 0; at + count <= length; at++)
    if (memcmp(code + at, bytes, count) == 0) return at;
  return length;
}

void cunwind_arch_learn_cancellable(cunwind_process *process, uint64_t pause) {
  unsigned char code[160];
  struct cunwind_cancellable learnt = {0};
  uint64_t end;
  size_t length = cunwind_read(process, pause, code, 48);
  size_t at = find(code, length, "\x6a\x22", 2);  // push $SYS_pause
  learnt.outer = first_call(process, code, at, length, pause, &end);
  length = learnt.outer == 0 ? 0 : cunwind_read(process, learnt.outer, code, 32);
  at = find(code, length, "\xff\x74\x24", 3);  // push displacement(%rsp): the number again
  learnt.middle = first_call(process, code, at, length, learnt.outer, &end);
  length = learnt.middle == 0 ? 0 : cunwind_read(process, learnt.middle, code, sizeof code);
  at = find(code, length, "\x48\x8b\x74\x24", 4);  // mov displacement(%rsp),%rsi: the number
  if (at + 5 > length) return;
  // Further down by the return address.
  learnt.number_offset = 8u + code[at + 4];
  learnt.inner = first_call(process, code, at, length < at + 32 ? length : at + 32, learnt.middle, &learnt.inner_returns_to);
  length = learnt.inner == 0 ? 0 : cunwind_read(process, learnt.inner, code, 64);
  at = find(code, length, "\x0f\x05\xc3", 3);  // syscall; ret
  if (at == length || find(code, at, "\x48\x89\xf0", 3) == at) return;  // mov %rsi,%rax
  learnt.inner_call_end = learnt.inner + at + 2;
  process->cancellable = learnt;
}

bool cunwind_is_cancellable_call(const cunwind_process *process, uint64_t counter, uint64_t *returns_to,
                                 uint64_t *number_offset) {
  if (counter == 0 || counter != process->cancellable.inner_call_end) return false;
  *returns_to = process->cancellable.inner_returns_to;
  *number_offset = process->cancellable.number_offset;
  return true;
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
  return left_out;
}

#endif
