// The link and the frame pointer of a blocked thread: procfs gives neither, so they are found on the stack.
//
// A thread blocks in a function that calls the kernel and nothing else, and keeps its return address in X30 alone. Its
// caller keeps one on the stack: that follows a call to the caller, which names it. It is the caller if it has a call to
// the function that blocks, and if at that call its return address lies exactly there by its unwind table.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "../snapshot_internal.h"
#include "../unwinder.h"
#include "callers.h"
#include "code.h"

// Words of a frame that are searched: 64 KiB.
#define SCAN_LIMIT 8192u
// Bytes of a function's code that are searched for calls.
#define CODE_LIMIT (64u << 10)
// The most that the search on the stack may take; some microseconds are usual.
#define TIME_MAX_NS (200000000ull * CUNWIND_PATIENCE)
// Values that are tried before the first one has to do.
#define CANDIDATES 16u

static bool find_function(cunwind_unwinder *u, uint64_t address, uint64_t *start, uint64_t *end) {
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  u->loads_left = CUNWIND_STEP_LOADS;
  bool guessed = u->guessed;
  bool is_found = cunwind_find_proc_info(u->space, address, &procedure, 0, u) >= 0;
  u->guessed = guessed;
  if (!is_found) return false;
  *start = procedure.start_ip;
  *end = procedure.end_ip - procedure.start_ip < CODE_LIMIT ? procedure.end_ip : procedure.start_ip + CODE_LIMIT;
  return address >= *start && address < *end;
}

// Instructions of a function that only puts arguments in place and jumps on, and how many of them follow each other:
// posix_spawn(3) has two, before the function that waits for the child.
#define PASSING_LENGTH 16u
#define PASSING_MAX 3u

// Where the function that begins at `start` jumps to, without having called, compared or kept anything; 0 if it does not.
static uint64_t passes_on(cunwind_unwinder *u, uint64_t start) {
  for (uint64_t at = start; at < start + 4 * PASSING_LENGTH; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) return 0;
    uint64_t jump = cunwind_branch_target(code, at);
    if (jump != 0) return jump < start || jump > at ? cunwind_resolve_target(u, jump) : 0;
    if ((code & 0x1c000000u) == 0x14000000u && (code & 0xfffff01fu) != 0xd503201fu) return 0;  // a branch or system call, no hint
  }
  return 0;
}

// Whether a call to `target` runs `function`, by functions that pass it on.
static bool passes_to(cunwind_unwinder *u, uint64_t target, uint64_t function) {
  target = cunwind_resolve_target(u, target);
  for (unsigned i = 0; i < PASSING_MAX && target != 0 && target != function; i++) target = passes_on(u, target);
  return target == function;
}

// Whether a call to `target` runs the function that has these arguments in the end: itself, or by a jump as its last
// action, which can pass them.
static bool leads_to(cunwind_unwinder *u, uint64_t target, const struct cunwind_arguments *arguments) {
  const uint64_t function = arguments->function;
  uint64_t start, end;
  if (passes_to(u, target, function)) return true;
  target = cunwind_resolve_target(u, target);
  if (!find_function(u, target, &start, &end) || start != target) return false;
  for (uint64_t at = start; at < end && at < start + 4096; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) break;
    uint64_t jump = cunwind_branch_target(code, at);
    if (jump == 0 || (jump >= start && jump < end) || !passes_to(u, jump, function)) continue;
    if (cunwind_arguments_fit(u, arguments, start, end, at, 0, CUNWIND_NO_FRAME_POINTER)) return true;
  }
  return false;
}

// A frame that the cursor can be put to: its address, and what its registers are.
struct place {
  uint64_t ip, sp, frame_pointer;
};

static bool begin(cunwind_unwinder *u, unw_cursor_t *cursor, struct place place, uint64_t link) {
  u->registers[CUNWIND_PROGRAM_COUNTER] = place.ip;
  u->registers[CUNWIND_STACK_POINTER] = place.sp;
  u->registers[CUNWIND_FRAME_POINTER] = place.frame_pointer;
  u->registers[CUNWIND_LINK] = link;
  u->known = 1ull << CUNWIND_PROGRAM_COUNTER | 1ull << CUNWIND_STACK_POINTER;
  if (place.frame_pointer != CUNWIND_NO_FRAME_POINTER) u->known |= 1ull << CUNWIND_FRAME_POINTER;
  if (link != 0) u->known |= 1ull << CUNWIND_LINK;
  u->loads_left = CUNWIND_STEP_LOADS;
  u->wanted_frame_pointer = u->wanted_link = u->guessed = false;
  return libunwind.init_remote(cursor, u->space, u) == 0;
}

// Where the unwind table leads from a place.
static bool step_from(cunwind_unwinder *u, struct place place, uint64_t link, struct place *next) {
  unw_cursor_t cursor;
  unw_word_t next_ip = 0, next_sp = 0, next_frame_pointer = CUNWIND_NO_FRAME_POINTER;
  if (!begin(u, &cursor, place, link)) return false;
  const unw_cursor_t before = cursor;
  // 0, as at the outermost frame, is a step, too.
  if (cunwind_step(u, &cursor, &before) < 0 || u->guessed || libunwind.get_reg(&cursor, UNW_REG_IP, &next_ip) != 0 ||
      libunwind.get_reg(&cursor, UNW_REG_SP, &next_sp) != 0)
    return false;
  libunwind.get_reg(&cursor, CUNWIND_FRAME_POINTER, &next_frame_pointer);
  next->ip = cunwind_code_address(next_ip);
  next->sp = cunwind_data_address(next_sp);
  next->frame_pointer = cunwind_data_address(next_frame_pointer);
  return true;
}

// The frame pointer that belongs to the stack pointer `sp` in the function from `start` to `end`, by its code.
static bool place_of_record(cunwind_unwinder *u, uint64_t start, uint64_t end, uint64_t sp, uint64_t *frame_pointer) {
  struct cunwind_prologue prologue = cunwind_decode_prologue(u, start, end, true);
  if (!prologue.sets_frame_pointer || prologue.is_irregular) return false;
  *frame_pointer = sp + (uint64_t)(prologue.depth - prologue.record_depth);
  return true;
}

// Whether the code may have moved the stack pointer by any number of bytes, as for an array of variable length.
static bool has_area(cunwind_unwinder *u, uint64_t start, uint64_t end) {
  return cunwind_decode_prologue(u, start, end, false).is_irregular;
}

// Whether the stack pointer and the frame pointer at a place fit each other, as far as the code there says:
//
//     X29 = SP + depth - record depth + area, where area > 0 only in a function that has one
static bool is_consistent(cunwind_unwinder *u, const struct place *place) {
  uint64_t start, end, expected;
  if (!find_function(u, place->ip - 1, &start, &end)) return true;
  if (!place_of_record(u, start, place->ip, place->sp, &expected) || expected == place->frame_pointer) return true;
  return place->frame_pointer > expected && has_area(u, start, place->ip);
}

// What the search for the blocked function's caller knows and has found.
struct search {
  cunwind_unwinder *unwinder;
  // What the function that blocks was given, and where its caller's stack pointer is.
  struct cunwind_arguments arguments;
  uint64_t sp;
  struct place place;
  // The function that has the place, 0 if none was found, and whether another function has one as well.
  uint64_t caller;
  bool is_ambiguous;
  // Whether the place follows from the code alone. Only another such place makes the caller ambiguous.
  bool is_certain;
  // Whether another place fits as well, or the place is not certain.
  bool is_approximate;
};

// Notes the call in the function that begins at `start`, if that is the caller, and its return address lies at `slot`.
static bool find_call(cunwind_unwinder *u, struct search *search, uint64_t slot, uint64_t return_address,
                      uint64_t start, uint64_t end) {
  struct place place = {.sp = search->sp, .frame_pointer = slot - 8}, next;
  bool follows_from_code = place_of_record(u, start, end, search->sp, &place.frame_pointer);
  // The record's second word is the return address.
  if (follows_from_code && place.frame_pointer + 8 != slot) {
    if (search->is_certain || place.frame_pointer + 8 > slot || !has_area(u, start, end)) return false;
    place.frame_pointer = slot - 8;
    follows_from_code = false;
  }
  bool has_record = follows_from_code || cunwind_decode_prologue(u, start, end, true).sets_frame_pointer;
  if (!has_record) place.frame_pointer = CUNWIND_NO_FRAME_POINTER;
  unsigned found = 0;
  struct place first = place;
  for (uint64_t at = start; at < end && found < 2; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) break;
    uint64_t target = cunwind_call_target(code, at);
    if (target == 0 || !cunwind_arguments_fit(u, &search->arguments, start, end, at, search->sp, place.frame_pointer) ||
        !leads_to(u, target, &search->arguments))
      continue;
    // Inside of the call, as a function that does not return may end with it.
    place.ip = at + 3;
    if (!step_from(u, place, 0, &next) || next.ip != return_address || next.sp < slot + 8) continue;
    // A function without a frame record may leave its caller's frame pointer in the register.
    if (next.frame_pointer != CUNWIND_NO_FRAME_POINTER && !is_consistent(u, &next)) continue;
    if (found++ == 0) first = place;
  }
  if (found == 0) return false;
  const bool is_certain = !has_record || follows_from_code;
  if (search->caller != 0 && (search->is_certain || !is_certain)) {
    // What an earlier call has left on the stack can fit, too.
    search->is_ambiguous = search->is_certain && is_certain && search->caller != start;
    return true;
  }
  search->is_approximate = found > 1 || !is_certain || search->caller != 0;
  search->caller = start;
  search->place = first;
  search->is_certain = is_certain;
  return true;
}

// Takes the place of `call` if it could be the call that has led to the blocked function, in a function that was called
// through a pointer: by its table or its code the return address lies where one is. False once two functions fit.
static bool is_possible_call(void *argument, uint64_t call) {
  struct search *search = argument;
  cunwind_unwinder *u = search->unwinder;
  uint64_t start, end, target;
  struct place place = {call + 3, search->sp, CUNWIND_NO_FRAME_POINTER}, next;
  bool has_table = find_function(u, call, &start, &end);
  if (!has_table) start = cunwind_nearest_start(u, call), end = call + CUNWIND_REST_OF_FUNCTION;
  if (start == 0) return true;
  bool has_record = place_of_record(u, start, call, search->sp, &place.frame_pointer);
  if (has_table) {
    if (!step_from(u, place, 0, &next) || next.sp < search->sp || !is_consistent(u, &next)) return true;
  } else if (!has_record || !cunwind_read_word(u, place.frame_pointer + 8, &next.ip)) {
    return true;
  }
  if (cunwind_match_call(u, cunwind_code_address(next.ip), &target) == NO_MATCH) return true;
  const struct cunwind_arguments unknown = {.function = start};
  if (target != 0 && !leads_to(u, target, &unknown)) return true;
  if (!cunwind_arguments_fit(u, &search->arguments, start, end, call, search->sp, place.frame_pointer)) return true;
  if (search->caller != 0 && search->caller != start) search->is_ambiguous = true;
  if (search->caller == 0) search->place = place, search->caller = start;
  return !search->is_ambiguous;
}

// Continues at the place that was found.
static void walk_from(cunwind_unwinder *u, struct cunwind_walk *w, const struct search *search) {
  if (!begin(u, &w->cursor, search->place, 0)) return;
  w->ip = search->place.ip + 1;
  w->sp = search->sp;
  w->result.approximate |= search->is_approximate;
  cunwind_add_frame(u, w, w->ip, w->sp, true);
  if (cunwind_walk(u, w)) cunwind_arch_walk_with_frame_pointer(u, w);
}

// Continues from a function that keeps its return address only in X30.
static void walk_to_caller(cunwind_unwinder *u, struct cunwind_walk *w) {
  struct search search;
  struct place innermost = {w->ip, w->sp, CUNWIND_NO_FRAME_POINTER}, next;
  uint64_t function, end;
  memset(&search, 0, sizeof search);
  search.unwinder = u;
  if (!find_function(u, w->ip, &function, &end)) return;
  // With any link the table says where the caller's stack pointer is.
  if (!step_from(u, innermost, function, &next) || next.ip != function) return;
  search.sp = next.sp;
  cunwind_entry_arguments(u, function, w->ip, &search.arguments);
  const uint64_t deadline = cunwind_now_ns() + TIME_MAX_NS;
  for (uint64_t i = 0; i < SCAN_LIMIT; i++) {
    uint64_t slot = search.sp + 8 * i, word, target, start;
    if (!cunwind_in_copy(u->snapshot, slot, 8) || !cunwind_read_word(u, slot, &word)) break;
    if (cunwind_now_ns() > deadline) {
      if (search.caller == 0) return;
      search.is_approximate = true;
      break;
    }
    word = cunwind_code_address(word);
    if (cunwind_match_call(u, word, &target) != FOLLOWS_A_CALL || target == 0) continue;
    target = cunwind_resolve_target(u, target);
    // The frame is that of the function that was called, or of one that this has jumped to.
    for (unsigned passed = 0; passed <= PASSING_MAX && target != 0; passed++, target = passes_on(u, target)) {
      if (!find_function(u, target, &start, &end) || start != target) break;
      if (find_call(u, &search, slot, word, start, end)) break;
    }
    if (search.is_ambiguous) return;
  }
  if (search.caller != 0) return walk_from(u, w, &search);
  // Its caller was called through a pointer, and no call names it. It is probably the only one of all that call the function
  // for which the stack is as its table says, if that leads to the outermost frame: others may call it through a pointer.
  search.is_approximate = true;
  if (!cunwind_each_call(u, &search.arguments, is_possible_call, &search) || search.caller == 0 || search.is_ambiguous) return;
  const struct cunwind_walk stopped = *w;
  walk_from(u, w, &search);
  if (w->result.end == CUNWIND_END_LOST) *w = stopped;
}

// Whether a frame record of the function that begins at `function` could lie at `candidate`.
static enum cunwind_match match_record(cunwind_unwinder *u, uint64_t candidate, uint64_t function) {
  uint64_t return_address, target;
  if (!cunwind_read_word(u, candidate + 8, &return_address)) return NO_MATCH;
  enum cunwind_match match = cunwind_match_call(u, cunwind_code_address(return_address), &target);
  bool is_same = match == FOLLOWS_A_CALL && target != 0 && cunwind_resolve_target(u, target) == function;
  return is_same ? CALLED_THIS_FUNCTION : match;
}

static bool links_upwards(cunwind_unwinder *u, uint64_t candidate) {
  uint64_t saved;
  if (!cunwind_read_word(u, candidate, &saved)) return false;
  saved = cunwind_data_address(saved);
  return saved > candidate && saved - u->snapshot->stack_address < u->snapshot->stack_length + (1u << 20);
}

// Continues from a frame that needs the frame pointer: where the prologue has put it, or else where
// a frame record is.
static void walk_with_record(cunwind_unwinder *u, struct cunwind_walk *w) {
  const struct cunwind_walk stopped = *w;
  uint64_t registers[CUNWIND_REGISTERS], start, end, lookup = cunwind_lookup_address(w);
  const uint64_t known = u->known;
  if (!find_function(u, lookup, &start, &end)) return;
  struct cunwind_prologue prologue = cunwind_decode_prologue(u, start, lookup, true);
  bool has_place = prologue.sets_frame_pointer && !prologue.is_irregular;
  // With an array of variable length the record lies anywhere above that.
  bool is_certain = has_place && !has_area(u, start, lookup);
  uint64_t begins = w->sp + (has_place ? (uint64_t)(prologue.depth - prologue.record_depth) : 0), first = 0;
  memcpy(registers, u->registers, sizeof registers);
  unsigned tried = 0;
  for (unsigned stage = 0; stage < 4; stage++) {
    // At its place; above it, by a call to this very function; by any call. In the end the first has to do.
    for (uint64_t i = 0; i < (stage == 0 || stage == 3 ? 1 : SCAN_LIMIT) && (stage == 3 || tried < CANDIDATES); i++) {
      uint64_t candidate = stage == 3 ? first : begins + 8 * i;
      if (candidate == 0 || (stage == 0 && !is_certain) || !cunwind_in_copy(u->snapshot, candidate, 16)) break;
      enum cunwind_match match = match_record(u, candidate, start);
      if (match == NO_MATCH || (stage == 1 && match != CALLED_THIS_FUNCTION)) continue;
      if (stage == 2 && !links_upwards(u, candidate)) continue;
      if (first == 0) first = candidate;
      tried++;
      *w = stopped;
      memcpy(u->registers, registers, sizeof registers);
      u->known = known;
      w->result.approximate |= candidate != begins || !is_certain;
      if (!cunwind_begin_at(u, w, lookup, w->sp)) return;
      u->registers[CUNWIND_FRAME_POINTER] = candidate;
      u->known |= 1ull << CUNWIND_FRAME_POINTER;
      if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return;
      cunwind_walk(u, w);
      // A zero where a guess has led to is a likely end only if nothing better is found.
      bool is_end = w->result.end != CUNWIND_END_LOST && !(w->ended_at_zero && w->result.approximate);
      if (stage == 3 || is_end) return;
    }
  }
}

void cunwind_arch_walk_with_frame_pointer(cunwind_unwinder *u, struct cunwind_walk *w) {
  if (u->wanted_frame_pointer)
    walk_with_record(u, w);
  else if (w->result.count == 1)
    walk_to_caller(u, w);
}

#endif
