// Functions, inlined frames and lines from DWARF, through libdw, in steps that a deadline can interrupt.
//
// Swift emits no .debug_aranges, so the map from addresses to units is built here (DW_AT_ranges of each unit), then one
// table of functions for each unit that is asked for. Both are kept half-built when a deadline passes and go on later.
#define _GNU_SOURCE
#include <dwarf.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
  MAX_UNITS = 1 << 20,
  MAX_RANGES_OF_DIE = 1 << 14,
  MAX_RANGES = 1 << 22,
  MAX_FUNCTIONS_OF_UNIT = 1 << 21,
  // DIEs looked at below one function.
  MAX_DIES = 1 << 18,
  MAX_DEPTH = 256,
  // Steps between two readings of the clock (25 ns each).
  STEPS = 64,
  // How far back an overlapping range is looked for.
  MAX_ENCLOSING = 8,
  // What is read of a unit before it is known to be wanted: its header and first DIE.
  UNIT_BEGIN = 4096,
  // More than any DIE takes.
  MAX_DIE = 64 << 10,
};

// Sections that unpack to more than this are left alone.
static const uint64_t max_unpacked = 256 << 20;

// libdw's answer to a failed allocation is to end the process. It asks a handler first, which must not return; this is
// where it goes instead. Thread-local: modules may be used on several threads.
static _Thread_local jmp_buf *out_of_memory;

__attribute__((noreturn)) static void no_memory(void) {
  longjmp(*out_of_memory, 1);
}

static bool past(uint64_t deadline) {
  return csymbols_now() >= deadline;
}

// Makes room for one more element. False if there is no memory or `limit` is reached.
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

// MARK: Opening

// What the debug sections unpack to, so that a corrupt header does not make libelf allocate without bound.
static uint64_t unpacked_bytes(struct image *image) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  uint64_t sum = 0;
  Elf_Scn *section = NULL;
  for (size_t i = 0; i < (1 << 16) && (section = dw->elf_nextscn(image->elf, section)) != NULL; i++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    if (header == NULL) continue;
    if (header->sh_type != SHT_NOBITS && header->sh_offset < image->length) {
      csymbols_image_need(image, image->bytes + header->sh_offset, sizeof(Elf64_Chdr));
    }
    if ((header->sh_flags & SHF_COMPRESSED) != 0) {
      Elf64_Chdr *packed = dw->elf64_getchdr(section);
      if (packed == NULL || packed->ch_size > max_unpacked) return UINT64_MAX;
      sum += packed->ch_size;
    } else if (header->sh_type == SHT_PROGBITS) {
      // The older form: ".zdebug_…" begins with "ZLIB" and the size, most significant byte first.
      Elf_Data *data = header->sh_size > 12 && header->sh_flags == 0 ? dw->elf_rawdata(section, NULL) : NULL;
      if (data == NULL || data->d_buf == NULL || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0) continue;
      uint64_t size = 0;
      for (size_t byte = 4; byte < 12; byte++) size = size << 8 | ((const unsigned char *)data->d_buf)[byte];
      if (size > max_unpacked) return UINT64_MAX;
      sum += size;
    }
  }
  return sum;
}

// Reads what libdw looks into without being asked about a unit. .debug_info, .debug_line and .debug_str are read in
// parts, when they are needed, unless they are packed.
static void fill_sections(struct image *image, bool whole) {
  static const char *const in_parts[] = {".debug_info", ".debug_line", ".debug_str"};
  static const char *const unused[] = {
      ".debug_aranges", ".debug_frame", ".debug_loc", ".debug_loclists", ".debug_macinfo", ".debug_macro",
      ".debug_names", ".debug_pubnames", ".debug_pubtypes", ".debug_gnu_pubnames", ".debug_gnu_pubtypes", ".debug_types",
  };
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  size_t names = 0;
  if (dw->elf_getshdrstrndx(image->elf, &names) != 0) return;
  Elf_Scn *section = NULL;
  for (size_t index = 1; index < (1 << 16) && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    const char *name = header != NULL ? dw->elf_strptr(image->elf, names, header->sh_name) : NULL;
    if (name == NULL || header->sh_type == SHT_NOBITS) continue;
    if (strncmp(name, ".debug_", 7) != 0 && strncmp(name, ".zdebug_", 8) != 0
        && strcmp(name, ".gnu_debugaltlink") != 0) {
      continue;
    }
    bool in_part = false, wanted = true;
    if (!whole && (header->sh_flags & SHF_COMPRESSED) == 0) {
      for (size_t i = 0; i < sizeof in_parts / sizeof *in_parts; i++) in_part |= strcmp(name, in_parts[i]) == 0;
      for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) wanted &= strcmp(name, unused[i]) != 0;
    }
    if (!wanted) continue;
    if (!in_part) {
      csymbols_image_need_section(image, index);
    } else if (header->sh_size > 0 && header->sh_size <= image->length
               && header->sh_offset <= image->length - header->sh_size) {
      // libdw looks for the last string's end.
      csymbols_image_need(image, image->bytes + header->sh_offset + header->sh_size - 1, 1);
    }
  }
}

// The file that dwz(1) moved common parts into. Opened here and given to libdw, which would look for it without
// O_CLOEXEC and keep the descriptor.
static void open_shared(csymbols_module *module, const struct image *image) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  const char *name = NULL;
  const void *id = NULL;
  ssize_t length = dw->dwelf_dwarf_gnu_debugaltlink(info->dwarf, &name, &id);
  if (length <= 0 || name == NULL) return;
  struct csymbols_source source = {
      .build_id = id,
      .build_id_length = (size_t)length,
      .is_strict = module->is_strict,
      .descriptor = -1,
      .budget = module->budget,
  };
  uint64_t limit = csymbols_limit(max_unpacked, module->budget);
  char path[4096];
  const char *slash = image->path != NULL ? strrchr(image->path, '/') : NULL;
  size_t directory = name[0] != '/' && slash != NULL ? (size_t)(slash + 1 - image->path) : 0;
  size_t rest = strnlen(name, sizeof path);
  if (directory + rest >= sizeof path) return;
  if (directory > 0) memcpy(path, image->path, directory);
  memcpy(path + directory, name, rest);
  path[directory + rest] = 0;
  if (csymbols_image_open(&module->shared, &source, NULL, path) && unpacked_bytes(&module->shared) <= limit) {
    fill_sections(&module->shared, true);
    if (module->shared.broken) return;
    info->alternate = dw->dwarf_begin_elf(module->shared.elf, DWARF_C_READ, NULL);
  }
  if (info->alternate != NULL) {
    dw->dwarf_new_oom_handler(info->alternate, no_memory);
    dw->dwarf_setalt(info->dwarf, info->alternate);
  }
}

static Elf_Data *section_bytes(struct image *image, const char *name, const char *compressed_name) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  size_t index = csymbols_section(image, name, compressed_name);
  Elf_Data *data = index != 0 ? dw->elf_rawdata(dw->elf_getscn(image->elf, index), NULL) : NULL;
  return data != NULL && data->d_buf != NULL ? data : NULL;
}

static void open_dwarf(csymbols_module *module) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  info->tried = true;
  struct image *image = csymbols_dwarf_image(module);
  if (image == NULL || image->kind != IMAGE_COPY) return;
  uint64_t unpacked = unpacked_bytes(image);
  if (unpacked > csymbols_limit(max_unpacked, module->budget)) return;
  fill_sections(image, false);
  if (image->broken) return;
  info->dwarf = dw->dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
  if (info->dwarf == NULL) return;
  info->image = image;
  dw->dwarf_new_oom_handler(info->dwarf, no_memory);
  // libdw unpacked them in place.
  Elf_Data *data = section_bytes(image, ".debug_line", ".zdebug_line");
  if (data != NULL) {
    info->lines = data->d_buf;
    info->lines_length = data->d_size;
  }
  data = section_bytes(image, ".debug_info", ".zdebug_info");
  if (data != NULL) {
    info->units_begin = data->d_buf;
    info->units_length = data->d_size;
  }
  info->unpacked = unpacked;
  info->library_bytes = 32768 + unpacked;
  open_shared(module, image);
}

// Reads a part of .debug_info.
static void need_units(struct debug_info *info, uint64_t offset, uint64_t length) {
  if (offset >= info->units_length) return;
  if (length > info->units_length - offset) length = info->units_length - offset;
  csymbols_image_need(info->image, info->units_begin + offset, length);
}

void csymbols_dwarf_free(csymbols_module *module) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  bool poisoned = info->poisoned;
  for (size_t i = 0; i < info->unit_count; i++) free(info->units[i].functions);
  free(info->units);
  free(info->ranges);
  if (!poisoned) {
    if (info->dwarf != NULL) dw->dwarf_end(info->dwarf);
    if (info->alternate != NULL) dw->dwarf_end(info->alternate);
  }
  *info = (struct debug_info){.poisoned = poisoned, .tried = poisoned};
}

// MARK: Units

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

// Reads unit headers until all are known. False if the deadline passed first.
static bool map_units(struct debug_info *info, uint64_t deadline) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  for (size_t step = 0; !info->units_done; step++) {
    if (step % 16 == 15 && past(deadline)) return false;
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
    if (dw->dwarf_tag(&die) == DW_TAG_compile_unit) add_unit(info, &die, offset, offset + header, next);
  }
  if (!info->ranges_sorted) {
    // qsort(3) must not be given NULL, not even for nothing.
    if (info->range_count > 0) qsort(info->ranges, info->range_count, sizeof *info->ranges, by_low);
    info->ranges_sorted = true;
  }
  return true;
}

static struct unit *find_unit(struct debug_info *info, uint64_t address) {
  size_t low = 0, high = info->range_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (info->ranges[middle].low <= address) low = middle + 1;
    else high = middle;
  }
  for (size_t back = 0; back < MAX_ENCLOSING && back < low; back++) {
    const struct unit_range *range = &info->ranges[low - 1 - back];
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
      return ++*level <= MAX_DEPTH;
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

static bool index_unit(struct debug_info *info, struct unit *unit, uint64_t deadline) {
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
    if (++step % STEPS == 0 && past(deadline)) {
      if (next_die(&unit->cursor, &unit->level, unit->end)) return false;
      break;
    }
  } while (next_die(&unit->cursor, &unit->level, unit->end));
  unit->state = UNIT_DONE;
  if (unit->count > 0) qsort(unit->functions, unit->count, sizeof *unit->functions, function_by_low);
  return true;
}

static const struct function *find_function(const struct unit *unit, uint64_t address) {
  size_t low = 0, high = unit->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (unit->functions[middle].low <= address) low = middle + 1;
    else high = middle;
  }
  for (size_t back = 0; back < MAX_ENCLOSING && back < low; back++) {
    const struct function *function = &unit->functions[low - 1 - back];
    if (address - function->low < function->size) return function;
  }
  return NULL;
}

// MARK: Frames

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
  for (size_t depth = 0; depth < MAX_DEPTH; depth++) {
    Dwarf_Die child, next;
    bool entered = false;
    if (dw->dwarf_child(&scope, &child) != 0) break;
    for (; dies < MAX_DIES; dies++) {
      if (dies % STEPS == STEPS - 1 && past(deadline)) {
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
  Dwarf_Attribute attribute;
  bool flag = false;
  // Through DW_AT_abstract_origin and DW_AT_specification; libdw follows at most 16 of them.
  if (dw->dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL
      || dw->dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL) {
    frame->linkage_name = csymbols_dwarf_string(info, dw->dwarf_formstring(&attribute));
  }
  if (dw->dwarf_attr_integrate(die, DW_AT_name, &attribute) != NULL) {
    frame->name = csymbols_dwarf_string(info, dw->dwarf_formstring(&attribute));
  }
  frame->described = true;
  frame->declared = dw->dwarf_attr_integrate(die, DW_AT_decl_line, &attribute) != NULL;
  if (dw->dwarf_attr_integrate(die, DW_AT_artificial, &attribute) != NULL
      && dw->dwarf_formflag(&attribute, &flag) == 0) {
    frame->artificial = flag;
  }
}

static enum csymbols_status lookup(
    csymbols_module *module, uint64_t address, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  if (!info->tried) {
    if (past(deadline)) return CSYMBOLS_INCOMPLETE;
    open_dwarf(module);
  }
  if (info->dwarf == NULL) return CSYMBOLS_COMPLETE;
  if (!map_units(info, deadline)) return CSYMBOLS_INCOMPLETE;
  struct unit *unit = find_unit(info, address);
  if (unit == NULL) return CSYMBOLS_COMPLETE;
  if (!index_unit(info, unit, deadline)) return CSYMBOLS_INCOMPLETE;
  Dwarf_Die die, function_die, calls[CSYMBOLS_MAX_FRAMES - 1];
  if (dw->dwarf_offdie(info->dwarf, unit->die, &die) == NULL) return CSYMBOLS_COMPLETE;
  bool cut = false;
  size_t calls_count = 0;
  const struct function *function = find_function(unit, address);
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
    // Assembly: lines without functions.
    frames[0] = (struct csymbols_frame){0};
  }
  if (!cut && csymbols_lines_affordable(info, &die, &unit->lines_read, deadline, &cut)) {
    csymbols_lines_places(&die, address, calls, calls_count, frames);
  }
  for (size_t i = 0; i <= calls_count && !cut && function != NULL; i++) {
    Dwarf_Die *described = i < calls_count ? &calls[calls_count - 1 - i] : &function_die;
    csymbols_lines_declaration(info, described, deadline, &cut, &frames[i]);
  }
  *count = calls_count + 1;
  if (function == NULL && frames[0].file == NULL) *count = 0;
  return cut ? CSYMBOLS_INCOMPLETE : CSYMBOLS_COMPLETE;
}

enum csymbols_status csymbols_dwarf_lookup(
    csymbols_module *module, uint64_t address, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count) {
  if (module->info.poisoned) return CSYMBOLS_COMPLETE;
  jmp_buf recovery;
  out_of_memory = &recovery;
  // _setjmp: the plain one may save the signal mask, a system call.
  if (_setjmp(recovery) != 0) {
    module->info.poisoned = true;
    *count = 0;
    return CSYMBOLS_INCOMPLETE;
  }
  return lookup(module, address, deadline, frames, count);
}
