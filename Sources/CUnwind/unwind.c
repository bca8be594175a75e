#define _GNU_SOURCE
#include "cunwind_unwind.h"

#include <stdlib.h>
#include <string.h>

#include "libunwind_table.h"

#if defined(__x86_64__)

#define PAGE 4096u
#define CACHED_PAGES 64u
// Frames between a recovered frame and the stack pointer that a scan looks at: 64 KiB.
#define SCAN_LIMIT 8192u

// Unwind tables and code are read through the kernel, a page at a time, and kept: a table that another thread unmaps
// is a missing frame and not a crash.
struct cunwind_unwinder {
  unw_addr_space_t space;
  const cunwind_snapshot *snapshot;
  // The registers of the frame that the cursor starts from.
  uint64_t registers[CUNWIND_REGISTERS];
  uint32_t known;
  bool wanted_frame_pointer;
  bool guessed;
  uint64_t page_address[CACHED_PAGES];
  unsigned char page[CACHED_PAGES][PAGE];
};

static bool read_cached(cunwind_unwinder *u, uint64_t address, void *to, size_t length) {
  unsigned char *out = to;
  while (length > 0) {
    uint64_t base = address & ~(uint64_t)(PAGE - 1);
    size_t index = (size_t)(base / PAGE % CACHED_PAGES), offset = (size_t)(address - base);
    size_t part = length < PAGE - offset ? length : PAGE - offset;
    if (u->page_address[index] != base) {
      u->page_address[index] = 0;
      if (base == 0 || cunwind_read(base, u->page[index], PAGE) != PAGE) return false;
      u->page_address[index] = base;
    }
    memcpy(out, u->page[index] + offset, part);
    out += part, address += part, length -= part;
  }
  return true;
}

static bool in_copy(const cunwind_snapshot *s, uint64_t address, size_t length) {
  return address >= s->stack_address && length <= s->stack_length &&
         address - s->stack_address <= s->stack_length - length;
}

static bool read_word(cunwind_unwinder *u, uint64_t address, uint64_t *value) {
  if (in_copy(u->snapshot, address, sizeof *value)) {
    memcpy(value, u->snapshot->stack + (address - u->snapshot->stack_address), sizeof *value);
    return true;
  }
  return read_cached(u, address, value, sizeof *value);
}

// -- libunwind's accessors

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *argument) {
  (void)space;
  if (write) return -UNW_EREADONLYREG;
  uint64_t word;
  if (!read_word(argument, address, &word)) return -UNW_EINVAL;
  *value = word;
  return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write, void *argument) {
  (void)space;
  cunwind_unwinder *u = argument;
  if (write) return -UNW_EREADONLYREG;
  if (number < 0 || number >= CUNWIND_REGISTERS) return -UNW_EBADREG;
  if ((u->known & 1u << number) == 0) {
    if (number == CUNWIND_RBP) u->wanted_frame_pointer = true;
    return -UNW_EBADREG;
  }
  *value = u->registers[number];
  return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write, void *argument) {
  (void)space, (void)number, (void)value, (void)write, (void)argument;
  return -UNW_EBADREG;
}

// The binary search table of .eh_frame_hdr (Linux Standard Base, "Exception Frames"): version 1, pointers encoded as
// 1b (pc-relative sdata4), count as 03 (udata4), table as 3b (data-relative sdata4); then eh_frame, count, table.
static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need_unwind_info,
                          void *argument) {
  cunwind_unwinder *u = argument;
  struct dl_find_object object;
  if (_dl_find_object((void *)(uintptr_t)ip, &object) != 0 || object.dlfo_eh_frame == NULL) {
    u->guessed = true;
    return -UNW_ENOINFO;
  }
  uint64_t header = (uint64_t)(uintptr_t)object.dlfo_eh_frame;
  unsigned char bytes[12];
  static const unsigned char expected[4] = {0x01, 0x1b, 0x03, 0x3b};
  if (!read_cached(u, header, bytes, sizeof bytes) || memcmp(bytes, expected, sizeof expected) != 0) {
    u->guessed = true;
    return -UNW_ENOINFO;
  }
  uint32_t count;
  memcpy(&count, bytes + 8, sizeof count);
  unw_dyn_info_t table;
  memset(&table, 0, sizeof table);
  table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  table.start_ip = (unw_word_t)(uintptr_t)object.dlfo_map_start;
  table.end_ip = (unw_word_t)(uintptr_t)object.dlfo_map_end;
  table.u.rti.segbase = header;
  table.u.rti.table_data = header + 12;
  // In words of 8 bytes, and an entry is two of 4.
  table.u.rti.table_len = count;
  int result = libunwind.dwarf_search_unwind_table(space, ip, &table, info, need_unwind_info, argument);
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

cunwind_unwinder *cunwind_unwinder_create(void) {
  if (!libunwind.loaded) return NULL;
  cunwind_unwinder *u = calloc(1, sizeof *u);
  if (u == NULL) return NULL;
  unw_accessors_t accessors = {
      .find_proc_info = find_proc_info,
      .put_unwind_info = put_unwind_info,
      .get_dyn_info_list_addr = get_dyn_info_list_addr,
      .access_mem = access_mem,
      .access_reg = access_reg,
      .access_fpreg = access_fpreg,
      .resume = resume,
      .get_proc_name = get_proc_name,
  };
  u->space = libunwind.create_addr_space(&accessors, 0);
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
  memset(u->page_address, 0, sizeof u->page_address);
}

// -- RBP of a blocked thread

int64_t cunwind_prologue_depth(const unsigned char *code, size_t length) {
  size_t at = 0;
  if (length >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) at = 4;  // endbr64
  if (at + 4 > length || code[at] != 0x55) return -1;                     // push %rbp
  at++;
  if (memcmp(code + at, "\x48\x89\xe5", 3) != 0 && memcmp(code + at, "\x48\x8b\xec", 3) != 0) return -1;
  at += 3;  // mov %rsp,%rbp
  int64_t depth = 0;
  while (at < length) {
    if (code[at] >= 0x50 && code[at] <= 0x57) {  // push %r
      depth += 8, at += 1;
    } else if (at + 2 <= length && code[at] == 0x41 && code[at + 1] >= 0x50 && code[at + 1] <= 0x57) {  // push %r8-15
      depth += 8, at += 2;
    } else if (at + 4 <= length && memcmp(code + at, "\x48\x83\xec", 3) == 0) {  // sub $imm8,%rsp
      return depth + (int8_t)code[at + 3];
    } else if (at + 7 <= length && memcmp(code + at, "\x48\x81\xec", 3) == 0) {  // sub $imm32,%rsp
      int32_t immediate;
      memcpy(&immediate, code + at + 3, sizeof immediate);
      return depth + immediate;
    } else if (at + 3 <= length && (code[at] == 0x48) && (code[at + 1] == 0x83 || code[at + 1] == 0x81) &&
               code[at + 2] == 0xe4) {  // and $imm,%rsp: the distance is not a constant
      return -1;
    } else {
      break;
    }
  }
  return depth;
}

int cunwind_call_before(const unsigned char code[8], int32_t *displacement) {
  if (code[3] == 0xe8) {
    memcpy(displacement, code + 4, sizeof *displacement);
    return 2;
  }
  // ff /2, with an optional REX prefix: 2 to 8 bytes that end at the return address.
  for (size_t length = 2; length <= 8; length++) {
    const unsigned char *at = code + 8 - length;
    size_t size = 2;
    if ((at[0] & 0xf0) == 0x40) at++, size++;
    if (at + 1 >= code + 8 || at[0] != 0xff || (at[1] >> 3 & 7) != 2) continue;
    unsigned mod = at[1] >> 6, rm = at[1] & 7;
    if (mod != 3 && rm == 4) {
      if (at + 2 >= code + 8) continue;
      size += 1;
      if (mod == 0 && (at[2] & 7) == 5) size += 4;
    }
    if (mod == 1) size += 1;
    if (mod == 2 || (mod == 0 && rm == 5)) size += 4;
    if (size == length) return 1;
  }
  return 0;
}

enum match { NO_MATCH, FOLLOWS_A_CALL, CALLED_THIS_FUNCTION };

// Whether a frame pointer could be `candidate` in the function that begins at `function`.
static enum match match_frame(cunwind_unwinder *u, uint64_t candidate, uint64_t function) {
  uint64_t return_address;
  struct dl_find_object object;
  unsigned char code[8];
  int32_t displacement = 0;
  if (!read_word(u, candidate + 8, &return_address)) return NO_MATCH;
  if (_dl_find_object((void *)(uintptr_t)return_address, &object) != 0) return NO_MATCH;
  if (!read_cached(u, return_address - 8, code, sizeof code)) return NO_MATCH;
  switch (cunwind_call_before(code, &displacement)) {
    case 2:
      return return_address + (uint64_t)(int64_t)displacement == function ? CALLED_THIS_FUNCTION : FOLLOWS_A_CALL;
    case 1:
      return FOLLOWS_A_CALL;
    default:
      return NO_MATCH;
  }
}

static bool links_upwards(cunwind_unwinder *u, uint64_t candidate) {
  uint64_t saved;
  return read_word(u, candidate, &saved) && saved > candidate &&
         saved - u->snapshot->stack_address < u->snapshot->stack_length + (1u << 20);
}

// The frame whose code address is `ip` needs RBP, and nobody further in has saved it. Its value is where the function's
// prologue put it: RSP plus what the prologue pushed and reserved.
static bool recover_frame_pointer(cunwind_unwinder *u, uint64_t function, uint64_t sp, uint64_t *frame_pointer,
                                  bool *scanned) {
  unsigned char code[48];
  if (!read_cached(u, function, code, sizeof code)) return false;
  int64_t depth = cunwind_prologue_depth(code, sizeof code);
  uint64_t first = sp + (depth > 0 ? (uint64_t)depth : 0);
  if (depth >= 0) {
    enum match match = match_frame(u, first, function);
    if (match == CALLED_THIS_FUNCTION || (match == FOLLOWS_A_CALL && links_upwards(u, first))) {
      *frame_pointer = first;
      return true;
    }
  }
  // An alloca or an argument area: look upwards, first for a call to this very function.
  *scanned = true;
  for (enum match wanted = CALLED_THIS_FUNCTION; wanted >= FOLLOWS_A_CALL; wanted--) {
    for (uint64_t i = 0; i < SCAN_LIMIT; i++) {
      uint64_t candidate = first + 8 * i;
      if (!in_copy(u->snapshot, candidate, 16)) break;
      if (links_upwards(u, candidate) && match_frame(u, candidate, function) >= wanted) {
        *frame_pointer = candidate;
        return true;
      }
    }
  }
  return false;
}

// -- Stepping

cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  cunwind_backtrace result = {.count = 0, .end = CUNWIND_END_LOST, .approximate = false};
  u->snapshot = snapshot;
  memcpy(u->registers, snapshot->registers, sizeof u->registers);
  u->known = snapshot->known;
  u->guessed = false;
  unw_cursor_t cursor;
  if (capacity == 0 || libunwind.init_remote(&cursor, u->space, u) != 0) return result;
  uint64_t ip = u->registers[CUNWIND_RIP], sp = u->registers[CUNWIND_RSP];
  frames[result.count++] = (cunwind_frame){ip, false};
  bool recovered = false;
  for (;;) {
    if (result.count == capacity) {
      result.end = CUNWIND_END_LIMIT;
      return result;
    }
    u->wanted_frame_pointer = false;
    u->guessed = false;
    unw_proc_info_t procedure;
    memset(&procedure, 0, sizeof procedure);
    // What a signal interrupted is an instruction, not a call.
    bool interrupted = libunwind.is_signal_frame(&cursor) > 0;
    int step = libunwind.step(&cursor);
    if (step < 0 && u->wanted_frame_pointer && !recovered) {
      // Start again from this frame, now with a frame pointer. A return address is looked up at its call.
      uint64_t lookup = frames[result.count - 1].is_return_address ? ip - 1 : ip, frame_pointer;
      if (find_proc_info(u->space, lookup, &procedure, 0, u) < 0) return result;
      bool scanned = false;
      if (!recover_frame_pointer(u, procedure.start_ip, sp, &frame_pointer, &scanned)) return result;
      result.approximate |= scanned;
      uint64_t restart[CUNWIND_REGISTERS] = {0};
      uint32_t known = 1u << CUNWIND_RIP | 1u << CUNWIND_RSP | 1u << CUNWIND_RBP;
      restart[CUNWIND_RIP] = lookup;
      restart[CUNWIND_RSP] = sp;
      restart[CUNWIND_RBP] = frame_pointer;
      // What inner frames have saved of the others stays known.
      static const int preserved[] = {3, 12, 13, 14, 15};
      for (size_t i = 0; i < sizeof preserved / sizeof *preserved; i++) {
        unw_word_t value;
        if (libunwind.get_reg(&cursor, preserved[i], &value) != 0) continue;
        restart[preserved[i]] = value;
        known |= 1u << preserved[i];
      }
      memcpy(u->registers, restart, sizeof restart);
      u->known = known;
      recovered = true;
      if (libunwind.init_remote(&cursor, u->space, u) != 0) return result;
      continue;
    }
    if (step == 0) {
      result.end = CUNWIND_END_OUTERMOST;
      return result;
    }
    if (step < 0) return result;
    result.approximate |= u->guessed;
    unw_word_t next_ip, next_sp;
    if (libunwind.get_reg(&cursor, UNW_REG_IP, &next_ip) != 0 || libunwind.get_reg(&cursor, UNW_REG_SP, &next_sp) != 0)
      return result;
    if (next_ip == 0) {
      result.end = CUNWIND_END_OUTERMOST;
      return result;
    }
    // A step that goes nowhere is garbage, and would go on for ever.
    if (next_ip == ip && next_sp == sp) return result;
    frames[result.count++] = (cunwind_frame){next_ip, !interrupted};
    ip = next_ip;
    sp = next_sp;
  }
}

#else  // Other architectures: reports go out without a stack, and say so.

cunwind_unwinder *cunwind_unwinder_create(void) { return NULL; }
void cunwind_unwinder_destroy(cunwind_unwinder *u) { (void)u; }
void cunwind_unwinder_flush(cunwind_unwinder *u) { (void)u; }
cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  (void)u, (void)snapshot, (void)frames, (void)capacity;
  return (cunwind_backtrace){0, CUNWIND_END_LOST, false};
}

#endif
