// Functions and inlined frames from DWARF, through libdw, in steps that a deadline can interrupt.
#define _GNU_SOURCE
#include <setjmp.h>
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

#include "dwarf_internal.h"

enum {
  // DIEs read below one function.
  MAX_DIES = 1 << 18,
  // More than any DIE takes.
  MAX_DIE = 64 << 10,
};

static bool is_scope(int tag) {
  return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block || tag == DW_TAG_try_block
      || tag == DW_TAG_catch_block;
}

// The inlined calls inside `function` that cover the address, outermost first. *cut is set if the deadline passed.
static size_t inlined_calls(
    Dwarf_Die *function, uint64_t address, uint64_t deadline, Dwarf_Die *calls, size_t capacity, bool *cut) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die scope = *function;
  size_t count = 0, dies = 0;
  for (size_t depth = 0; depth < CSYMBOLS_MAX_DEPTH; depth++) {
    Dwarf_Die child, next;
    bool entered = false;
    if (dw->dwarf_child(&scope, &child) != 0) break;
    for (; dies < MAX_DIES; dies++) {
      if (dies % CSYMBOLS_STEPS == CSYMBOLS_STEPS - 1 && csymbols_is_past(deadline)) {
        *cut = true;
        return count;
      }
      int tag = dw->dwarf_tag(&child);
      if (tag == DW_TAG_invalid) break;
      if (is_scope(tag) && dw->dwarf_haspc(&child, address) == 1) {
        if (tag == DW_TAG_inlined_subroutine) {
          // The innermost calls matter most; the outermost one (the function itself) is not in this list.
          if (count == capacity) {
            memmove(calls, calls + 1, (capacity - 1) * sizeof *calls);
            count--;
          }
          calls[count++] = child;
        }
        scope = child;
        entered = true;
        break;
      }
      if (dw->dwarf_siblingof(&child, &next) != 0) break;
      child = next;
    }
    if (!entered) break;
  }
  return count;
}

bool csymbols_dwarf_origin(struct debug_info *info, Dwarf_Die *die) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Attribute attribute;
  Dwarf_Die origin;
  if (dw->dwarf_attr(die, DW_AT_abstract_origin, &attribute) == NULL
      && dw->dwarf_attr(die, DW_AT_specification, &attribute) == NULL) {
    return false;
  }
  if (dw->dwarf_formref_die(&attribute, &origin) == NULL) return false;
  csymbols_image_need(info->image, origin.addr, MAX_DIE);
  *die = origin;
  return true;
}

static void fill_names(struct debug_info *info, Dwarf_Die *die, struct csymbols_frame *frame) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die origin = *die;
  for (size_t i = 0; i < CSYMBOLS_MAX_ORIGINS && csymbols_dwarf_origin(info, &origin); i++) {}
  frame->die = dw->dwarf_dieoffset(&origin);
  Dwarf_Attribute attribute;
  bool flag = false;
  // Through DW_AT_abstract_origin and DW_AT_specification; libdw follows at most 16 of them.
  if (dw->dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL
      || dw->dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL) {
    frame->linkage_name = csymbols_dwarf_name(info, dw->dwarf_formstring(&attribute));
  }
  if (dw->dwarf_attr_integrate(die, DW_AT_name, &attribute) != NULL) {
    frame->name = csymbols_dwarf_name(info, dw->dwarf_formstring(&attribute));
  }
  frame->described = true;
  frame->declared = dw->dwarf_attr_integrate(die, DW_AT_decl_line, &attribute) != NULL;
  if (dw->dwarf_attr_integrate(die, DW_AT_artificial, &attribute) != NULL
      && dw->dwarf_formflag(&attribute, &flag) == 0) {
    frame->artificial = flag;
  }
}

// Whether the function is a part of a Swift async function, where that continues after a suspension (mangling: TQ or TY, and an index).
//
// A suspended function continues at the first instruction of such a part. That has the line of what the compiler inlined there, and no
// scope that says so; the part's own code, behind the compiler's, has both.
static bool is_part_of_async(struct debug_info *info, const struct function *function) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die die;
  Dwarf_Attribute attribute;
  if (dw->dwarf_offdie(info->dwarf, function->die, &die) == NULL) return false;
  if (dw->dwarf_attr_integrate(&die, DW_AT_linkage_name, &attribute) == NULL) return false;
  const char *name = csymbols_dwarf_string(info, dw->dwarf_formstring(&attribute));
  size_t length = name != NULL ? strlen(name) : 0;
  if (length < 3 || name[length - 1] != '_') return false;
  size_t end = length - 1;
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
  return end >= 2 && (name[end - 1] == 'Q' || name[end - 1] == 'Y') && name[end - 2] == 'T';
}

static enum csymbols_status lookup(
    csymbols_module *module, uint64_t address, uint64_t start, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  if (!info->tried) {
    if (csymbols_is_past(deadline)) return CSYMBOLS_INCOMPLETE;
    csymbols_dwarf_open(module);
  }
  if (info->dwarf == NULL) return CSYMBOLS_COMPLETE;
  if (!csymbols_map_units(info, deadline)) return CSYMBOLS_INCOMPLETE;
  struct unit *unit = csymbols_find_unit(info, address);
  if (unit == NULL) return CSYMBOLS_COMPLETE;
  if (!csymbols_index_unit(info, unit, deadline)) return CSYMBOLS_INCOMPLETE;
  Dwarf_Die die, function_die, calls[CSYMBOLS_MAX_FRAMES - 1];
  if (dw->dwarf_offdie(info->dwarf, unit->die, &die) == NULL) return CSYMBOLS_COMPLETE;
  bool cut = false;
  size_t calls_count = 0;
  const struct function *function = csymbols_find_function(unit, address);
  if (function != NULL && address == function->low && is_part_of_async(info, function)
      && csymbols_lines_affordable(info, &die, &unit->lines_read, deadline, &cut)) {
    address = csymbols_lines_body(&die, function);
  }
  if (function != NULL && dw->dwarf_offdie(info->dwarf, function->die, &function_die) != NULL) {
    calls_count =
        inlined_calls(&function_die, address, deadline, calls, CSYMBOLS_MAX_FRAMES - 1, &cut);
    // A chain that was cut would name the wrong innermost function: better the physical one alone.
    if (cut) calls_count = 0;
    for (size_t i = 0; i < calls_count; i++) {
      frames[i] = (struct csymbols_frame){.inlined = true};
      fill_names(info, &calls[calls_count - 1 - i], &frames[i]);
    }
    frames[calls_count] = (struct csymbols_frame){0};
    fill_names(info, &function_die, &frames[calls_count]);
  } else {
    // Assembly, or a unit whose functions are in another file (DW_AT_dwo_name): lines without functions.
    frames[0] = (struct csymbols_frame){0};
  }
  for (size_t i = 0; i <= calls_count; i++) frames[i].unit = unit->die;
  if (!cut && csymbols_lines_affordable(info, &die, &unit->lines_read, deadline, &cut)) {
    csymbols_lines_places(&die, address, calls, calls_count, frames);
    if (function == NULL && start != 0) csymbols_lines_beginning(&die, start, &frames[0]);
  }
  for (size_t i = 0; i <= calls_count && !cut && function != NULL; i++) {
    Dwarf_Die *described = i < calls_count ? &calls[calls_count - 1 - i] : &function_die;
    csymbols_lines_declaration(info, described, deadline, &cut, &frames[i]);
  }
  *count = calls_count + 1;
  if (function == NULL && frames[0].file == NULL && frames[0].declared_in == NULL) *count = 0;
  return cut ? CSYMBOLS_INCOMPLETE : CSYMBOLS_COMPLETE;
}

enum csymbols_status csymbols_dwarf_lookup(
    csymbols_module *module, uint64_t address, uint64_t start, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count) {
  if (module->info.poisoned) return CSYMBOLS_COMPLETE;
  jmp_buf recovery;
  csymbols_out_of_memory = &recovery;
  // _setjmp: the plain one may save the signal mask, a system call.
  if (_setjmp(recovery) != 0) {
    module->info.poisoned = true;
    *count = 0;
    return CSYMBOLS_INCOMPLETE;
  }
  return lookup(module, address, start, deadline, frames, count);
}

#endif
