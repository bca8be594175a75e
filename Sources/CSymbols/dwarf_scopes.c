// The namespaces and classes around a function, for C++ names that no demangler knows.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

#include "dwarf_internal.h"

enum {
  // Scopes around a function, and bytes of its name with theirs. Of more there is no such name.
  MAX_SCOPES = 32,
  MAX_QUALIFIED = 4096,
  // DIEs that are passed on the way to a function's.
  MAX_PASSED = 1 << 18,
};

static bool is_named_scope(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type
      || tag == DW_TAG_interface_type;
}

enum step { ENTERED, ARRIVED, LOST };

// Goes from `scope` to its child that has the DIE at `offset` inside, or arrives, if that is a child itself.
//
// DIEs know their children, and not their parents. Lost if there is none at `offset`, or no time to find it.
static enum step enter(Dwarf_Die *scope, Dwarf_Off offset, uint64_t deadline, size_t *passed) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die child, next;
  if (dw->dwarf_child(scope, &child) != 0) return LOST;
  for (; ++*passed < MAX_PASSED; child = next) {
    if (dw->dwarf_dieoffset(&child) == offset) return ARRIVED;
    if (dw->dwarf_dieoffset(&child) > offset || csymbols_is_past(deadline)) return LOST;
    int result = dw->dwarf_siblingof(&child, &next);
    if (result < 0) return LOST;
    if (result > 0 || dw->dwarf_dieoffset(&next) > offset) {
      *scope = child;
      return ENTERED;
    }
  }
  return LOST;
}

// Puts a name and `::` behind what is there. False if there is no space.
static bool append(char *text, size_t *length, const char *name) {
  size_t more = strnlen(name, MAX_QUALIFIED);
  if (*length + more + 3 > MAX_QUALIFIED) return false;
  memcpy(text + *length, name, more);
  memcpy(text + *length + more, "::", 3);
  *length += more + 2;
  return true;
}

static const char *qualify(struct debug_info *info, const struct csymbols_frame *frame, uint64_t deadline) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  char text[MAX_QUALIFIED];
  size_t length = 0, passed = 0;
  Dwarf_Die scope, function, own;
  if (dw->dwarf_offdie(info->dwarf, frame->unit, &scope) == NULL) return NULL;
  if (dw->dwarf_offdie(info->dwarf, frame->die, &function) == NULL) return NULL;
  // Another unit has not been read as a whole.
  if (dw->dwarf_diecu(&function, &own, NULL, NULL) == NULL || dw->dwarf_dieoffset(&own) != frame->unit) return NULL;
  for (size_t depth = 0;; depth++) {
    enum step step = enter(&scope, frame->die, deadline, &passed);
    if (step == ARRIVED) break;
    if (step == LOST || depth == MAX_SCOPES) return NULL;
    int tag = dw->dwarf_tag(&scope);
    if (!is_named_scope(tag)) continue;
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dw->dwarf_attr(&scope, DW_AT_name, &attribute) != NULL) {
      name = csymbols_dwarf_string(info, dw->dwarf_formstring(&attribute));
    }
    if (name == NULL) name = tag == DW_TAG_namespace ? "(anonymous namespace)" : "(unnamed)";
    if (!append(text, &length, name)) return NULL;
  }
  size_t end = strnlen(frame->name, MAX_QUALIFIED);
  if (length == 0 || length + end + 1 > MAX_QUALIFIED) return NULL;
  struct made_name *made = malloc(sizeof *made + length + end + 1);
  if (made == NULL) return NULL;
  memcpy(made->text, text, length);
  memcpy(made->text + length, frame->name, end);
  made->text[length + end] = 0;
  made->next = info->made_names;
  info->made_names = made;
  info->library_bytes += sizeof *made + length + end + 1;
  return made->text;
}

const char *csymbols_dwarf_qualified(
    csymbols_module *module, const struct csymbols_frame *frame, uint64_t deadline) {
  struct debug_info *info = &module->info;
  if (info->poisoned || info->dwarf == NULL || frame->die == 0 || frame->name == NULL) return NULL;
  jmp_buf recovery;
  csymbols_out_of_memory = &recovery;
  if (_setjmp(recovery) != 0) {
    module->info.poisoned = true;
    return NULL;
  }
  return qualify(info, frame, deadline);
}

#endif
