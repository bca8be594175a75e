// The frame pointer of a blocked thread: procfs does not give it, so it is found on the stack.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "../unwinder.h"
#include "code.h"

// Frames between a recovered frame and the stack pointer that a scan reads: 64 KiB.
#define SCAN_LIMIT 8192u

enum cunwind_match cunwind_match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target) {
  struct cunwind_mapping mapping;
  unsigned char code[8];
  int32_t displacement = 0;
  *target = 0;
  if (!cunwind_find_mapping(return_address, &mapping)) return NO_MATCH;
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

// Whether a frame pointer could be `candidate` in the function that begins at `function`.
static enum cunwind_match match_frame(cunwind_unwinder *u, uint64_t candidate, uint64_t function) {
  uint64_t return_address, target;
  if (!cunwind_read_word(u, candidate + 8, &return_address)) return NO_MATCH;
  enum cunwind_match match = cunwind_match_call(u, return_address, &target);
  return match == FOLLOWS_A_CALL && target == function ? CALLED_THIS_FUNCTION : match;
}

static bool links_upwards(cunwind_unwinder *u, uint64_t candidate) {
  uint64_t saved;
  return cunwind_read_word(u, candidate, &saved) && saved > candidate &&
         saved - u->snapshot->stack_address < u->snapshot->stack_length + (1u << 20);
}

// The values that RBP may have in a frame which needs it, and which nobody further in has saved: the likeliest first.
struct search {
  uint64_t function;
  // Where the function's prologue put it: RSP plus what the prologue pushed and reserved. `begins` only where to look
  // if there is no such place.
  uint64_t begins;
  bool has_place;
  enum { AT_ITS_PLACE, CALLED_DIRECTLY, CALLED_SOMEHOW, EXHAUSTED } stage;
  uint64_t next;
};

static bool begin_search(cunwind_unwinder *u, uint64_t lookup, uint64_t sp, struct search *search) {
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  unsigned char code[48];
  u->loads_left = CUNWIND_STEP_LOADS;
  if (cunwind_find_proc_info(u->space, lookup, &procedure, 0, u) < 0) return false;
  if (!cunwind_read_cached(u, procedure.start_ip, code, sizeof code)) return false;
  int64_t depth = cunwind_prologue_depth(code, sizeof code);
  *search = (struct search){procedure.start_ip, sp + (depth > 0 ? (uint64_t)depth : 0), depth >= 0, AT_ITS_PLACE, 0};
  return true;
}

static bool next_candidate(cunwind_unwinder *u, struct search *search, uint64_t *candidate) {
  if (search->stage == AT_ITS_PLACE) {
    search->stage = CALLED_DIRECTLY;
    *candidate = search->begins;
    if (search->has_place && match_frame(u, *candidate, search->function) != NO_MATCH) return true;
  }
  // An alloca or an argument area: look upwards, first for a call to this very function. Its caller may keep anything
  // in RBP; where the call says less, that must look like a frame pointer.
  for (; search->stage < EXHAUSTED; search->stage++, search->next = 0) {
    enum cunwind_match wanted = search->stage == CALLED_DIRECTLY ? CALLED_THIS_FUNCTION : FOLLOWS_A_CALL;
    while (search->next < SCAN_LIMIT) {
      *candidate = search->begins + 8 * search->next++;
      if (!cunwind_in_copy(u->snapshot, *candidate, 16)) break;
      if (wanted == FOLLOWS_A_CALL && !links_upwards(u, *candidate)) continue;
      if (match_frame(u, *candidate, search->function) >= wanted) return true;
    }
  }
  return false;
}

// Frame pointers that are tried before the first one has to do.
#define CANDIDATES 16u

void cunwind_arch_walk_with_frame_pointer(cunwind_unwinder *u, struct cunwind_walk *w) {
  struct search search;
  const struct cunwind_walk stopped = *w;
  uint64_t lookup = cunwind_lookup_address(w), first = 0, candidate = 0;
  if (!begin_search(u, lookup, w->sp, &search)) return;
  bool first_is_approximate = false;
  // The stopped cursor knows where registers are, and some are here.
  uint64_t registers[CUNWIND_REGISTERS];
  memcpy(registers, u->registers, sizeof registers);
  const uint64_t known = u->known;
  for (unsigned tried = 0; tried <= CANDIDATES; tried++) {
    // In the end the first has to do, whatever it leads to.
    bool is_last = tried == CANDIDATES || !next_candidate(u, &search, &candidate);
    if (is_last && tried == 0) return;
    bool approximate = is_last ? first_is_approximate : candidate != search.begins || !search.has_place;
    if (is_last) candidate = first;
    if (tried == 0) first = candidate, first_is_approximate = approximate;
    *w = stopped;
    memcpy(u->registers, registers, sizeof registers);
    u->known = known;
    w->result.approximate |= approximate;
    if (!cunwind_begin_at(u, w, lookup, w->sp)) return;
    u->registers[CUNWIND_FRAME_POINTER] = candidate;
    u->known |= 1ull << CUNWIND_FRAME_POINTER;
    if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return;
    cunwind_walk(u, w);
    if (is_last || w->result.end != CUNWIND_END_LOST) return;
  }
}

#endif
