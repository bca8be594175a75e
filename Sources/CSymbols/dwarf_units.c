// The map from addresses to units, and the table of a unit's functions.
//
// Swift emits no .debug_aranges, so the map is built here (DW_AT_ranges of each unit), then one
// table of functions for each unit that is asked for. When a deadline passes, both are kept
// incomplete and are continued later.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

#include "dwarf_internal.h"

enum {
  MAX_UNITS = 1 << 20,
  MAX_RANGES_OF_DIE = 1 << 14,
  MAX_RANGES = 1 << 22,
  MAX_FUNCTIONS_OF_UNIT = 1 << 21,
  // How far back an overlapping range is looked for.
  MAX_ENCLOSING = 8,
  // What is read of a unit before it is known to be wanted: its header and first DIE.
  UNIT_BEGIN = 4096,
};

// Makes space for one more element. False if there is no memory or `limit` is reached.
static bool grow(void **elements, size_t *capacity, size_t count, size_t size, size_t limit) {
  if (count < *capacity) return true;
  size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
  if (count >= limit) return false;
  void *grown = realloc(*elements, wanted * size);
  if (grown == NULL) return false;
  *elements = grown;
  *capacity = wanted;
  return true;
}

// Reads a part of .debug_info.
static void need_units(struct debug_info *info, uint64_t offset, uint64_t length) {
  if (offset >= info->units_length) return;
  if (length > info->units_length - offset) length = info->units_length - offset;
  csymbols_image_need(info->image, info->units_begin + offset, length);
}

static int by_low(const void *left, const void *right) {
  uint64_t a = ((const struct unit_range *)left)->low, b = ((const struct unit_range *)right)->low;
  return (a > b) - (a < b);
}

static void add_unit(struct debug_info *info, Dwarf_Die *die, uint64_t begin, uint64_t offset, uint64_t end) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  if (!grow((void **)&info->units, &info->unit_capacity, info->unit_count, sizeof *info->units, MAX_UNITS)) return;
  Dwarf_Addr base = 0, low = 0, high = 0;
  ptrdiff_t next = 0;
  size_t before = info->range_count;
  for (size_t i = 0; i < MAX_RANGES_OF_DIE && (next = dw->dwarf_ranges(die, next, &base, &low, &high)) > 0; i++) {
    // A function that the linker dropped keeps its debug information, at address 0.
    if (low == 0 || high <= low) continue;
    if (!grow((void **)&info->ranges, &info->range_capacity, info->range_count, sizeof *info->ranges, MAX_RANGES)) {
      break;
    }
    info->ranges[info->range_count++] = (struct unit_range){low, high, (uint32_t)info->unit_count};
  }
  if (info->range_count == before) return;
  info->units[info->unit_count++] = (struct unit){
      .die = offset,
      .begin = begin,
      .end = (const char *)die->addr + (end - offset),
      .state = UNIT_NEW,
  };
}

bool csymbols_map_units(struct debug_info *info, uint64_t deadline) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  for (size_t step = 0; !info->units_done; step++) {
    if (step % 16 == 15 && csymbols_is_past(deadline)) return false;
    Dwarf_Off offset = info->next_unit, next = 0;
    size_t header = 0;
    need_units(info, offset, UNIT_BEGIN);
    if (dw->dwarf_nextcu(info->dwarf, offset, &next, &header, NULL, NULL, NULL) != 0 || next <= offset) {
      info->units_done = true;
      break;
    }
    info->next_unit = next;
    info->library_bytes += 512;
    Dwarf_Die die;
    if (dw->dwarf_offdie(info->dwarf, offset + header, &die) == NULL) continue;
    int tag = dw->dwarf_tag(&die);
    // A skeleton has the lines of a unit whose functions are in another file.
    if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit) add_unit(info, &die, offset, offset + header, next);
  }
  if (!info->ranges_sorted) {
    // qsort(3) must not be given NULL, not even for nothing.
    if (info->range_count > 0) qsort(info->ranges, info->range_count, sizeof *info->ranges, by_low);
    info->ranges_sorted = true;
  }
  return true;
}

struct unit *csymbols_find_unit(struct debug_info *info, uint64_t address) {
  size_t before = csymbols_count_up_to(info->ranges, info->range_count, sizeof *info->ranges, address);
  for (size_t back = 0; back < MAX_ENCLOSING && back < before; back++) {
    const struct unit_range *range = &info->ranges[before - 1 - back];
    if (address < range->high) return &info->units[range->unit];
  }
  return NULL;
}

// MARK: Functions of a unit

static void add_function(struct unit *unit, Dwarf_Die *die) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Addr base = 0, low = 0, high = 0;
  ptrdiff_t next = 0;
  for (size_t i = 0; i < MAX_RANGES_OF_DIE && (next = dw->dwarf_ranges(die, next, &base, &low, &high)) > 0; i++) {
    if (low == 0 || high <= low || high - low > UINT32_MAX) continue;
    size_t size = sizeof *unit->functions;
    if (!grow((void **)&unit->functions, &unit->capacity, unit->count, size, MAX_FUNCTIONS_OF_UNIT)) return;
    unit->functions[unit->count++] = (struct function){low, dw->dwarf_dieoffset(die), (uint32_t)(high - low)};
  }
}

// The DIE after `die` in the order of the section; *level is its depth below the unit's own. False at the unit's end.
//
// dwarf_siblingof() on a DIE that has children walks over all of them again, so a plain recursive walk costs the size
// of the tree times its depth. But when a list of siblings ends, libdw leaves the address of its closing zero byte in
// the result, and what follows that byte is the next DIE of a list further out.
static bool next_die(Dwarf_Die *die, uint32_t *level, const char *end) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die next = {0};
  if (dw->dwarf_haschildren(die) > 0) {
    int result = dw->dwarf_child(die, &next);
    if (result < 0) return false;
    if (result == 0) {
      *die = next;
      return ++*level <= CSYMBOLS_MAX_DEPTH;
    }
  }
  next = (Dwarf_Die){0};
  int result = dw->dwarf_siblingof(die, &next);
  if (result < 0) return false;
  if (result == 0) {
    *die = next;
    return true;
  }
  const char *here = next.addr;
  while (here != NULL && *level > 1) {
    --*level;
    if (++here >= end) return false;
    if (*here == 0) continue;
    *die = (Dwarf_Die){.addr = (void *)(uintptr_t)here, .cu = die->cu};
    return dw->dwarf_tag(die) != DW_TAG_invalid;
  }
  return false;
}

static int function_by_low(const void *left, const void *right) {
  const struct function *a = left, *b = right;
  if (a->low != b->low) return (a->low > b->low) - (a->low < b->low);
  return (a->die > b->die) - (a->die < b->die);
}

bool csymbols_index_unit(struct debug_info *info, struct unit *unit, uint64_t deadline) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  if (unit->state == UNIT_DONE) return true;
  if (unit->state == UNIT_NEW) {
    Dwarf_Die die;
    unit->state = UNIT_DONE;
    need_units(info, unit->begin, (uint64_t)(unit->end - info->units_begin) - unit->begin);
    if (info->image->broken) return true;
    if (dw->dwarf_offdie(info->dwarf, unit->die, &die) == NULL) return true;
    if (dw->dwarf_child(&die, &unit->cursor) != 0) return true;
    unit->level = 1;
    unit->state = UNIT_WALKING;
    info->library_bytes += 16384;
  }
  size_t step = 0;
  do {
    if (dw->dwarf_tag(&unit->cursor) == DW_TAG_subprogram) add_function(unit, &unit->cursor);
    if (++step % CSYMBOLS_STEPS == 0 && csymbols_is_past(deadline)) {
      if (next_die(&unit->cursor, &unit->level, unit->end)) return false;
      break;
    }
  } while (next_die(&unit->cursor, &unit->level, unit->end));
  unit->state = UNIT_DONE;
  if (unit->count > 0) qsort(unit->functions, unit->count, sizeof *unit->functions, function_by_low);
  return true;
}

const struct function *csymbols_find_function(const struct unit *unit, uint64_t address) {
  size_t before = csymbols_count_up_to(unit->functions, unit->count, sizeof *unit->functions, address);
  for (size_t back = 0; back < MAX_ENCLOSING && back < before; back++) {
    const struct function *function = &unit->functions[before - 1 - back];
    if (address - function->low < function->size) return function;
  }
  return NULL;
}

#endif
