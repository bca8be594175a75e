// A libFuzzer target (`make fuzz`), and the same without a fuzzer for `make test`.
#define _GNU_SOURCE
#include "FuzzUnwind.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cunwind_unwind.h"

#define STACK_ADDRESS 0x700000000000u
#define STACK_BYTES 4096u
#define FRAMES 256u

static cunwind_unwinder *unwinder;
// Code of modules with all kinds of unwind information: the C library, the loader, libunwind's user, this one, the
// vDSO.
static cunwind_module modules[8];
static size_t module_count;

static void add_module(const void *address) {
  if (address != NULL && module_count < 8 && cunwind_find_module(cunwind_own_process(), (uint64_t)(uintptr_t)address, &modules[module_count]))
    module_count++;
}

static void begin(void) {
  if (cunwind_load() != NULL) abort();
  unwinder = cunwind_unwinder_create(cunwind_own_process());
  if (unwinder == NULL) abort();
  add_module((const void *)(uintptr_t)&qsort);
  add_module((const void *)(uintptr_t)&fuzz_unwind);
  add_module(dlsym(RTLD_DEFAULT, "_dl_find_object"));
  add_module(dlsym(RTLD_DEFAULT, "__tls_get_addr"));
  add_module(dlsym(RTLD_DEFAULT, "swift_retain"));
  add_module(dlsym(RTLD_DEFAULT, "_Unwind_Resume"));
}

// Nine bytes become a word: one that says what it is to be, and eight of value.
static uint64_t word(const uint8_t **bytes, size_t *length) {
  if (*length < 9) return 0;
  uint8_t kind = (*bytes)[0];
  uint64_t value;
  memcpy(&value, *bytes + 1, sizeof value);
  *bytes += 9, *length -= 9;
  const cunwind_module *module = &modules[(kind >> 3) % (module_count == 0 ? 1 : module_count)];
  switch (kind & 7) {
    case 0: return value;
    case 1: return value & 0xffff;
    case 2:
    case 3: return STACK_ADDRESS + value % (2 * STACK_BYTES);
    case 4: return (STACK_ADDRESS + value % STACK_BYTES) & ~7ull;
    default: return module->start + value % (module->end - module->start + 1);
  }
}

static size_t unwind(const uint8_t *bytes, size_t length, enum cunwind_end *end) {
  static unsigned char stack[STACK_BYTES];
  static cunwind_frame frames[FRAMES];
  if (unwinder == NULL) begin();
  cunwind_snapshot snapshot;
  memset(&snapshot, 0, sizeof snapshot);
  memset(stack, 0, sizeof stack);
  if (length < 4) return 0;
  uint32_t choice;
  memcpy(&choice, bytes, sizeof choice);
  bytes += 4, length -= 4;
  // RIP and RSP are always known; RBP and the rest as it comes.
  snapshot.known = (choice & 0x1ffff) | 1ull << CUNWIND_PROGRAM_COUNTER | 1ull << CUNWIND_STACK_POINTER;
  if (choice >> 26 == 0x2a) cunwind_unwinder_flush(unwinder);
  for (int i = 0; i < CUNWIND_REGISTERS; i++) snapshot.registers[i] = word(&bytes, &length);
  if ((choice >> 30 & 1) != 0) snapshot.registers[CUNWIND_STACK_POINTER] = STACK_ADDRESS + (choice >> 17 & 0xff8);
  for (size_t at = 0; at + 8 <= STACK_BYTES && length >= 9; at += 8) {
    uint64_t value = word(&bytes, &length);
    memcpy(stack + at, &value, sizeof value);
  }
  snapshot.stack_address = STACK_ADDRESS;
  snapshot.stack_length = STACK_BYTES;
  snapshot.stack = stack;
  cunwind_backtrace result = cunwind_unwind(unwinder, &snapshot, frames, FRAMES);
  if (result.count < 1 || result.count > FRAMES) abort();
  // An entry of a linkage table is left out: then the caller is the first.
  bool is_left_out = frames[0].is_return_address;
  if (!is_left_out && frames[0].address != snapshot.registers[CUNWIND_PROGRAM_COUNTER]) abort();
  if ((result.end == CUNWIND_END_LIMIT) != (result.count + is_left_out == FRAMES)) abort();
  if (end != NULL) *end = result.end;
  return result.count;
}

size_t fuzz_unwind(const uint8_t *bytes, size_t length) { return unwind(bytes, length, NULL); }

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct fuzz_totals fuzz_unwind_many(uint64_t seed, size_t rounds) {
  struct fuzz_totals totals = {0, 0};
  uint64_t state = seed * 2 + 1;
  static uint64_t bytes[9 * (CUNWIND_REGISTERS + 128) / 8 + 2];
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
      // xorshift64 (Marsaglia, 2003).
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      bytes[i] = state;
    }
    // Mostly somewhere in a module's code, and on the stack: garbage alone ends at once.
    if (round % 4 != 0) {
      uint8_t *raw = (uint8_t *)bytes;
      raw[3] |= 0x40;
      raw[4 + 9 * CUNWIND_PROGRAM_COUNTER] |= 7;
    }
    uint64_t start = now_ns();
    enum cunwind_end end = CUNWIND_END_LOST;
    totals.frames += unwind((const uint8_t *)bytes, sizeof bytes, &end);
    uint64_t took = now_ns() - start;
    if (took > totals.slowest_ns) totals.slowest_ns = took;
  }
  return totals;
}

#ifdef FUZZ_WITH_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  fuzz_unwind(bytes, length);
  return 0;
}
#endif
