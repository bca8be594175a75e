// What the readers of debug information share.
#pragma once

#include <setjmp.h>

#include "internal.h"

enum {
  CSYMBOLS_MAX_DEPTH = 256,
  // Steps between two readings of the clock (25 ns each).
  CSYMBOLS_STEPS = 64,
};

// libdw's answer to a failed allocation is to end the process. It asks a handler first, which must not return; this is
// where it goes instead. Thread-local: modules may be used on several threads.
extern _Thread_local jmp_buf *csymbols_out_of_memory;

static inline bool csymbols_is_past(uint64_t deadline) {
  return csymbols_now() >= deadline;
}

// Opens the debug information of the image that has it. Tried once: `info.dwarf` is NULL if there is none to use.
void csymbols_dwarf_open(csymbols_module *module);

// Reads unit headers until all are known. False if the deadline passed first.
bool csymbols_map_units(struct debug_info *info, uint64_t deadline);
// The unit with code at the address, or NULL.
struct unit *csymbols_find_unit(struct debug_info *info, uint64_t address);
// Reads the unit's functions. False if the deadline passed first.
bool csymbols_index_unit(struct debug_info *info, struct unit *unit, uint64_t deadline);
// The function with code at the address, or NULL.
const struct function *csymbols_find_function(const struct unit *unit, uint64_t address);
