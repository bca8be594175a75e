// What libunwind reads through: registers and stack of the copy, and memory outside of it through the kernel.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "architecture.h"

#if CUNWIND_HAS_STACKS

#include "modules.h"
#include "unwinder.h"

#define PAGE CUNWIND_CACHE_PAGE

bool cunwind_read_cached(cunwind_unwinder *u, uint64_t address, void *to, size_t length) {
  unsigned char *out = to;
  while (length > 0) {
    uint64_t base = address & ~(uint64_t)(PAGE - 1);
    size_t index = (size_t)(base / PAGE % CUNWIND_CACHED_PAGES), offset = (size_t)(address - base);
    size_t part = length < PAGE - offset ? length : PAGE - offset;
    // Nothing lies there, and 0 says that a page is not kept.
    if (base == 0) return false;
    if (u->page_address[index] != base) {
      u->page_address[index] = 0;
      if (cunwind_read(u->process, base, u->page[index], PAGE) != PAGE) return false;
      u->page_address[index] = base;
    }
    memcpy(out, u->page[index] + offset, part);
    out += part, address += part, length -= part;
  }
  return true;
}

static bool read_kept(void *unwinder, uint64_t address, void *to, size_t length) {
  return cunwind_read_cached(unwinder, address, to, length);
}

uint64_t cunwind_function_of(cunwind_unwinder *u, uint64_t address) {
  return cunwind_search_functions(u->process, address, read_kept, u);
}

// Whether `address` is where unwinding reads tables and code.
static bool is_table(cunwind_unwinder *u, uint64_t address) {
  if (address - u->table_start < u->table_end - u->table_start) return true;
  struct cunwind_mapping mapping;
  if (!cunwind_find_mapping(u->process, address, &mapping)) return false;
  u->table_start = mapping.start;
  u->table_end = mapping.end;
  return true;
}

bool cunwind_read_word(cunwind_unwinder *u, uint64_t address, uint64_t *value) {
  if (cunwind_in_copy(u->snapshot, address, sizeof *value)) {
    memcpy(value, u->snapshot->stack + (address - u->snapshot->stack_address), sizeof *value);
    return true;
  }
  uint64_t below = u->popped_end - address;
  if (address < u->popped_end && below % 8 == 0 && below / 8 <= u->popped_count) {
    *value = u->popped[below / 8 - 1];
    return true;
  }
  if (!cunwind_read_cached(u, address, value, sizeof *value)) return false;
  // Tables and code do not change; anything else may.
  if (!u->read_live && !is_table(u, address)) u->read_live = true;
  return true;
}

// -- libunwind's accessors

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *argument) {
  (void)space;
  if (write) return -UNW_EREADONLYREG;
  cunwind_unwinder *u = argument;
  uint64_t word;
  address = cunwind_data_address(address);
#ifdef CUNWIND_NO_FRAME_POINTER
  if (address - CUNWIND_NO_FRAME_POINTER + CUNWIND_NO_FRAME_POINTER_REACH < 2 * CUNWIND_NO_FRAME_POINTER_REACH)
    u->wanted_frame_pointer = true;
#endif
  if (u->loads_left == 0 || !cunwind_read_word(u, address, &word)) return -UNW_EINVAL;
  u->loads_left--;
  if (word == 0 && u->replaces_zeros && (cunwind_in_copy(u->snapshot, address, sizeof word) || !is_table(u, address)))
    word = CUNWIND_ZERO;
  *value = word;
  return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write, void *argument) {
  (void)space;
  cunwind_unwinder *u = argument;
  if (write) return -UNW_EREADONLYREG;
  if (number < 0 || number >= CUNWIND_REGISTERS) return -UNW_EBADREG;
  if ((u->known & 1ull << number) == 0) {
#ifdef CUNWIND_NO_FRAME_POINTER
    if (number == CUNWIND_FRAME_POINTER) return *value = CUNWIND_NO_FRAME_POINTER, 0;
#endif
    if (number == CUNWIND_FRAME_POINTER) u->wanted_frame_pointer = true;
#ifdef CUNWIND_LINK
    if (number == CUNWIND_LINK) u->wanted_link = true;
#endif
    return -UNW_EBADREG;
  }
  *value = u->registers[number];
#ifdef CUNWIND_LINK
  if (*value == 0 && u->replaces_zeros && (number == CUNWIND_FRAME_POINTER || number == CUNWIND_LINK)) *value = CUNWIND_ZERO;
#endif
  return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write, void *argument) {
  (void)space, (void)number, (void)value, (void)write, (void)argument;
  return -UNW_EBADREG;
}

// Where `unw_dyn_info_t` continues after `pad`: with `load_offset`, or, in libunwind 1.3, with the
// table's place.
#define AFTER_PAD (offsetof(unw_dyn_info_t, pad) + sizeof(int32_t))

int cunwind_find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need_unwind_info,
                          void *argument) {
  cunwind_unwinder *u = argument;
  struct cunwind_mapping mapping;
  unsigned char header[CUNWIND_TABLE_HEADER];
  uint32_t count;
  if (!cunwind_find_mapping(u->process, ip, &mapping) || mapping.eh_frame_header == 0 ||
      !cunwind_read_cached(u, mapping.eh_frame_header, header, sizeof header) ||
      !cunwind_parse_table_header(header, &count)) {
    u->guessed = true;
    return -UNW_ENOINFO;
  }
  unw_dyn_remote_table_info_t place;
  memset(&place, 0, sizeof place);
  place.segbase = mapping.eh_frame_header;
  place.table_data = mapping.eh_frame_header + CUNWIND_TABLE_HEADER;
  // In words of 8 bytes, and an entry is two of 4.
  place.table_len = count;
  union {
    unw_dyn_info_t info;
    unsigned char bytes[sizeof(unw_dyn_info_t) + sizeof(unw_word_t)];
  } table;
  memset(&table, 0, sizeof table);
  table.info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  table.info.start_ip = mapping.start;
  table.info.end_ip = mapping.end;
  memcpy(table.bytes + AFTER_PAD + (libunwind.has_load_offset ? sizeof(unw_word_t) : 0), &place, sizeof place);
  int result = libunwind.dwarf_search_unwind_table(space, ip, &table.info, info, need_unwind_info, argument);
  if (result < 0) u->guessed = true;
  return result;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *argument) {
  (void)space, (void)info, (void)argument;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *address, void *argument) {
  (void)space, (void)address, (void)argument;
  return -UNW_ENOINFO;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument) {
  (void)space, (void)cursor, (void)argument;
  return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *buffer, size_t length, unw_word_t *offset,
                         void *argument) {
  (void)space, (void)address, (void)buffer, (void)length, (void)offset, (void)argument;
  return -UNW_ENOINFO;
}

cunwind_unwinder *cunwind_unwinder_create(cunwind_process *process) {
  if (!libunwind.loaded) return NULL;
  cunwind_unwinder *u = calloc(1, sizeof *u);
  if (u == NULL) return NULL;
  u->process = process;
  // libunwind copies as many accessors as its own version has, and skips optional ones that are NULL.
  union {
    unw_accessors_t named;
    void *room[32];
  } accessors;
  memset(&accessors, 0, sizeof accessors);
  accessors.named = (unw_accessors_t){
      .find_proc_info = cunwind_find_proc_info,
      .put_unwind_info = put_unwind_info,
      .get_dyn_info_list_addr = get_dyn_info_list_addr,
      .access_mem = access_mem,
      .access_reg = access_reg,
      .access_fpreg = access_fpreg,
      .resume = resume,
      .get_proc_name = get_proc_name,
  };
  u->space = libunwind.create_addr_space(&accessors.named, 0);
  if (u->space == NULL) {
    free(u);
    return NULL;
  }
  libunwind.set_caching_policy(u->space, UNW_CACHE_GLOBAL);
  return u;
}

void cunwind_unwinder_destroy(cunwind_unwinder *u) {
  if (u == NULL) return;
  libunwind.destroy_addr_space(u->space);
  free(u);
}

void cunwind_unwinder_flush(cunwind_unwinder *u) {
  libunwind.flush_cache(u->space, 0, 0);
  u->process->access->refresh(u->process, true);
}

static bool finds_function(cunwind_unwinder *u, uint64_t address) {
  static const cunwind_snapshot none;
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  u->snapshot = &none;
  u->loads_left = CUNWIND_STEP_LOADS;
  return cunwind_find_proc_info(u->space, address, &procedure, 0, u) >= 0 &&
         procedure.start_ip == cunwind_function_start(u->process, address);
}

const char *cunwind_learn_table_layout(void) {
  uint64_t function = (uint64_t)(uintptr_t)libunwind.create_addr_space;
  unsigned char byte;
  if (cunwind_read(&cunwind_own, function, &byte, sizeof byte) == 0) {
    return "the process cannot read its own memory (no /proc/self/mem)";
  }
  cunwind_unwinder *u = cunwind_unwinder_create(&cunwind_own);
  if (u == NULL) return NULL;
  libunwind.has_load_offset = true;
  bool is_known = finds_function(u, function);
  if (!is_known) {
    libunwind.has_load_offset = false;
    is_known = finds_function(u, function);
  }
  cunwind_unwinder_destroy(u);
  return is_known ? NULL : "libunwind does not read unwind tables as its versions 1.3 to 1.8 do";
}

bool cunwind_has_unwind_information(cunwind_unwinder *u, uint64_t address) {
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  return cunwind_find_proc_info(u->space, address, &procedure, 0, u) >= 0;
}

#endif
