// glibc 2.41 and later make a cancellable call by three functions without names: `__syscall_cancel` (outer) calls
// `__internal_syscall_cancel` (middle), which calls `__syscall_cancel_arch` (inner).
#define _GNU_SOURCE
#include "cancellable.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"

struct cunwind_cancellable cunwind_cancellable;

// The target of the first call in `code`, which lies at `address`; 0 if there is none. `end` is where it returns to.
static uint64_t first_call(const unsigned char *code, size_t from, size_t length, uint64_t address, uint64_t *end) {
  for (size_t at = from; at + 5 <= length; at++) {
    if (code[at] != 0xe8) continue;
    int32_t displacement;
    memcpy(&displacement, code + at + 1, sizeof displacement);
    *end = address + at + 5;
    uint64_t target = *end + (uint64_t)(int64_t)displacement;
    // Any byte may be e8.
    if (cunwind_function_start(target) == target) return target;
  }
  return 0;
}

// Where `bytes` begin in `code`; `length` if they do not.
static size_t find(const unsigned char *code, size_t length, const char *bytes, size_t count) {
  for (size_t at = 0; at + count <= length; at++)
    if (memcmp(code + at, bytes, count) == 0) return at;
  return length;
}

void cunwind_arch_learn_cancellable(void) {
  unsigned char code[160];
  struct cunwind_cancellable learnt = {0};
  uint64_t end;
  void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD | RTLD_LOCAL);
  if (library == NULL) return;
  uint64_t pause = (uint64_t)(uintptr_t)dlsym(library, "pause");
  dlclose(library);
  size_t length = pause == 0 ? 0 : cunwind_read(pause, code, 48);
  size_t at = find(code, length, "\x6a\x22", 2);  // push $SYS_pause
  learnt.outer = first_call(code, at, length, pause, &end);
  length = learnt.outer == 0 ? 0 : cunwind_read(learnt.outer, code, 32);
  at = find(code, length, "\xff\x74\x24", 3);  // push displacement(%rsp): the number again
  learnt.middle = first_call(code, at, length, learnt.outer, &end);
  length = learnt.middle == 0 ? 0 : cunwind_read(learnt.middle, code, sizeof code);
  at = find(code, length, "\x48\x8b\x74\x24", 4);  // mov displacement(%rsp),%rsi: the number
  if (at + 5 > length) return;
  // Further down by the return address.
  learnt.number_offset = 8u + code[at + 4];
  learnt.inner = first_call(code, at, length < at + 32 ? length : at + 32, learnt.middle, &learnt.inner_returns_to);
  length = learnt.inner == 0 ? 0 : cunwind_read(learnt.inner, code, 64);
  at = find(code, length, "\x0f\x05\xc3", 3);  // syscall; ret
  if (at == length || find(code, at, "\x48\x89\xf0", 3) == at) return;  // mov %rsi,%rax
  learnt.inner_call_end = learnt.inner + at + 2;
  cunwind_cancellable = learnt;
}

bool cunwind_is_cancellable_call(uint64_t counter, uint64_t *returns_to, uint64_t *number_offset) {
  if (counter == 0 || counter != cunwind_cancellable.inner_call_end) return false;
  *returns_to = cunwind_cancellable.inner_returns_to;
  *number_offset = cunwind_cancellable.number_offset;
  return true;
}

size_t cunwind_arch_count_cancellable(cunwind_unwinder *u, cunwind_frame *frames, size_t count) {
  const struct cunwind_cancellable *known = &cunwind_cancellable;
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
