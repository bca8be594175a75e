// The calls of a function: in its own module directly, in others through the entry of a linkage table.
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "../snapshot_internal.h"
#include "callers.h"

// Bytes of code that are searched at most.
#define CODE_MAX (32u << 20)
// The most that the search may take; some milliseconds are usual.
#define TIME_MAX_NS (500000000ull * CUNWIND_PATIENCE)
// Places in one module that lead to the function.
#define TARGETS_MAX 16u
#define CHUNK 1024u
// Functions that jump to each other as their last action, before the one that blocks.
#define JUMPS_MAX 3u

struct code_search {
  cunwind_unwinder *u;
  const struct cunwind_arguments *arguments;
  bool (*body)(void *argument, uint64_t call);
  void *argument;
  uint64_t searched, end_time;
  bool is_whole, is_over;
  // The module that has the function.
  uint64_t own;
  // Of the module that is searched.
  uint64_t targets[TARGETS_MAX];
  unsigned count, first;
};

static bool read_all(struct code_search *s, uint64_t address, void *to, size_t length) {
  return cunwind_read_exactly(s->u->process, address, to, length);
}

static void add_target(struct code_search *s, uint64_t target) {
  for (unsigned i = 0; i < s->count; i++)
    if (s->targets[i] == target) return;
  if (s->count < TARGETS_MAX)
    s->targets[s->count++] = target;
  else
    s->is_whole = false;
}

static void find_entry(struct code_search *s, uint64_t address, uint32_t code) {
  // adrp x16: the first instruction of an entry, or the second behind `bti`.
  if ((code & 0x9f00001fu) != 0x90000010u || cunwind_resolve_target(s->u, address) != s->arguments->function) return;
  uint32_t before;
  bool has_landing = cunwind_read_instruction(s->u, address - 4, &before) && (before & 0xffffff3fu) == 0xd503241fu;
  add_target(s, has_landing ? address - 4 : address);
  if (has_landing) add_target(s, address);
}

static void find_branch(struct code_search *s, uint64_t address, uint32_t code) {
  // bl, and b as a function's last action.
  if ((code & 0x7c000000u) != 0x14000000u) return;
  uint64_t target = address + (uint64_t)(cunwind_signed_bits(code, 0, 26) * 4);
  bool is_target = false;
  for (unsigned i = s->first; i < s->count && !is_target; i++) is_target = s->targets[i] == target;
  if (!is_target) return;
  if (cunwind_is_call(code)) {
    s->is_over = !s->body(s->argument, address);
    return;
  }
  uint64_t start = cunwind_function_start(s->u->process, address);
  if (start == 0 || start == target) return;
  if (cunwind_arguments_fit(s->u, s->arguments, start, address + CUNWIND_REST_OF_FUNCTION, address, 0, CUNWIND_NO_FRAME_POINTER))
    add_target(s, start);
}

typedef void (*instruction_body)(struct code_search *s, uint64_t address, uint32_t code);

static void search_part(struct code_search *s, uint64_t at, uint64_t end, instruction_body body) {
  uint32_t code[CHUNK];
  size_t wanted = end - at < sizeof code ? (size_t)(end - at) : sizeof code;
  s->searched += wanted;
  if (s->searched > CODE_MAX || cunwind_now_ns() > s->end_time || !read_all(s, at, code, wanted)) {
    s->is_whole = false;
    return;
  }
  for (size_t i = 0; i < wanted / sizeof *code && !s->is_over; i++) body(s, at + 4 * i, code[i]);
}

static void search_segment(struct code_search *s, uint64_t start, uint64_t end, bool for_entries) {
  const uint64_t size = 4 * CHUNK;
  if (!for_entries) {
    for (uint64_t at = start; at < end && s->is_whole && !s->is_over; at += size) search_part(s, at, end, find_branch);
    return;
  }
  // Linkers put the table in front of all other code or behind it.
  uint64_t parts = (end - start + size - 1) / size;
  for (uint64_t i = 0; i < (parts + 1) / 2 && s->is_whole && s->count == 0; i++) {
    search_part(s, start + (parts - 1 - i) * size, end, find_entry);
    if (s->count == 0) search_part(s, start + i * size, end, find_entry);
  }
}

// Whether one of the module's slots of its linkage table has the function's address.
static bool imports(struct code_search *s, const struct cunwind_image *image) {
  uint64_t relocations = 0, size = 0, first_slot, words[CHUNK];
  for (unsigned i = 0; i < 128 && image->dynamic != 0; i++) {
    ElfW(Dyn) entry;
    if (!read_all(s, image->dynamic + i * sizeof entry, &entry, sizeof entry) || entry.d_tag == DT_NULL) break;
    // The loader has already turned this address into an absolute one, but for the vDSO's.
    if (entry.d_tag == DT_JMPREL) relocations = entry.d_un.d_ptr;
    if (entry.d_tag == DT_PLTRELSZ) size = entry.d_un.d_val;
  }
  ElfW(Rela) first;
  if (relocations == 0) return false;
  if (!read_all(s, relocations, &first, sizeof first)) return s->is_whole = false;
  first_slot = image->load_bias + first.r_offset;
  // The slots follow each other as their relocations do.
  uint64_t count = size / sizeof first;
  for (uint64_t done = 0; done < count; done += CHUNK) {
    size_t part = count - done < CHUNK ? (size_t)(count - done) : CHUNK;
    if (!read_all(s, first_slot + 8 * done, words, 8 * part)) return s->is_whole = false;
    for (size_t i = 0; i < part; i++)
      if (words[i] == s->arguments->function) return true;
  }
  return false;
}

static void search_module(struct code_search *s, const struct cunwind_image *image, bool is_own) {
  s->count = s->first = 0;
  if (is_own) add_target(s, s->arguments->function);
  if (!is_own && !imports(s, image)) return;
  const uint64_t count = image->header_count;
  if (count == 0 || count > CUNWIND_SEGMENTS_MAX) {
    s->is_whole = false;
    return;
  }
  // Entries first; then calls; then the calls of functions that jump, and so on.
  for (unsigned pass = is_own ? 1 : 0; pass <= JUMPS_MAX + 1; pass++) {
    unsigned known = s->count;
    for (unsigned i = 0; i < count; i++) {
      ElfW(Phdr) segment;
      if (!read_all(s, image->headers + i * sizeof segment, &segment, sizeof segment)) {
        s->is_whole = false;
        return;
      }
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      uint64_t start = image->load_bias + segment.p_vaddr;
      search_segment(s, start, start + (segment.p_filesz & ~3ull), pass == 0);
    }
    if (pass > 0) s->first = known;
    if (pass == JUMPS_MAX + 1 && s->count > known) s->is_whole = false;
    if (s->is_over || (pass > 0 && s->first == s->count)) break;
  }
}

static bool search_next(void *argument, const struct cunwind_image *image) {
  struct code_search *s = argument;
  search_module(s, image, image->identity == s->own);
  return !s->is_over;
}

bool cunwind_each_call(cunwind_unwinder *u, const struct cunwind_arguments *arguments,
                       bool (*body)(void *argument, uint64_t call), void *argument) {
  struct code_search s = {
      .u = u, .arguments = arguments, .body = body, .argument = argument, .is_whole = true};
  s.end_time = cunwind_now_ns() + TIME_MAX_NS;
  struct cunwind_mapping own;
  if (!cunwind_find_mapping(u->process, arguments->function, &own)) return false;
  s.own = own.identity;
  return u->process->access->each_image(u->process, &own, search_next, &s) && s.is_whole;
}

#endif
