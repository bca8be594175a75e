// The frame pointer of a blocked thread: procfs does not give it, so it is found on the stack.
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"
#include "code.h"

// Words of the stack that are searched for a frame pointer: 64 KiB.
#define SCAN_LIMIT 8192u
// How much of a function's code is searched, in bytes.
#define FUNCTION_LIMIT 65536u

enum cunwind_match cunwind_match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target) {
  struct cunwind_mapping mapping;
  unsigned char code[8];
  int32_t displacement = 0;
  *target = 0;
  if (!cunwind_find_mapping(u->process, return_address, &mapping)) return NO_MATCH;
  if (!cunwind_read_cached(u, return_address - 8, code, sizeof code)) return NO_MATCH;
  switch (cunwind_call_before(code, &displacement)) {
    case 2:
      *target = return_address + (uint64_t)(int64_t)displacement;
      return FOLLOWS_A_CALL;
    case 1:
      return FOLLOWS_A_CALL;
    default:
      // The kernel calls a signal's handler.
      return cunwind_arch_is_signal_return(u, return_address) ? CALLED_THIS_FUNCTION : NO_MATCH;
  }
}

uint64_t cunwind_resolve_target(cunwind_unwinder *u, uint64_t target) {
  unsigned char code[16];
  if (!cunwind_read_cached(u, target, code, sizeof code) || !cunwind_is_jump_stub(code)) return target;
  size_t length = cunwind_jump_stub_length(code);
  int32_t displacement;
  memcpy(&displacement, code + length - sizeof displacement, sizeof displacement);
  uint64_t function;
  return cunwind_read_cached(u, target + length + (uint64_t)(int64_t)displacement, &function, sizeof function) ? function
                                                                                                        : target;
}

// Where the code of a function lies, or of a part of it that a compiler has moved away.
struct function {
  uint64_t start, end;
};

static bool read_function(cunwind_unwinder *u, uint64_t address, struct function *function) {
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  u->loads_left = CUNWIND_STEP_LOADS;
  if (cunwind_find_proc_info(u->space, address, &procedure, 0, u) < 0) return false;
  uint64_t length = procedure.end_ip - procedure.start_ip;
  *function = (struct function){procedure.start_ip, procedure.start_ip + (length < FUNCTION_LIMIT ? length : FUNCTION_LIMIT)};
  return true;
}

// Whether any `length` bytes of the function's code, wherever they begin, are what is looked for.
static bool any_code(cunwind_unwinder *u, const struct function *function, size_t length,
                     bool (*is_it)(cunwind_unwinder *u, const unsigned char *code, uint64_t address, const void *argument),
                     const void *argument) {
  unsigned char code[1024];
  for (uint64_t at = function->start; at < function->end; at += sizeof code - length + 1) {
    size_t wanted = function->end - at < sizeof code ? (size_t)(function->end - at) : sizeof code;
    size_t read = cunwind_read(u->process, at, code, wanted);
    for (size_t i = 0; i + length <= read; i++)
      if (is_it(u, code + i, at + i, argument)) return true;
    if (read < sizeof code) break;
  }
  return false;
}

static bool is_within(uint64_t address, const struct function *function) {
  return address >= function->start && address < function->end;
}

// jmp and jcc with a distance of 32 bits, as to another function.
static bool jumps_into(cunwind_unwinder *u, const unsigned char *code, uint64_t address, const void *function) {
  size_t length = code[0] == 0xe9 ? 5 : code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 6 : 0;
  if (length == 0) return false;
  int32_t distance;
  memcpy(&distance, code + length - sizeof distance, sizeof distance);
  return is_within(cunwind_resolve_target(u, address + length + (uint64_t)(int64_t)distance), function);
}

// If `candidate` is the frame pointer of `function`, the word above it is its return address: what the call in front of that
// says. A function that is called and jumps to this one has called it.
enum frame_match { NOT_READ, NO_FRAME, CALLS_ANOTHER, CALLS_THROUGH_A_POINTER, CALLS_THIS };

static enum frame_match match_frame(cunwind_unwinder *u, uint64_t candidate, const struct function *function) {
  uint64_t return_address, target;
  if (!cunwind_read_word(u, candidate + 8, &return_address)) return NO_FRAME;
  enum cunwind_match match = cunwind_match_call(u, return_address, &target);
  if (match != FOLLOWS_A_CALL) return match == NO_MATCH ? NO_FRAME : CALLS_THIS;
  if (target == 0) return CALLS_THROUGH_A_POINTER;
  target = cunwind_resolve_target(u, target);
  if (is_within(target, function)) return CALLS_THIS;
  struct function called;
  return read_function(u, target, &called) && any_code(u, &called, 6, jumps_into, function) ? CALLS_THIS : CALLS_ANOTHER;
}

// Whether the word at `candidate` is the frame pointer of a frame further out: a return address is above what it leads to. A
// function without a frame pointer may keep any address of the stack in RBP.
static bool links_to_a_frame(cunwind_unwinder *u, uint64_t candidate) {
  uint64_t saved, return_address, target;
  return cunwind_read_word(u, candidate, &saved) && saved > candidate &&
         saved - u->snapshot->stack_address < u->snapshot->stack_length + (1u << 20) &&
         cunwind_read_word(u, saved + 8, &return_address) && cunwind_match_call(u, return_address, &target) != NO_MATCH;
}

// The frames that are chosen: their frame pointers, where their functions keep any; and where return addresses lie that do
// not follow a call of the function that ran. It was jumped to by the one that was called, or its frame is that of a call
// that is over.
struct chosen {
  uint64_t frame_pointers[128], doubts[16];
  unsigned frame_count, doubt_count;
};

// Passes each direct call of the frames from `from` on to `body` until that returns true, and returns whether it did.
static bool any_direct_call(cunwind_unwinder *u, const struct cunwind_walk *w, size_t from, struct chosen *chosen,
                            bool (*body)(struct chosen *chosen, uint64_t place, bool is_right)) {
  for (size_t i = from; i + 1 < w->result.count; i++) {
    const cunwind_frame *frame = &w->frames[i], *caller = frame + 1;
    uint64_t target;
    if (!caller->is_return_address || cunwind_match_call(u, caller->address, &target) != FOLLOWS_A_CALL) continue;
    if (target == 0) continue;
    uint64_t start = cunwind_function_of(u, frame->address - frame->is_return_address);
    if (body(chosen, caller->stack_pointer - 8, cunwind_resolve_target(u, target) == start)) return true;
  }
  return false;
}

static bool note_doubt(struct chosen *chosen, uint64_t place, bool is_right) {
  if (!is_right) chosen->doubts[chosen->doubt_count++] = place;
  return chosen->doubt_count == sizeof chosen->doubts / sizeof *chosen->doubts;
}

static bool settles_doubt(struct chosen *chosen, uint64_t place, bool is_right) {
  for (unsigned i = 0; is_right && i < chosen->doubt_count; i++)
    if (chosen->doubts[i] == place) return true;
  return false;
}

static void choose(cunwind_unwinder *u, const struct cunwind_walk *w, size_t from, struct chosen *chosen) {
  chosen->frame_count = chosen->doubt_count = 0;
  for (size_t i = from + 1; i < w->result.count && chosen->frame_count < 128; i++)
    chosen->frame_pointers[chosen->frame_count++] = w->frames[i].stack_pointer - 16;
  any_direct_call(u, w, from, chosen, note_doubt);
}

static bool is_chosen(const struct chosen *chosen, uint64_t candidate) {
  for (unsigned i = 0; i < chosen->frame_count; i++)
    if (chosen->frame_pointers[i] == candidate) return true;
  return false;
}

static bool sets_stack_pointer(cunwind_unwinder *u, const unsigned char *code, uint64_t address, const void *unused) {
  (void)u, (void)address, (void)unused;
  return cunwind_sets_stack_pointer(code);
}

// The values that RBP may have in a frame which needs it, and which nobody further in has saved: the likeliest first.
struct search {
  struct function function;
  // Where the function's prologue put it: RSP plus what the prologue pushed and reserved. `begins` is only where the search
  // begins if there is no such place, as in a function that changes RSP by what is known only when it runs.
  uint64_t begins;
  bool has_place;
  // What lies above that place is a tracer's, so nothing leads further.
  bool is_probed;
  enum { AT_ITS_PLACE, CALLED_DIRECTLY, CALLED_BY_ONE_WITH_A_LINK, CALLED_THROUGH_A_POINTER, CALLED_SOMEHOW, EXHAUSTED } stage;
  uint64_t next;
  // What each word from `begins` on is (enum frame_match), for the later stages.
  unsigned char matches[SCAN_LIMIT];
};

static bool begin_search(cunwind_unwinder *u, uint64_t lookup, uint64_t sp, struct search *search) {
  unsigned char code[48];
  struct function function;
  if (!read_function(u, lookup, &function) || !cunwind_read_cached(u, function.start, code, sizeof code)) return false;
  // A tracer's breakpoint, in place of `endbr64` or `push %rbp`.
  if (code[0] == 0xcc) code[0] = code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa ? 0xf3 : 0x55;
  int64_t depth = cunwind_prologue_depth(code, sizeof code);
  *search = (struct search){.function = function, .begins = sp + (depth > 0 ? (uint64_t)depth : 0)};
  search->has_place = depth >= 0 && !any_code(u, &function, 3, sets_stack_pointer, NULL);
  uint64_t above;
  search->is_probed =
      search->has_place && cunwind_read_word(u, search->begins + 8, &above) && cunwind_is_return_probe(u, above);
  return true;
}

static bool fits_stage(cunwind_unwinder *u, struct search *search, uint64_t word) {
  uint64_t candidate = search->begins + 8 * word;
  if (search->matches[word] == NOT_READ) search->matches[word] = (unsigned char)match_frame(u, candidate, &search->function);
  switch (search->matches[word]) {
    case CALLS_THIS: return search->stage == CALLED_DIRECTLY;
    // A caller whose RBP looks like a frame pointer first; but it may keep anything there.
    case CALLS_THROUGH_A_POINTER:
      return search->stage == (links_to_a_frame(u, candidate) ? CALLED_BY_ONE_WITH_A_LINK : CALLED_THROUGH_A_POINTER);
    case CALLS_ANOTHER: return search->stage == CALLED_SOMEHOW;
    default: return false;
  }
}

// Leaves `search->stage` at the stage that has found the candidate.
static bool next_candidate(cunwind_unwinder *u, struct search *search, uint64_t *candidate) {
  if (search->stage == AT_ITS_PLACE) {
    *candidate = search->begins;
    bool is_first = search->has_place && search->next++ == 0;
    if (is_first && (search->is_probed || match_frame(u, *candidate, &search->function) != NO_FRAME)) return true;
    search->stage = CALLED_DIRECTLY, search->next = 0;
  }
  for (; search->stage < EXHAUSTED; search->stage++, search->next = 0) {
    while (search->next < SCAN_LIMIT) {
      uint64_t word = search->next++;
      *candidate = search->begins + 8 * word;
      if (!cunwind_in_copy(u->snapshot, *candidate, 16)) break;
      if (fits_stage(u, search, word)) return true;
    }
  }
  return false;
}

// Frame pointers that are tried: an area on the stack may hold the frames of many calls that are over.
#define CANDIDATES 64u
// Of these, after one that leads to the outermost frame, and besides those of its frames.
#define RIVALS 16u

// The frame that needs a frame pointer, and what its cursor knew.
struct unknown_frame {
  struct cunwind_walk walk;
  uint64_t registers[CUNWIND_REGISTERS], known, lookup;
};

static bool walk_from(cunwind_unwinder *u, struct cunwind_walk *w, const struct unknown_frame *frame, uint64_t candidate,
                      bool approximate) {
  *w = frame->walk;
  memcpy(u->registers, frame->registers, sizeof u->registers);
  u->known = frame->known;
  w->result.approximate |= approximate;
  if (!cunwind_begin_at(u, w, frame->lookup, w->sp)) return false;
  u->registers[CUNWIND_FRAME_POINTER] = candidate;
  u->known |= 1ull << CUNWIND_FRAME_POINTER;
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  cunwind_walk(u, w);
  return true;
}

// What a frame pointer leads to, the worst first. A way is unlikely that ends at a zero, or leads through code of no module.
enum outcome { NOTHING, NOWHERE_BUT_CERTAIN, UNLIKELY, OUTERMOST_FRAME };

static enum outcome outcome_of(cunwind_unwinder *u, const struct cunwind_walk *w, size_t from, bool is_certain) {
  struct cunwind_mapping mapping;
  if (w->result.end == CUNWIND_END_LOST) return is_certain ? NOWHERE_BUT_CERTAIN : NOTHING;
  for (size_t i = from + 1; i < w->result.count; i++)
    if (!cunwind_find_mapping(u->process, w->frames[i].address, &mapping)) return UNLIKELY;
  return w->ended_at_zero ? UNLIKELY : OUTERMOST_FRAME;
}

void cunwind_arch_walk_with_frame_pointer(cunwind_unwinder *u, struct cunwind_walk *w) {
  struct search search;
  struct unknown_frame frame = {.walk = *w, .known = u->known, .lookup = cunwind_lookup_address(w)};
  const size_t from = w->result.count - 1;
  memcpy(frame.registers, u->registers, sizeof frame.registers);
  if (!begin_search(u, frame.lookup, w->sp, &search)) return;
  enum outcome best = NOTHING;
  uint64_t candidate, value = 0;
  bool is_approximate = false;
  struct chosen chosen = {.frame_count = 0, .doubt_count = 0};
  // The first that leads to the outermost frame is chosen, until another one shows that its frames are old: by a place on
  // the stack where both have a return address, and where only the other has the function that was called.
  unsigned rivals = 0;
  for (unsigned tried = 0; tried < CANDIDATES && rivals < RIVALS && next_candidate(u, &search, &candidate); tried++) {
    if (best == OUTERMOST_FRAME && is_chosen(&chosen, candidate)) continue;
    bool at_its_place = search.stage == AT_ITS_PLACE;
    if (!walk_from(u, w, &frame, candidate, !at_its_place)) break;
    if (search.is_probed) return;
    enum outcome outcome = outcome_of(u, w, from, search.stage <= CALLED_DIRECTLY);
    if (best == OUTERMOST_FRAME) rivals++;
    bool is_better = outcome > best || (outcome == OUTERMOST_FRAME && best == OUTERMOST_FRAME &&
                                        any_direct_call(u, w, from, &chosen, settles_doubt));
    if (!is_better) continue;
    best = outcome, value = candidate, is_approximate = !at_its_place;
    choose(u, w, from, &chosen);
    if (best == OUTERMOST_FRAME && (at_its_place || chosen.doubt_count == 0)) return;
  }
  if (best == NOTHING || !walk_from(u, w, &frame, value, is_approximate)) *w = frame.walk;
}

#endif
