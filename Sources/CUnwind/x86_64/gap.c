// Code without unwind information, linkage tables and epilogues, by the instructions themselves.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"
#include "code.h"

// How far the code of a function without unwind information may lie from its start, and how far up its return address,
// in words.
#define GAP_LENGTH 4096u
#define GAP_WORDS 256u

// Whether `at` lies on the stack. What a handler with a stack of its own has interrupted is not in the copy:
// that stack reaches as far as it can be read.
static bool is_on_stack(cunwind_unwinder *u, const struct cunwind_walk *w, uint64_t at) {
  return cunwind_in_copy(u->snapshot, at, 8) || !cunwind_in_copy(u->snapshot, w->sp, 8);
}

// Whether the word at `at` of the stack is an address that follows a call.
static bool returns_to_call(cunwind_unwinder *u, const struct cunwind_walk *w, uint64_t at, uint64_t *caller) {
  uint64_t target;
  return is_on_stack(u, w, at) && cunwind_read_word(u, at, caller) &&
         cunwind_match_call(u, *caller, &target) == FOLLOWS_A_CALL;
}

// Whether a function could begin at `start`: compilers align them to 16 bytes, behind a return or padding.
static bool could_begin(cunwind_unwinder *u, uint64_t start) {
  unsigned char last;
  if (!cunwind_read_cached(u, start - 1, &last, 1)) return false;
  return last == 0xc3 || last == 0xcc || last == 0x90 || last == 0x00;
}

// Whether one could begin between `start` and `lookup`, so that `lookup` is probably in that one.
static bool another_could_begin(cunwind_unwinder *u, uint64_t start, uint64_t lookup) {
  for (uint64_t other = lookup & ~15ull; other > start; other -= 16)
    if (could_begin(u, other)) return true;
  return false;
}

// Whether `ip` is at the system call of a function that ends its unwind information there, or right behind it. The C library's clone(2)
// does so: in the child, the information would be wrong. It has nothing on the stack but the return address.
static bool is_behind_the_end(cunwind_unwinder *u, const struct cunwind_walk *w, uint64_t ip, uint64_t *caller) {
  unw_proc_info_t procedure;
  unsigned char code[2];
  uint64_t start;
  memset(&procedure, 0, sizeof procedure);
  return cunwind_read_word(u, w->sp, caller) && cunwind_match_call(u, *caller, &start) == FOLLOWS_A_CALL &&
         ip - start < GAP_LENGTH && cunwind_find_proc_info(u->space, start, &procedure, 0, u) >= 0 && ip - procedure.end_ip < 16 &&
         cunwind_read_cached(u, procedure.end_ip, code, sizeof code) && code[0] == 0x0f && code[1] == 0x05;
}

// A function without unwind information is an entry of a procedure linkage table, .init, or one of
// the helpers that the Swift compiler makes (outlined copies, value witnesses). Its return address is the word that
// follows a call, to it or through a pointer, with as much below it as its prologue takes.
bool cunwind_arch_step_over_gap(cunwind_unwinder *u, struct cunwind_walk *w) {
  uint64_t lookup = cunwind_lookup_address(w), caller = 0, at = w->sp, target;
  bool is_call = w->frames[w->result.count - 1].is_return_address, exact = true;
  bool found = !is_call && is_behind_the_end(u, w, lookup, &caller);
  struct cunwind_mapping mapping;
  unsigned char code[48];
  struct cunwind_saves saves = {.count = 0, .depth = 0};
  bool in_module = cunwind_find_mapping(u->process, lookup, &mapping);
  for (uint64_t i = 0; in_module && i < GAP_WORDS && !found; i++) {
    at = w->sp + 8 * i;
    if (!is_on_stack(u, w, at) || !cunwind_read_word(u, at, &caller)) break;
    if (cunwind_match_call(u, caller, &target) != FOLLOWS_A_CALL) continue;
    if (target > lookup || lookup - target >= GAP_LENGTH) continue;
    if (cunwind_has_unwind_information(u, target) || !cunwind_read_cached(u, target, code, sizeof code)) continue;
    saves = cunwind_prologue_saves(code, sizeof code);
    found = is_call ? saves.depth == 8 * i : saves.depth >= 8 * i;
    exact = !another_could_begin(u, target, lookup);
  }
  if (in_module && !found && !is_call && cunwind_read_cached(u, lookup, code, 8) && cunwind_is_jump_stub(code)) {
    // Jumped to.
    at = w->sp;
    saves.count = 0;
    found = returns_to_call(u, w, at, &caller);
    exact = true;
  }
  // Called through a pointer: the nearest start before it whose prologue fits.
  for (uint64_t start = lookup & ~15ull; in_module && !found && lookup - start < GAP_LENGTH; start -= 16) {
    if (!could_begin(u, start) || !cunwind_read_cached(u, start, code, sizeof code)) continue;
    if (cunwind_has_unwind_information(u, start)) break;
    // What of it has run; if some has been taken back since, at the function's end, that is a guess.
    saves = cunwind_prologue_saves(code, lookup - start < sizeof code ? lookup - start : sizeof code);
    if (saves.depth / 8 >= GAP_WORDS) continue;
    for (uint64_t depth = saves.depth; !found; depth -= 8) {
      at = w->sp + depth;
      found = returns_to_call(u, w, at, &caller);
      exact = depth == saves.depth;
      if (is_call || depth < 8) break;
    }
  }
  // The module is gone, as after dlclose.
  for (uint64_t i = 0; !in_module && !is_call && !found && i < 4; i++) {
    at = w->sp + 8 * i;
    found = returns_to_call(u, w, at, &caller);
    exact = false;
  }
  if (!found || !cunwind_begin_at(u, w, caller - 1, at + 8)) return false;
  // Pushed first and popped last: whatever has been pushed lies right below the return address.
  for (size_t i = 0; i < saves.count && at - 8 * (i + 1) >= w->sp; i++) {
    uint64_t value;
    if (!cunwind_read_word(u, at - 8 * (i + 1), &value)) continue;
    u->registers[saves.registers[i]] = value;
    // What is not preserved across calls is of no use to the caller.
    if (CUNWIND_PRESERVED >> saves.registers[i] & 1) u->known |= 1ull << saves.registers[i];
  }
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  cunwind_add_frame(u, w, caller, at + 8, true);
  w->result.approximate |= !exact;
  w->ip = caller;
  w->sp = at + 8;
  return true;
}

bool cunwind_arch_is_in_linkage_table(cunwind_unwinder *u, uint64_t ip) {
  unw_proc_info_t procedure;
  unsigned char code[8];
  memset(&procedure, 0, sizeof procedure);
  u->loads_left = CUNWIND_STEP_LOADS;
  if (cunwind_find_proc_info(u->space, ip, &procedure, 0, u) >= 0) {
    // GNU's linker describes a whole table; its first entry pushes the module before it jumps.
    if (!cunwind_read_cached(u, procedure.start_ip, code, sizeof code)) return false;
    return cunwind_is_jump_stub(code) || (code[0] == 0xff && code[1] == 0x35);
  }
  // LLVM's does not. Behind an entry's jump come a push and another jump, for the first call.
  uint64_t entry = ip & ~15ull, offset = ip - entry;
  if (cunwind_read_cached(u, ip, code, sizeof code) && cunwind_is_jump_stub(code)) return true;
  return (offset == 4 || offset == 6 || offset == 11) && cunwind_read_cached(u, entry, code, sizeof code) &&
         cunwind_is_jump_stub(code);
}

// GCC's tables say of an epilogue that the registers still lie in memory, below the stack pointer. A perf sample has
// nothing from there, and the thread has written over it since.
void cunwind_arch_begin(cunwind_unwinder *u, struct cunwind_walk *w) {
  (void)w;
  unsigned char code[2 * CUNWIND_POPS_MAX], registers[CUNWIND_POPS_MAX];
  u->popped_end = u->registers[CUNWIND_STACK_POINTER];
  u->popped_count = 0;
  if (!cunwind_read_cached(u, u->registers[CUNWIND_PROGRAM_COUNTER] - sizeof code, code, sizeof code)) return;
  size_t count = cunwind_pops_before(code, sizeof code, registers);
  for (size_t i = 0; i < count && (u->known >> registers[i] & 1) != 0; i++)
    u->popped[u->popped_count++] = u->registers[registers[i]];
}

#endif
