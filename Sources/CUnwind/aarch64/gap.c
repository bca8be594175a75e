// Code without unwind information, linkage tables, and the beginnings and ends of functions, by the instructions.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "../unwinder.h"
#include "code.h"

// Instructions at a function's beginning or end.
#define PROLOGUE_LENGTH 24u
#define EPILOGUE_LENGTH 16u

static bool is_known(cunwind_unwinder *u, unsigned number) { return (u->known >> number & 1) != 0; }

// Continues at `return_address` with the stack pointer of the caller.
static bool go_on(cunwind_unwinder *u, struct cunwind_walk *w, uint64_t return_address, uint64_t sp,
                  uint64_t frame_pointer) {
  return_address = cunwind_code_address(return_address);
  if (return_address == 0 || sp < w->sp) return false;
  if (!cunwind_begin_at(u, w, return_address - 1, sp)) return false;
  u->registers[CUNWIND_FRAME_POINTER] = frame_pointer;
  u->known |= 1ull << CUNWIND_FRAME_POINTER;
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  // A signal's handler may end with a jump.
  cunwind_add_frame(u, w, return_address, sp, !cunwind_arch_is_signal_return(u, return_address));
  w->ip = return_address;
  w->sp = sp;
  return true;
}

// -- The end of a function

// What the instructions up to the return do.
struct end {
  uint64_t sp, frame_pointer, link;
  bool has_loaded_link, has_moved;
};

static int64_t field(uint32_t code, unsigned low, unsigned count) {
  return (int64_t)((uint64_t)code << (64 - low - count)) >> (64 - count);
}

// Runs one instruction. False for one that is not of a function's end.
static bool run(cunwind_unwinder *u, uint32_t code, struct end *e) {
  unsigned first = code & 31, second = code >> 10 & 31;
  bool is_on_stack = (code >> 5 & 31) == 31;
  if (code == 0xd50323bfu || code == 0xd50323ffu || (code & 0xffffff1fu) == 0xd503201fu) return true;  // autiasp, autibsp, hints
  if ((code & 0xff8003ffu) == 0x910003ffu) {  // add sp, sp, #immediate
    e->sp += (uint64_t)(code >> 10 & 0xfff) << ((code >> 22 & 1) != 0 ? 12 : 0);
    e->has_moved = true;
    return true;
  }
  if (code == 0x910003bfu) {  // mov sp, x29
    e->sp = e->frame_pointer;
    e->has_moved = true;
    return true;
  }
  // ldp of two registers of 8 bytes, with an offset or behind the access; ldr of one.
  bool is_pair = (code & 0xffc00000u) == 0xa9400000u || (code & 0xffc00000u) == 0xa8c00000u;
  bool is_vector_pair = (code & 0xffc00000u) == 0x6d400000u || (code & 0xffc00000u) == 0x6cc00000u;
  if ((is_pair || is_vector_pair) && is_on_stack) {
    bool is_behind = (code & 0x01000000u) == 0;
    uint64_t offset = (uint64_t)(field(code, 15, 7) * 8), at = e->sp + (is_behind ? 0 : offset);
    for (unsigned i = 0; is_pair && i < 2; i++) {
      unsigned number = i == 0 ? first : second;
      uint64_t value;
      if (number != CUNWIND_FRAME_POINTER && number != CUNWIND_LINK) continue;
      if (!cunwind_read_word(u, at + 8 * i, &value)) return false;
      if (number == CUNWIND_LINK) e->link = value, e->has_loaded_link = true;
      if (number == CUNWIND_FRAME_POINTER) e->frame_pointer = value;
    }
    if (is_behind) e->sp += offset, e->has_moved = true;
    return true;
  }
  bool is_single = (code & 0xffc00000u) == 0xf9400000u, is_behind = (code & 0xffe00c00u) == 0xf8400400u;
  if ((is_single || is_behind) && is_on_stack) {
    uint64_t at = e->sp + (is_single ? (code >> 10 & 0xfff) * 8 : 0), value;
    if (first == CUNWIND_FRAME_POINTER) return false;
    if (first == CUNWIND_LINK) {
      if (!cunwind_read_word(u, at, &value)) return false;
      e->link = value, e->has_loaded_link = true;
    }
    if (is_behind) e->sp += (uint64_t)field(code, 12, 9), e->has_moved = true;
    return true;
  }
  // Anything else that is no branch, no load or store with write-back, and writes none of the three registers.
  if ((code & 0x1c000000u) == 0x14000000u || first >= CUNWIND_FRAME_POINTER) return false;
  bool is_memory = (code & 0x0a000000u) == 0x08000000u;
  if (!is_memory) return true;
  bool is_simple = (code & 0x3b000000u) == 0x39000000u || (code & 0x3b200c00u) == 0x38200800u ||
                   (code & 0x3b200c00u) == 0x38000000u;
  bool is_other_pair = (code & 0x3b800000u) == 0x29000000u;
  return is_simple || (is_other_pair && second < CUNWIND_FRAME_POINTER);
}

// Whether the function ends behind `ip` without a branch, and how.
static bool run_to_end(cunwind_unwinder *u, uint64_t ip, struct end *e) {
  uint64_t start = 0, end = 0;
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  u->loads_left = CUNWIND_STEP_LOADS;
  if (cunwind_find_proc_info(u->space, ip, &procedure, 0, u) >= 0) start = procedure.start_ip, end = procedure.end_ip;
  u->guessed = false;
  uint32_t before;
  // A function that has given its stack back before jumps on.
  bool has_ended = cunwind_read_instruction(u, ip - 4, &before) &&
                   ((before & 0xff8003ffu) == 0x910003ffu || (before & 0xffc07fffu) == 0xa8c07bfdu ||
                    before == 0xd50323bfu);
  for (unsigned i = 0; i < EPILOGUE_LENGTH; i++, ip += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, ip, &code)) return false;
    if (cunwind_is_return(code)) {
      // Through the link alone.
      return code == 0xd65f03c0u || code == 0xd65f0bffu || code == 0xd65f0fffu;
    }
    uint64_t jump = cunwind_branch_target(code, ip);
    if (jump != 0 || cunwind_is_indirect_branch(code)) {
      bool leaves = jump == 0 || jump < start || jump >= end;
      return leaves && (has_ended || (e->has_loaded_link && e->has_moved));
    }
    if (!run(u, code, e)) return false;
  }
  return false;
}

void cunwind_arch_begin(cunwind_unwinder *u, struct cunwind_walk *w) {
  u->popped_count = 0;
  u->popped_end = 0;
  if (!is_known(u, CUNWIND_FRAME_POINTER) || !is_known(u, CUNWIND_LINK) || w->capacity < 2) return;
  uint64_t frame_pointer = u->registers[CUNWIND_FRAME_POINTER], link = u->registers[CUNWIND_LINK];
  struct end e = {.sp = w->sp, .frame_pointer = frame_pointer, .link = link};
  uint64_t target;
  if (run_to_end(u, w->ip, &e)) {
    if (cunwind_match_call(u, cunwind_code_address(e.link), &target) != FOLLOWS_A_CALL) return;
    go_on(u, w, e.link, e.sp, e.frame_pointer);
    return;
  }
  // In a function's beginning the link is the return address, and the frame pointer the caller's.
  uint64_t start = cunwind_function_of(u, w->ip);
  if (start == 0 || w->ip - start > 4 * PROLOGUE_LENGTH || !cunwind_has_unwind_information(u, w->ip)) {
    u->guessed = false;
    return;
  }
  struct cunwind_prologue prologue = cunwind_decode_prologue(u, start, w->ip, false);
  if (prologue.depth == 0 || prologue.sets_frame_pointer || prologue.calls || prologue.branches ||
      prologue.is_irregular || prologue.depth < 0)
    return;
  if (cunwind_match_call(u, cunwind_code_address(link), &target) != FOLLOWS_A_CALL) return;
  go_on(u, w, link, w->sp + (uint64_t)prologue.depth, frame_pointer);
}

// -- Code without unwind information

// The start of the function without unwind information that is called by the call in front of `return_address` and has
// `lookup` in it; 0 if there is none.
static uint64_t called_function(cunwind_unwinder *u, uint64_t return_address, uint64_t lookup) {
  uint64_t target;
  if (cunwind_match_call(u, return_address, &target) != FOLLOWS_A_CALL || target == 0) return 0;
  target = cunwind_resolve_target(u, target);
  if (target > lookup || lookup - target >= GAP_LENGTH || cunwind_has_unwind_information(u, target)) return 0;
  return target;
}

// The registers of the innermost frame, or of one that a signal has interrupted, are those that the cursor has started
// from. libunwind gives the program counter for X30 (its UNW_REG_IP is the link's number), so it is not asked.
static bool knows_link(cunwind_unwinder *u, const struct cunwind_walk *w, uint64_t *link) {
  if (w->frames[w->result.count - 1].is_return_address || !is_known(u, CUNWIND_LINK)) return false;
  *link = cunwind_code_address(u->registers[CUNWIND_LINK]);
  return true;
}

// Functions of Swift concurrency have no unwind information, nor have helpers that the Swift compiler makes (outlined
// copies, value witnesses) and entries of linkage tables. All but the smallest have a frame record.
//
// An entry of a linkage table (and a place without any code) is reached by a call, or by a jump of a function that has
// put X30 and SP back. No instruction of an entry writes X30. The table's first entry alone writes SP: it pushes 16 bytes.
//
//     return address = X30
//     canonical frame address = SP + depth, where depth = 16 in the first entry behind its push, and 0 anywhere else
bool cunwind_arch_step_over_gap(cunwind_unwinder *u, struct cunwind_walk *w) {
  uint64_t lookup = cunwind_lookup_address(w), target, link = 0, depth;
  struct cunwind_mapping mapping;
  unw_word_t frame_pointer = 0;
  uint32_t code;
  bool has_link = knows_link(u, w, &link), has_code = cunwind_read_instruction(u, lookup & ~3ull, &code);
  if (w->result.count == w->capacity || libunwind.get_reg(&w->cursor, CUNWIND_FRAME_POINTER, &frame_pointer) != 0) return false;
  frame_pointer = cunwind_data_address(frame_pointer);
  enum cunwind_match match = has_link ? cunwind_match_call(u, link, &target) : NO_MATCH;
  bool follows_a_call = match == FOLLOWS_A_CALL;
  if (follows_a_call && !has_code) {
    // Further up there may have been a module, which is gone since.
    w->result.approximate |= w->ip >= CUNWIND_SMALLEST_PAGE;
    return go_on(u, w, link, w->sp, frame_pointer);
  }
  if (!has_code || !cunwind_find_mapping(u->process, lookup, &mapping)) return false;
  if (match != NO_MATCH && cunwind_is_stub(u, w->ip, &depth)) return go_on(u, w, link, w->sp + depth, frame_pointer);
  if (follows_a_call) {
    uint64_t start = called_function(u, link, lookup);
    bool is_exact = start != 0;
    if (start == 0) start = cunwind_nearest_start(u, lookup);
    struct cunwind_prologue p = cunwind_decode_prologue(u, start, lookup, false);
    // Until it calls somebody or has a frame record, the link is the return address.
    if (start != 0 && !p.calls && !p.sets_frame_pointer && !p.is_irregular && p.depth >= 0) {
      w->result.approximate |= !is_exact || p.branches;
      return go_on(u, w, link, w->sp + (uint64_t)p.depth, frame_pointer);
    }
  }
  uint64_t saved, return_address;
  if (frame_pointer < w->sp || !cunwind_read_word(u, frame_pointer, &saved) ||
      !cunwind_read_word(u, frame_pointer + 8, &return_address))
    return false;
  return_address = cunwind_code_address(return_address);
  if (cunwind_match_call(u, return_address, &target) != FOLLOWS_A_CALL) return false;
  uint64_t start = called_function(u, return_address, lookup);
  bool is_exact = start != 0;
  if (start == 0) start = cunwind_nearest_start(u, lookup);
  struct cunwind_prologue p = cunwind_decode_prologue(u, start, lookup, true);
  // Another function's record would leave out the one that it belongs to.
  if (start == 0 || !p.sets_frame_pointer || p.record_depth < 16) return false;
  w->result.approximate |= !is_exact && p.branches;
  return go_on(u, w, return_address, frame_pointer + (uint64_t)p.record_depth, saved);
}

bool cunwind_arch_is_in_linkage_table(cunwind_unwinder *u, uint64_t ip) {
  uint64_t depth;
  return cunwind_is_stub(u, ip, &depth);
}

#endif
