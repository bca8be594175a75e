// Files and lines from DWARF, through libdw: where an address lies, and where a function is declared.
#define _GNU_SOURCE
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

enum {
  // libdw 0.188 reads all lines of a unit at once. Measured on 67 000 rows: 21 ns for each byte of the program when
  // cold and 10 when warm; 80 bytes of heap stay for each row, up to 142 while it reads.
  NS_PER_LINE_BYTE = 24,
  HEAP_PER_ROW = 80,
};

// A unit with more than this in .debug_line is left alone.
static const uint64_t max_line_bytes = 32 << 20;

// Whether the names in a line table of DWARF 5 lie in .debug_str (6.2.4.1: a list of pairs of type and form). Offsets have
// `width` bytes; the table begins with its length.
static bool names_in_strings(const unsigned char *lines, size_t length, size_t width) {
  const unsigned char *at = lines + (width == 8 ? 12 : 4), *end = lines + length;
  if (end - at < 20 || (at[0] | at[1] << 8) != 5) return false;
  // Version, two sizes, the header's length, five single bytes; then one length for each opcode but the first.
  at += 2 + 2 + width + 5;
  unsigned opcode_base = *at++;
  if (opcode_base == 0 || (size_t)(end - at) < opcode_base) return true;
  at += opcode_base - 1;
  for (unsigned pairs = *at++; pairs > 0; pairs--) {
    // Both are ULEB128; a type or a form of more than one byte is none that anybody uses.
    if (end - at < 2 || (at[0] & 0x80) != 0 || (at[1] & 0x80) != 0) return true;
    if (at[0] == DW_LNCT_path && at[1] != DW_FORM_line_strp && at[1] != DW_FORM_string) return true;
    at += 2;
  }
  return false;
}

// Reads what libdw needs for a unit's lines.
static bool need_lines(
    struct debug_info *info, Dwarf_Die *die, const unsigned char *lines, size_t length, size_t width) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Attribute attribute;
  if (!csymbols_image_need(info->image, lines, length)) return false;
  if (dw->dwarf_attr(die, DW_AT_comp_dir, &attribute) != NULL
      && csymbols_dwarf_string(info, dw->dwarf_formstring(&attribute)) == NULL) {
    return false;
  }
  if (names_in_strings(lines, length, width)) {
    csymbols_image_need_section(info->image, csymbols_section(info->image, ".debug_str", ".zdebug_str"));
  }
  return !info->image->broken;
}

bool csymbols_lines_affordable(
    struct debug_info *info, Dwarf_Die *die, bool *read, uint64_t deadline, bool *cut) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  if (*read) return true;
  Dwarf_Attribute attribute;
  Dwarf_Word offset = 0;
  uint32_t short_length = 0;
  if (dw->dwarf_attr(die, DW_AT_stmt_list, &attribute) == NULL) return false;
  if (dw->dwarf_formudata(&attribute, &offset) != 0 || info->lines_length < sizeof short_length) return false;
  if (offset > info->lines_length - sizeof short_length) return false;
  csymbols_image_need(info->image, info->lines + offset, 12);
  memcpy(&short_length, info->lines + offset, sizeof short_length);
  // The 64-bit format begins with four bytes that are no length.
  uint64_t length = short_length, before = sizeof short_length;
  if (short_length == UINT32_MAX) {
    before += sizeof length;
    if (info->lines_length - offset < before) return false;
    memcpy(&length, info->lines + offset + sizeof short_length, sizeof length);
  }
  // The length does not count itself. An unpacked section ends where its bytes do: nothing lies behind it.
  if (length > info->lines_length - offset - before || length > max_line_bytes) return false;
  uint64_t now = csymbols_now();
  if (now >= deadline || deadline - now < length * NS_PER_LINE_BYTE) {
    *cut = true;
    return false;
  }
  Dwarf_Lines *lines = NULL;
  size_t count = 0;
  *read = true;
  size_t width = before == sizeof short_length ? 4 : 8;
  if (!need_lines(info, die, info->lines + offset, (size_t)(length + before), width)) return false;
  if (dw->dwarf_getsrclines(die, &lines, &count) == 0) info->library_bytes += HEAP_PER_ROW * count + 4096;
  return true;
}

uint64_t csymbols_lines_body(Dwarf_Die *unit, const struct function *function) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Lines *lines = NULL;
  size_t count = 0, low = 0;
  if (dw->dwarf_getsrclines(unit, &lines, &count) != 0) return function->low;
  Dwarf_Addr address = 0;
  for (size_t high = count; low < high;) {
    size_t middle = low + (high - low) / 2;
    if (dw->dwarf_lineaddr(dw->dwarf_onesrcline(lines, middle), &address) != 0) return function->low;
    if (address < function->low) low = middle + 1;
    else high = middle;
  }
  // A body that begins without a line has no mark: it is what follows the row of the function itself.
  uint64_t unmarked = function->low;
  for (; low < count; low++) {
    Dwarf_Line *row = dw->dwarf_onesrcline(lines, low);
    bool is_end = false;
    if (dw->dwarf_lineaddr(row, &address) != 0 || address >= function->low + function->size) break;
    if (dw->dwarf_lineprologueend(row, &is_end) == 0 && is_end) return address;
    if (unmarked == function->low) unmarked = address;
  }
  return unmarked;
}

void csymbols_lines_places(
    Dwarf_Die *unit, uint64_t address, Dwarf_Die *calls, size_t calls_count, struct csymbols_frame *frames) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Line *row = dw->dwarf_getsrc_die(unit, address);
  int line = 0;
  if (row != NULL) {
    frames[0].file = dw->dwarf_linesrc(row, NULL, NULL);
    if (dw->dwarf_lineno(row, &line) == 0 && line > 0) frames[0].line = (uint32_t)line;
  }
  Dwarf_Files *files = NULL;
  size_t files_count = 0;
  if (calls_count > 0 && dw->dwarf_getsrcfiles(unit, &files, &files_count) != 0) files = NULL;
  for (size_t i = 0; i < calls_count; i++) {
    // frames[i + 1] is where frames[i] was called from.
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    Dwarf_Die *call = &calls[calls_count - 1 - i];
    if (dw->dwarf_attr(call, DW_AT_call_line, &attribute) != NULL && dw->dwarf_formudata(&attribute, &value) == 0
        && value <= INT32_MAX) {
      frames[i + 1].line = (uint32_t)value;
    }
    if (files != NULL && dw->dwarf_attr(call, DW_AT_call_file, &attribute) != NULL
        && dw->dwarf_formudata(&attribute, &value) == 0 && value < files_count) {
      frames[i + 1].file = dw->dwarf_filesrc(files, value, NULL, NULL);
    }
  }
}

void csymbols_lines_beginning(Dwarf_Die *unit, uint64_t start, struct csymbols_frame *frame) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Line *row = dw->dwarf_getsrc_die(unit, start);
  frame->declared_in = row != NULL ? dw->dwarf_linesrc(row, NULL, NULL) : NULL;
  if (frame->declared_in == NULL || frame->file == NULL || strcmp(frame->declared_in, frame->file) == 0) return;
  // The line of a function that was inlined, and that nothing names: it says nothing of this one.
  frame->file = NULL;
  frame->line = 0;
}

// The unit whose first DIE is at `offset`, if it has code.
static struct unit *unit_at(struct debug_info *info, uint64_t offset) {
  size_t count = csymbols_count_up_to(info->units, info->unit_count, sizeof *info->units, offset);
  return count > 0 && info->units[count - 1].die == offset ? &info->units[count - 1] : NULL;
}

// Whether the files of the unit that `die` is the first of can be asked for.
static bool files_affordable(struct debug_info *info, Dwarf_Die *die, uint64_t deadline, bool *cut) {
  const char *here = die->addr;
  // The shared file's sections are whole, and it has no lines, only names.
  if (here < info->units_begin || here >= info->units_begin + info->units_length) return true;
  struct unit *unit = unit_at(info, csymbols_libdw()->dwarf_dieoffset(die));
  if (unit != NULL) return csymbols_lines_affordable(info, die, &unit->lines_read, deadline, cut);
  // Without code it has few lines or none: what link-time optimization leaves of a source file's own unit.
  bool read = false;
  uint64_t bytes = info->library_bytes;
  bool affordable = csymbols_lines_affordable(info, die, &read, deadline, cut);
  info->library_bytes = bytes;
  return affordable;
}

void csymbols_lines_declaration(
    struct debug_info *info, Dwarf_Die *function, uint64_t deadline, bool *cut, struct csymbols_frame *frame) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Dwarf_Die at = *function, unit;
  Dwarf_Attribute attribute;
  bool found = false;
  for (size_t i = 0; i < CSYMBOLS_MAX_ORIGINS; i++) {
    found = dw->dwarf_attr(&at, DW_AT_decl_file, &attribute) != NULL;
    if (found || !csymbols_dwarf_origin(info, &at)) break;
  }
  if (dw->dwarf_diecu(found ? &at : function, &unit, NULL, NULL) == NULL) return;
  Dwarf_Attribute text;
  if (dw->dwarf_attr(&unit, DW_AT_name, &text) != NULL) {
    frame->unit_name = csymbols_dwarf_string(info, dw->dwarf_formstring(&text));
  }
  if (dw->dwarf_attr(&unit, DW_AT_comp_dir, &text) != NULL) {
    frame->unit_directory = csymbols_dwarf_string(info, dw->dwarf_formstring(&text));
  }
  Dwarf_Files *files = NULL;
  Dwarf_Word number = 0;
  size_t count = 0;
  if (!found || dw->dwarf_formudata(&attribute, &number) != 0 || !files_affordable(info, &unit, deadline, cut)) return;
  if (dw->dwarf_getsrcfiles(&unit, &files, &count) != 0 || number >= count) return;
  frame->declared_in = dw->dwarf_filesrc(files, number, NULL, NULL);
}

#endif
