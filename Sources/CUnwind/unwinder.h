// The unwinder's state, what its files share, and what each architecture adds.
#pragma once

#include <string.h>

#include "architecture.h"
#include "cunwind_unwind.h"
#include "libunwind_table.h"
#include "process_internal.h"

#define CUNWIND_CACHE_PAGE 4096u
#define CUNWIND_CACHED_PAGES 64u
// The most words that the instructions in front of an address can have popped.
#define CUNWIND_POPS_MAX 6
// Words that one step may read: a few hundred, unless the tables hold an expression that goes round for ever.
#define CUNWIND_STEP_LOADS 65536u
// What zeros are read as while `replaces_zeros`: no address of code or of a stack.
#define CUNWIND_ZERO 8u

// Unwind tables, code and stack outside the copy are read through the kernel, a page at a time: a table that another
// thread unmaps is a missing frame and not a crash. Pages are kept for one unwinding only, as the stack in them goes
// stale; what was learnt from the tables stays in libunwind's own cache.
struct cunwind_unwinder {
  unw_addr_space_t space;
  cunwind_process *process;
  const cunwind_snapshot *snapshot;
  // The registers of the frame that the cursor starts from.
  uint64_t registers[CUNWIND_REGISTERS];
  uint64_t known;
  // Registers that the last step has asked for, and that nobody knows.
  bool wanted_frame_pointer, wanted_link;
  bool guessed;
  // Whether zeros on the stack, in the frame pointer and in the link are read as CUNWIND_ZERO.
  bool replaces_zeros;
  bool read_live;
  // What the innermost function has just popped lay at `popped_end` - 8, - 16 and so on.
  uint64_t popped_end, popped[CUNWIND_POPS_MAX];
  size_t popped_count;
  uint32_t loads_left;
  // The module that memory outside the copy was last read from.
  uint64_t table_start, table_end;
  uint64_t page_address[CUNWIND_CACHED_PAGES];
  unsigned char page[CUNWIND_CACHED_PAGES][CUNWIND_CACHE_PAGE];
};

struct cunwind_walk {
  unw_cursor_t cursor;
  cunwind_frame *frames;
  size_t capacity;
  cunwind_backtrace result;
  // The cursor's frame, and where its stack was entered.
  uint64_t ip, sp, entered;
  // Whether the outermost frame is one that has 0 for its return address, and not one that has none.
  bool ended_at_zero;
};

// A return address is looked up at its call.
static inline uint64_t cunwind_lookup_address(const struct cunwind_walk *w) {
  return w->frames[w->result.count - 1].is_return_address ? w->ip - 1 : w->ip;
}

static inline bool cunwind_in_copy(const cunwind_snapshot *s, uint64_t address, size_t length) {
  return address >= s->stack_address && length <= s->stack_length &&
         address - s->stack_address <= s->stack_length - length;
}

#pragma GCC visibility push(hidden)

// Reads memory outside the copy, through the pages that are kept.
bool cunwind_read_cached(cunwind_unwinder *u, uint64_t address, void *to, size_t length);
// Where the function of a code address begins, as `cunwind_function_start`, through the pages that are kept: for use with each frame.
uint64_t cunwind_function_of(cunwind_unwinder *u, uint64_t address);
// Reads a word of the copy, or of memory outside of it.
bool cunwind_read_word(cunwind_unwinder *u, uint64_t address, uint64_t *value);
// libunwind's accessor for a function's unwind information. `argument` is the unwinder. Negative if there is none.
int cunwind_find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need_unwind_info,
                           void *argument);
// Finds out how this libunwind lays out a table's place, by looking up a function of its own.
// NULL if that is known, or why no stack can be captured.
const char *cunwind_learn_table_layout(void);
bool cunwind_has_unwind_information(cunwind_unwinder *u, uint64_t address);
// Whether a return address is that which the kernel has put in place of the function's own, for a tracer that waits for its
// return (uretprobes): the start of a page that nobody can read. What follows the call is not known.
bool cunwind_is_return_probe(cunwind_unwinder *u, uint64_t address);
// Adds the cursor's frame.
void cunwind_add_frame(cunwind_unwinder *u, struct cunwind_walk *w, uint64_t ip, uint64_t sp, bool is_return_address);
// Restarts the cursor at `ip` and `sp`. What inner frames have saved of the preserved registers stays known.
bool cunwind_begin_at(cunwind_unwinder *u, struct cunwind_walk *w, uint64_t ip, uint64_t sp);
// Unwinds until the end, or until a frame needs a frame pointer or a link that nobody knows: then true, with the cursor at that
// frame.
bool cunwind_walk(cunwind_unwinder *u, struct cunwind_walk *w);
// Steps to the caller. Negative if it cannot be found, 0 if the unwind table says that there is
// none. A return address of 0 gives 1, and 0 or CUNWIND_ZERO for the program counter.
int cunwind_step(cunwind_unwinder *u, unw_cursor_t *cursor, const unw_cursor_t *before);
// Whether the cursor is where the kernel's frame of a signal lies at the stack pointer: before the
// call, at it, or in it.
bool cunwind_is_at_signal_return(cunwind_unwinder *u, const struct cunwind_walk *w);
// Continues from a signal's handler with the registers of the code that it has interrupted.
bool cunwind_step_over_signal(cunwind_unwinder *u, struct cunwind_walk *w);

// -- What each architecture implements for unwinding

// Does what the innermost frame needs at the beginning or at the end of its function, where the tables may be wrong.
void cunwind_arch_begin(cunwind_unwinder *u, struct cunwind_walk *w);
// Whether a signal's handler returns to `address`.
bool cunwind_arch_is_signal_return(cunwind_unwinder *u, uint64_t address);
// Reads the registers of what a signal has interrupted from the kernel's frame at `sp`.
bool cunwind_arch_read_interrupted(cunwind_unwinder *u, uint64_t sp, uint64_t registers[CUNWIND_REGISTERS]);
// Steps over a function that has no unwind information, or over code of no module.
bool cunwind_arch_step_over_gap(cunwind_unwinder *u, struct cunwind_walk *w);
// Continues from a frame that needs an unknown register, with a value that leads to the outermost
// frame, if one is found.
void cunwind_arch_walk_with_frame_pointer(cunwind_unwinder *u, struct cunwind_walk *w);
// Finds out by which functions the process's C library makes cancellable system calls; `pause` is where pause(2) begins in it.
void cunwind_arch_learn_cancellable(cunwind_process *process, uint64_t pause);
// How many of the innermost frames are those functions, which have no names. On aarch64, the last of them may become
// the frame of the function that has jumped to them, which is not counted.
size_t cunwind_arch_count_cancellable(cunwind_unwinder *u, cunwind_frame *frames, size_t count);
// Whether `ip` lies in a procedure linkage table: on its way from a call to the function that is called.
bool cunwind_arch_is_in_linkage_table(cunwind_unwinder *u, uint64_t ip);

#pragma GCC visibility pop
