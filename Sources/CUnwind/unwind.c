#define _GNU_SOURCE
#include "cunwind_unwind.h"

#include <stdlib.h>
#include <string.h>

#include "libunwind_table.h"
#include "unwind_code.h"

#if defined(__x86_64__)

#define PAGE 4096u
#define CACHED_PAGES 64u
// How far the code of a function without unwind information may lie from its start, and how far up its return address,
// in words.
#define GAP_LENGTH 4096u
#define GAP_WORDS 256u
// Words that one step may read: a few hundred, unless the tables hold an expression that goes round for ever.
#define STEP_LOADS 65536u
// Frame pointers that are tried before the first one has to do.
#define CANDIDATES 16u
// Frames between a recovered frame and the stack pointer that a scan looks at: 64 KiB.
#define SCAN_LIMIT 8192u

// Unwind tables, code and stack outside the copy are read through the kernel, a page at a time: a table that another
// thread unmaps is a missing frame and not a crash. Pages are kept for one unwinding only, as the stack in them goes
// stale; what was learnt from the tables stays in libunwind's own cache.
struct cunwind_unwinder {
  unw_addr_space_t space;
  const cunwind_snapshot *snapshot;
  // The registers of the frame that the cursor starts from.
  uint64_t registers[CUNWIND_REGISTERS];
  uint32_t known;
  bool wanted_frame_pointer;
  bool guessed;
  bool read_live;
  // What the innermost function has just popped lay at `popped_end` - 8, - 16 and so on.
  uint64_t popped_end, popped[CUNWIND_POPS_MAX];
  size_t popped_count;
  uint32_t loads_left;
  // The module that memory outside the copy was last read from.
  uint64_t table_start, table_end;
  uint64_t page_address[CACHED_PAGES];
  unsigned char page[CACHED_PAGES][PAGE];
};

static bool read_cached(cunwind_unwinder *u, uint64_t address, void *to, size_t length) {
  unsigned char *out = to;
  while (length > 0) {
    uint64_t base = address & ~(uint64_t)(PAGE - 1);
    size_t index = (size_t)(base / PAGE % CACHED_PAGES), offset = (size_t)(address - base);
    size_t part = length < PAGE - offset ? length : PAGE - offset;
    // Nothing lies there, and 0 says that a page is not kept.
    if (base == 0) return false;
    if (u->page_address[index] != base) {
      u->page_address[index] = 0;
      if (cunwind_read(base, u->page[index], PAGE) != PAGE) return false;
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

// Whether `address` is where unwinding reads tables and code.
static bool is_table(cunwind_unwinder *u, uint64_t address) {
  if (address - u->table_start < u->table_end - u->table_start) return true;
  struct dl_find_object object;
  if (_dl_find_object((void *)(uintptr_t)address, &object) != 0) return false;
  u->table_start = (uint64_t)(uintptr_t)object.dlfo_map_start;
  u->table_end = (uint64_t)(uintptr_t)object.dlfo_map_end;
  return true;
}

// Keeps the words that the innermost function has popped.
//
// GCC's tables say of an epilogue that the registers still lie in memory, below the stack pointer. A perf sample has
// nothing from there, and the thread has written over it since.
static void keep_popped(cunwind_unwinder *u) {
  unsigned char code[2 * CUNWIND_POPS_MAX], registers[CUNWIND_POPS_MAX];
  u->popped_end = u->registers[CUNWIND_RSP];
  u->popped_count = 0;
  if (!read_cached(u, u->registers[CUNWIND_RIP] - sizeof code, code, sizeof code)) return;
  size_t count = cunwind_pops_before(code, sizeof code, registers);
  for (size_t i = 0; i < count && (u->known >> registers[i] & 1) != 0; i++)
    u->popped[u->popped_count++] = u->registers[registers[i]];
}

static bool read_word(cunwind_unwinder *u, uint64_t address, uint64_t *value) {
  if (in_copy(u->snapshot, address, sizeof *value)) {
    memcpy(value, u->snapshot->stack + (address - u->snapshot->stack_address), sizeof *value);
    return true;
  }
  uint64_t below = u->popped_end - address;
  if (address < u->popped_end && below % 8 == 0 && below / 8 <= u->popped_count) {
    *value = u->popped[below / 8 - 1];
    return true;
  }
  if (!read_cached(u, address, value, sizeof *value)) return false;
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
  if (u->loads_left == 0 || !read_word(u, address, &word)) return -UNW_EINVAL;
  u->loads_left--;
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

void cunwind_unwinder_flush(cunwind_unwinder *u) { libunwind.flush_cache(u->space, 0, 0); }

// -- What is being unwound

struct walk {
  unw_cursor_t cursor;
  cunwind_frame *frames;
  size_t capacity;
  cunwind_backtrace result;
  // The frame that the cursor stands at, and where its stack was entered.
  uint64_t ip, sp, entered;
};

// A return address is looked up at its call.
static uint64_t lookup_address(const struct walk *w) {
  return w->frames[w->result.count - 1].is_return_address ? w->ip - 1 : w->ip;
}

// Lets the cursor begin anew at `ip` and `sp`. What inner frames have saved of the preserved registers stays known.
static bool begin_at(cunwind_unwinder *u, struct walk *w, uint64_t ip, uint64_t sp) {
  static const int preserved[] = {3, CUNWIND_RBP, 12, 13, 14, 15};
  uint64_t registers[CUNWIND_REGISTERS] = {0};
  uint32_t known = 1u << CUNWIND_RIP | 1u << CUNWIND_RSP;
  for (size_t i = 0; i < sizeof preserved / sizeof *preserved; i++) {
    unw_word_t value;
    if (libunwind.get_reg(&w->cursor, preserved[i], &value) != 0) continue;
    registers[preserved[i]] = value;
    known |= 1u << preserved[i];
  }
  registers[CUNWIND_RIP] = ip;
  registers[CUNWIND_RSP] = sp;
  memcpy(u->registers, registers, sizeof registers);
  u->known = known;
  return libunwind.init_remote(&w->cursor, u->space, u) == 0;
}

static bool has_unwind_information(cunwind_unwinder *u, uint64_t address) {
  unw_proc_info_t procedure;
  memset(&procedure, 0, sizeof procedure);
  return find_proc_info(u->space, address, &procedure, 0, u) >= 0;
}

// Whether a signal's handler returns to `address`: `mov $__NR_rt_sigreturn,%rax; syscall` in glibc, musl and Go.
static bool is_signal_return(cunwind_unwinder *u, uint64_t address) {
  unsigned char code[9];
  return read_cached(u, address, code, sizeof code) && memcmp(code, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", sizeof code) == 0;
}

// Whether the cursor stands where the kernel's frame of a signal lies at the stack pointer: before the call, or at it.
static bool is_at_signal_return(cunwind_unwinder *u, const struct walk *w) {
  return is_signal_return(u, w->ip) || (!w->frames[w->result.count - 1].is_return_address && is_signal_return(u, w->ip - 7));
}

// -- RBP of a blocked thread

enum match { NO_MATCH, FOLLOWS_A_CALL, CALLED_THIS_FUNCTION };

// What called the function that begins at `function`, if it returns to `return_address`.
static enum match match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target) {
  struct dl_find_object object;
  unsigned char code[8];
  int32_t displacement = 0;
  *target = 0;
  if (_dl_find_object((void *)(uintptr_t)return_address, &object) != 0) return NO_MATCH;
  if (!read_cached(u, return_address - 8, code, sizeof code)) return NO_MATCH;
  switch (cunwind_call_before(code, &displacement)) {
    case 2:
      *target = return_address + (uint64_t)(int64_t)displacement;
      return FOLLOWS_A_CALL;
    case 1:
      return FOLLOWS_A_CALL;
    default:
      // The kernel calls a signal's handler.
      return is_signal_return(u, return_address) ? CALLED_THIS_FUNCTION : NO_MATCH;
  }
}

// Whether a frame pointer could be `candidate` in the function that begins at `function`.
static enum match match_frame(cunwind_unwinder *u, uint64_t candidate, uint64_t function) {
  uint64_t return_address, target;
  if (!read_word(u, candidate + 8, &return_address)) return NO_MATCH;
  enum match match = match_call(u, return_address, &target);
  return match == FOLLOWS_A_CALL && target == function ? CALLED_THIS_FUNCTION : match;
}

static bool links_upwards(cunwind_unwinder *u, uint64_t candidate) {
  uint64_t saved;
  return read_word(u, candidate, &saved) && saved > candidate &&
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
  u->loads_left = STEP_LOADS;
  if (find_proc_info(u->space, lookup, &procedure, 0, u) < 0) return false;
  if (!read_cached(u, procedure.start_ip, code, sizeof code)) return false;
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
    enum match wanted = search->stage == CALLED_DIRECTLY ? CALLED_THIS_FUNCTION : FOLLOWS_A_CALL;
    while (search->next < SCAN_LIMIT) {
      *candidate = search->begins + 8 * search->next++;
      if (!in_copy(u->snapshot, *candidate, 16)) break;
      if (wanted == FOLLOWS_A_CALL && !links_upwards(u, *candidate)) continue;
      if (match_frame(u, *candidate, search->function) >= wanted) return true;
    }
  }
  return false;
}

// -- Code without unwind information

// Whether `at` lies on the stack: what a handler with a stack of its own has interrupted is not in the copy, and as far as it can be read.
static bool is_on_stack(cunwind_unwinder *u, const struct walk *w, uint64_t at) {
  return in_copy(u->snapshot, at, 8) || !in_copy(u->snapshot, w->sp, 8);
}

// Whether the word at `at` of the stack is an address that follows a call.
static bool returns_to_call(cunwind_unwinder *u, const struct walk *w, uint64_t at, uint64_t *caller) {
  uint64_t target;
  return is_on_stack(u, w, at) && read_word(u, at, caller) && match_call(u, *caller, &target) == FOLLOWS_A_CALL;
}

// Whether a function could begin at `start`: compilers align them to 16 bytes, behind a return or padding.
static bool could_begin(cunwind_unwinder *u, uint64_t start) {
  unsigned char last;
  if (!read_cached(u, start - 1, &last, 1)) return false;
  return last == 0xc3 || last == 0xcc || last == 0x90 || last == 0x00;
}

// Steps over a function in a module that says nothing of it: an entry of a procedure linkage table, .init, or one of
// the helpers that the Swift compiler makes (outlined copies, value witnesses). Its return address is the word that
// follows a call, to it or through a pointer, with as much below it as its prologue takes.
static bool step_over_gap(cunwind_unwinder *u, struct walk *w) {
  uint64_t lookup = lookup_address(w), caller = 0, at = 0, target;
  bool is_call = w->frames[w->result.count - 1].is_return_address, found = false, exact = true;
  struct dl_find_object object;
  unsigned char code[48];
  struct cunwind_saves saves = {.count = 0, .depth = 0};
  bool in_module = _dl_find_object((void *)(uintptr_t)lookup, &object) == 0;
  for (uint64_t i = 0; in_module && i < GAP_WORDS && !found; i++) {
    at = w->sp + 8 * i;
    if (!is_on_stack(u, w, at) || !read_word(u, at, &caller)) break;
    if (match_call(u, caller, &target) != FOLLOWS_A_CALL || target > lookup || lookup - target >= GAP_LENGTH) continue;
    if (has_unwind_information(u, target) || !read_cached(u, target, code, sizeof code)) continue;
    saves = cunwind_prologue_saves(code, sizeof code);
    found = is_call ? saves.depth == 8 * i : saves.depth >= 8 * i;
  }
  if (in_module && !found && !is_call && read_cached(u, lookup, code, 8) && cunwind_is_jump_stub(code)) {
    // Jumped to.
    at = w->sp;
    saves.count = 0;
    found = returns_to_call(u, w, at, &caller);
  }
  // Called through a pointer: the nearest start before it whose prologue fits.
  for (uint64_t start = lookup & ~15ull; in_module && !found && lookup - start < GAP_LENGTH; start -= 16) {
    if (!could_begin(u, start) || !read_cached(u, start, code, sizeof code)) continue;
    if (has_unwind_information(u, start)) break;
    // What of it has run; if some has been taken back since, at the function's end, that is a guess.
    saves = cunwind_prologue_saves(code, lookup - start < sizeof code ? lookup - start : sizeof code);
    if (saves.depth / 8 >= GAP_WORDS) continue;
    for (uint64_t depth = saves.depth; !found; depth -= 8) {
      at = w->sp + depth;
      found = returns_to_call(u, w, at, &caller);
      exact = depth == saves.depth;
      if (is_call || depth < 8) break;
    }
  }
  // The module is gone, as after dlclose.
  for (uint64_t i = 0; !in_module && !is_call && !found && i < 4; i++) {
    at = w->sp + 8 * i;
    found = returns_to_call(u, w, at, &caller);
    exact = false;
  }
  if (!found || !begin_at(u, w, caller - 1, at + 8)) return false;
  // Pushed first and popped last: whatever has been pushed lies right below the return address.
  for (size_t i = 0; i < saves.count && at - 8 * (i + 1) >= w->sp; i++) {
    uint64_t value;
    if (!read_word(u, at - 8 * (i + 1), &value)) continue;
    u->registers[saves.registers[i]] = value;
    // What is not preserved across calls is of no use to the caller.
    if (0xf048u >> saves.registers[i] & 1) u->known |= 1u << saves.registers[i];
  }
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  w->frames[w->result.count++] = (cunwind_frame){caller, true};
  w->result.approximate |= !exact;
  w->ip = caller;
  w->sp = at + 8;
  return true;
}

// Goes on from a signal's handler with the registers of what it has interrupted: an instruction and not a call, on a stack that may lie
// anywhere. The kernel has put them where the handler returns to, whatever the unwind tables say of that (struct ucontext: 40 bytes, then
// struct sigcontext_64 of asm/sigcontext.h).
static bool step_over_signal(cunwind_unwinder *u, struct walk *w) {
  static const unsigned char order[CUNWIND_REGISTERS] = {
      8, 9, 10, 11, 12, 13, 14, 15, 5, 4, CUNWIND_RBP, 3, 1, 0, 2, CUNWIND_RSP, CUNWIND_RIP};
  uint64_t registers[CUNWIND_REGISTERS];
  for (size_t i = 0; i < CUNWIND_REGISTERS; i++)
    if (!read_word(u, w->sp + 40 + 8 * i, &registers[order[i]])) return false;
  // Anything between is garbage, and might go round for ever.
  bool is_further_up = registers[CUNWIND_RSP] > w->sp;
  if (!is_further_up && registers[CUNWIND_RSP] >= w->entered) return false;
  memcpy(u->registers, registers, sizeof registers);
  u->known = (1u << CUNWIND_REGISTERS) - 1;
  if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return false;
  w->ip = registers[CUNWIND_RIP];
  w->sp = registers[CUNWIND_RSP];
  if (!is_further_up) w->entered = w->sp;
  w->frames[w->result.count++] = (cunwind_frame){w->ip, false};
  return true;
}

// -- Stepping

// Unwinds until the end, or until a frame needs an RBP that nobody knows: then true, with the cursor at that frame.
static bool walk(cunwind_unwinder *u, struct walk *w) {
  w->result.end = CUNWIND_END_LOST;
  for (;;) {
    if (w->result.count == w->capacity) {
      w->result.end = CUNWIND_END_LIMIT;
      return false;
    }
    u->wanted_frame_pointer = false;
    u->guessed = false;
    u->loads_left = STEP_LOADS;
    if (is_at_signal_return(u, w)) {
      if (!step_over_signal(u, w)) return false;
      continue;
    }
    unw_cursor_t before = w->cursor;
    int step = libunwind.step(&w->cursor);
    bool needs_frame_pointer = step < 0 && u->wanted_frame_pointer;
    if (u->guessed) {
      w->cursor = before;
      if (step_over_gap(u, w)) continue;
      u->guessed = true;
      w->cursor = before;
      step = libunwind.step(&w->cursor);
    }
    if (needs_frame_pointer) w->cursor = before;
    if (step < 0) return needs_frame_pointer;
    unw_word_t next_ip = 0, next_sp = 0;
    if (step > 0 && (libunwind.get_reg(&w->cursor, UNW_REG_IP, &next_ip) != 0 ||
                     libunwind.get_reg(&w->cursor, UNW_REG_SP, &next_sp) != 0))
      return false;
    if (step == 0 || next_ip == 0) {
      // Without unwind information it means that there is no frame pointer to follow.
      if (!u->guessed) w->result.end = CUNWIND_END_OUTERMOST;
      return false;
    }
    w->result.approximate |= u->guessed;
    // Callers lie further up (but vfork has its return address in a register): anything else is garbage, and might go round for ever.
    if (next_sp < w->sp || (next_sp == w->sp && next_ip == w->ip)) return false;
    // The kernel has made a handler return there, and nothing was called in front of it.
    w->frames[w->result.count++] = (cunwind_frame){next_ip, !is_signal_return(u, next_ip)};
    w->ip = next_ip;
    w->sp = next_sp;
  }
}

// Goes on from a frame that needs RBP with the first value of it that leads to the thread's outermost frame.
static void walk_with_frame_pointer(cunwind_unwinder *u, struct walk *w) {
  struct search search;
  const struct walk stopped = *w;
  uint64_t lookup = lookup_address(w), first = 0, candidate = 0;
  if (!begin_search(u, lookup, w->sp, &search)) return;
  bool first_is_approximate = false;
  // The stopped cursor knows where registers are, and some are here.
  uint64_t registers[CUNWIND_REGISTERS];
  memcpy(registers, u->registers, sizeof registers);
  const uint32_t known = u->known;
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
    if (!begin_at(u, w, lookup, w->sp)) return;
    u->registers[CUNWIND_RBP] = candidate;
    u->known |= 1u << CUNWIND_RBP;
    if (libunwind.init_remote(&w->cursor, u->space, u) != 0) return;
    walk(u, w);
    if (is_last || w->result.end != CUNWIND_END_LOST) return;
  }
}

// Whether `ip` lies in a procedure linkage table: on its way from a call to the function that is called.
static bool is_in_linkage_table(cunwind_unwinder *u, uint64_t ip) {
  unw_proc_info_t procedure;
  unsigned char code[8];
  memset(&procedure, 0, sizeof procedure);
  u->loads_left = STEP_LOADS;
  if (find_proc_info(u->space, ip, &procedure, 0, u) >= 0) {
    // GNU's linker describes a whole table; its first entry pushes the module before it jumps.
    if (!read_cached(u, procedure.start_ip, code, sizeof code)) return false;
    return cunwind_is_jump_stub(code) || (code[0] == 0xff && code[1] == 0x35);
  }
  // LLVM's does not. Behind an entry's jump come a push and another jump, for the first call.
  uint64_t entry = ip & ~15ull, offset = ip - entry;
  if (read_cached(u, ip, code, sizeof code) && cunwind_is_jump_stub(code)) return true;
  return (offset == 4 || offset == 6 || offset == 11) && read_cached(u, entry, code, sizeof code) &&
         cunwind_is_jump_stub(code);
}

cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  struct walk w = {.frames = frames, .capacity = capacity, .result = {.end = CUNWIND_END_LOST}};
  memset(u->page_address, 0, sizeof u->page_address);
  u->table_start = u->table_end = 0;
  u->snapshot = snapshot;
  u->read_live = false;
  memcpy(u->registers, snapshot->registers, sizeof u->registers);
  u->known = snapshot->known;
  if (capacity == 0 || libunwind.init_remote(&w.cursor, u->space, u) != 0) return w.result;
  w.ip = u->registers[CUNWIND_RIP];
  w.sp = w.entered = u->registers[CUNWIND_RSP];
  frames[w.result.count++] = (cunwind_frame){w.ip, false};
  keep_popped(u);
  if (walk(u, &w)) walk_with_frame_pointer(u, &w);
  // A linkage table's entry is no function: the caller is about to call.
  if (w.result.count > 1 && frames[1].is_return_address && is_in_linkage_table(u, frames[0].address))
    memmove(frames, frames + 1, --w.result.count * sizeof *frames);
  w.result.read_live = u->read_live;
  struct dl_find_object object;
  w.result.is_outside_modules =
      w.result.end == CUNWIND_END_LOST && _dl_find_object((void *)(uintptr_t)lookup_address(&w), &object) != 0;
  return w.result;
}

#else  // Other architectures: reports go out without a stack, and say so.

cunwind_unwinder *cunwind_unwinder_create(void) { return NULL; }
void cunwind_unwinder_destroy(cunwind_unwinder *u) { (void)u; }
void cunwind_unwinder_flush(cunwind_unwinder *u) { (void)u; }
cunwind_backtrace cunwind_unwind(cunwind_unwinder *u, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity) {
  (void)u, (void)snapshot, (void)frames, (void)capacity;
  return (cunwind_backtrace){.end = CUNWIND_END_LOST};
}

#endif
