// Unwinding a snapshot, frame by frame, with libunwind's remote API.
#define _GNU_SOURCE
#include <string.h>

#include "architecture.h"

#if CUNWIND_HAS_STACKS

#include "modules.h"
#include "unwinder.h"

void cunwind_add_frame(cunwind_unwinder *u, struct cunwind_walk *w, uint64_t ip, uint64_t sp, bool is_return_address) {
  cunwind_frame frame = {.address = ip, .is_return_address = is_return_address, .stack_pointer = sp};
  unw_word_t context = 0;
  // Asking for a register that is not known must not mark the frame pointer as wanted.
  bool wanted = u->wanted_frame_pointer;
  frame.knows_context = libunwind.get_reg(&w->cursor, CUNWIND_CONTEXT, &context) == 0;
  u->wanted_frame_pointer = wanted;
  frame.context = context;
  w->frames[w->result.count++] = frame;
}

bool cunwind_begin_at(cunwind_unwinder *u, struct cunwind_walk *w, uint64_t ip, uint64_t sp) {
  uint64_t registers[CUNWIND_REGISTERS] = {0};
  uint64_t known = 1ull << CUNWIND_PROGRAM_COUNTER | 1ull << CUNWIND_STACK_POINTER;
  for (int number = 0; number < CUNWIND_REGISTERS; number++) {
    unw_word_t value;
    if ((CUNWIND_PRESERVED >> number & 1) == 0 || libunwind.get_reg(&w->cursor, number, &value) != 0) continue;
    registers[number] = value;
    known |= 1ull << number;
  }
  registers[CUNWIND_PROGRAM_COUNTER] = ip;
  registers[CUNWIND_STACK_POINTER] = sp;
  memcpy(u->registers, registers, sizeof registers);
  u->known = known;
  return libunwind.init_remote(&w->cursor, u->space, u) == 0;
}

// libunwind 1.8 gives 0 for a return address of 0, as for one that is not defined. On aarch64 it also
// does so if the caller's frame pointer is 0, but a caller may use that register for something else.
// With zeros replaced, only an undefined return address gives 0.
//
// `before` is the cursor as it is now: it has a kilobyte, and the caller has a copy already.
int cunwind_step(cunwind_unwinder *u, unw_cursor_t *cursor, const unw_cursor_t *before) {
  int step = libunwind.step(cursor);
  if (step != 0 || u->guessed) return step;
  *cursor = *before;
  u->replaces_zeros = true;
  step = libunwind.step(cursor);
  u->replaces_zeros = false;
  return step;
}

bool cunwind_is_return_probe(cunwind_unwinder *u, uint64_t address) {
  struct cunwind_mapping mapping;
  unsigned char byte;
  return address != 0 && address % CUNWIND_CACHE_PAGE == 0 && !cunwind_find_mapping(u->process, address, &mapping) &&
         !cunwind_read_cached(u, address, &byte, 1);
}

bool cunwind_walk(cunwind_unwinder *u, struct cunwind_walk *w) {
  w->result.end = CUNWIND_END_LOST;
  for (;;) {
    if (w->result.count == w->capacity) {
      w->result.end = CUNWIND_END_LIMIT;
      return false;
    }
    u->wanted_frame_pointer = u->wanted_link = false;
    u->guessed = false;
    u->loads_left = CUNWIND_STEP_LOADS;
    if (cunwind_is_at_signal_return(u, w)) {
      if (!cunwind_step_over_signal(u, w)) return false;
      continue;
    }
#ifdef CUNWIND_LINK
    // Called through a bad pointer. libunwind 1.8 would continue from the link's function, and leave out the caller.
    uint32_t code;
    if (!w->frames[w->result.count - 1].is_return_address && !cunwind_read_cached(u, w->ip, &code, sizeof code)) {
      if (cunwind_arch_step_over_gap(u, w)) continue;
      return false;
    }
#endif
    unw_cursor_t before = w->cursor;
    bool read_live = u->read_live;
    int step = cunwind_step(u, &w->cursor, &before);
    bool needs_register = step < 0 && (u->wanted_frame_pointer || u->wanted_link);
    if (u->guessed) {
      w->cursor = before;
      // What the guess has read counts only if it is taken, and read again: the frame pointer may lead anywhere.
      u->read_live = read_live;
      if (cunwind_arch_step_over_gap(u, w)) continue;
      u->guessed = true;
      w->cursor = before;
      step = cunwind_step(u, &w->cursor, &before);
    }
    if (needs_register) w->cursor = before;
    if (step < 0) return needs_register;
    unw_word_t next_ip = 0, next_sp = 0;
    if (step > 0 && (libunwind.get_reg(&w->cursor, UNW_REG_IP, &next_ip) != 0 ||
                     libunwind.get_reg(&w->cursor, UNW_REG_SP, &next_sp) != 0))
      return false;
    bool is_marked = next_ip != cunwind_code_address(next_ip) || next_sp != cunwind_data_address(next_sp);
    next_ip = cunwind_code_address(next_ip);
    next_sp = cunwind_data_address(next_sp);
    if (next_ip == CUNWIND_ZERO) next_ip = 0;
    if (step == 0 || next_ip == 0) {
      // Without unwind information it means that there is no frame pointer to follow.
      if (!u->guessed) w->result.end = CUNWIND_END_OUTERMOST;
      w->ended_at_zero = step != 0;
      return false;
    }
    w->result.approximate |= u->guessed;
    // Callers lie further up (but vfork has its return address in a register): anything else is garbage, and
    // might go round for ever.
    if (next_sp < w->sp || (next_sp == w->sp && next_ip == w->ip)) return false;
    if (cunwind_is_return_probe(u, next_ip)) return false;
    // libunwind would look for a function at the marked address.
    if (is_marked && !cunwind_begin_at(u, w, next_ip - 1, next_sp)) return false;
    // The kernel has made a handler return there, and nothing was called in front of it.
    cunwind_add_frame(u, w, next_ip, next_sp, !cunwind_arch_is_signal_return(u, next_ip));
    w->ip = next_ip;
    w->sp = next_sp;
  }
}

cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  struct cunwind_walk w = {.frames = frames, .capacity = capacity, .result = {.end = CUNWIND_END_LOST}};
  memset(u->page_address, 0, sizeof u->page_address);
  u->table_start = u->table_end = 0;
  u->snapshot = snapshot;
  u->process->access->refresh(u->process, false);
  u->read_live = false;
  memcpy(u->registers, snapshot->registers, sizeof u->registers);
  u->known = snapshot->known;
  if (capacity == 0 || libunwind.init_remote(&w.cursor, u->space, u) != 0) return w.result;
  w.ip = u->registers[CUNWIND_PROGRAM_COUNTER];
  w.sp = w.entered = u->registers[CUNWIND_STACK_POINTER];
  cunwind_add_frame(u, &w, w.ip, w.sp, false);
  u->popped_count = 0;
  if (!cunwind_is_at_signal_return(u, &w)) cunwind_arch_begin(u, &w);
  if (cunwind_walk(u, &w)) cunwind_arch_walk_with_frame_pointer(u, &w);
  // A linkage table's entry is no function: the caller is about to call.
  if (w.result.count > 1 && frames[1].is_return_address && cunwind_arch_is_in_linkage_table(u, frames[0].address))
    memmove(frames, frames + 1, --w.result.count * sizeof *frames);
  // After a guess, that zero may be any word of the stack.
  if (w.result.end == CUNWIND_END_OUTERMOST && w.ended_at_zero && w.result.approximate) w.result.end = CUNWIND_END_LOST;
  size_t left_out = cunwind_arch_count_cancellable(u, frames, w.result.count);
  w.result.count -= left_out;
  memmove(frames, frames + left_out, w.result.count * sizeof *frames);
  w.result.read_live = u->read_live;
  struct cunwind_mapping mapping;
  w.result.is_outside_modules =
      w.result.end == CUNWIND_END_LOST && !cunwind_find_mapping(u->process, cunwind_lookup_address(&w), &mapping);
  return w.result;
}

#endif
