// Whether a call can be the one that has led to a system call, by the arguments: what the code in front of it puts into
// registers must be what the kernel was given.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "callers.h"

// X0 to X5, and X8 for the call's number.
#define NUMBER 8u
// Instructions in front of a call, and of a function that makes a system call.
#define LENGTH 16u

// The zero register or the stack pointer.
#define REGISTER_31 31u

static bool is_branch(uint32_t code) {
  return (code & 0x1c000000u) == 0x14000000u && (code & 0xfe000000u) != 0xd4000000u;
}

static bool is_store(uint32_t code) {
  // Of the loads and stores those that write no register of the lowest field.
  return (code & 0x0a000000u) == 0x08000000u && (code & 0x00400000u) == 0;
}

static bool is_move(uint32_t code, unsigned *from) {
  *from = code >> 16 & 31;
  return (code & 0x7fe0ffe0u) == 0x2a0003e0u;
}

void cunwind_entry_arguments(cunwind_unwinder *u, uint64_t start, uint64_t call_end,
                             struct cunwind_arguments *arguments) {
  // Which register of the function's beginning each one has now; none if another instruction has written it.
  unsigned origin[32];
  for (unsigned i = 0; i < 32; i++) origin[i] = i;
  memset(arguments, 0, sizeof *arguments);
  if (call_end - start > 4 * 2 * LENGTH) return;
  for (uint64_t at = start; at < call_end; at += 4) {
    uint32_t code;
    unsigned from;
    if (!cunwind_read_instruction(u, at, &code)) return;
    if (is_branch(code) || is_store(code) || (code & 0xfe000000u) == 0xd4000000u) continue;
    unsigned to = code & 31;
    if (to != REGISTER_31) origin[to] = is_move(code, &from) && from != REGISTER_31 ? origin[from] : REGISTER_31;
  }
  for (unsigned i = 0; i <= NUMBER; i++) {
    if (i > 5 && i != NUMBER) continue;
    if (origin[i] >= CUNWIND_ARGUMENT_REGISTERS || (u->snapshot->known >> i & 1) == 0) continue;
    arguments->value[origin[i]] = u->snapshot->registers[i];
    arguments->known |= 1u << origin[i];
  }
}

static int64_t field(uint32_t code, unsigned low, unsigned count) {
  return (int64_t)((uint64_t)code << (64 - low - count)) >> (64 - count);
}

// Where `code` loads a register from, if the base is known; 0 if it is no such load.
static uint64_t load_address(uint32_t code, const uint64_t value[32], uint32_t known) {
  unsigned from = code >> 5 & 31;
  if ((known >> from & 1) == 0) return 0;
  if ((code & 0xbfc00000u) == 0xb9400000u) return value[from] + (uint64_t)(code >> 10 & 0xfff) * (code >> 30 == 3 ? 8 : 4);
  if ((code & 0xbfe00c00u) == 0xb8400000u) return value[from] + (uint64_t)field(code, 12, 9);
  return 0;
}

// Runs an instruction as far as constants, places on the stack and what is loaded from known places go. Anything else
// makes the register unknown.
static void run(cunwind_unwinder *u, uint32_t code, uint64_t at, uint64_t value[32], uint32_t *known) {
  unsigned to = code & 31, from = code >> 5 & 31, moved;
  bool is_wide = code >> 31 != 0;
  uint64_t result = 0, place = load_address(code, value, *known);
  bool is_known = false;
  if (is_store(code) || (code & 0xfe000000u) == 0xd4000000u) return;
  if ((code & 0x1f800000u) == 0x12800000u) {  // movn, movz, movk
    uint64_t bits = (uint64_t)(code >> 5 & 0xffff) << (code >> 21 & 3) * 16;
    unsigned kind = code >> 29 & 3;
    uint64_t hole = 0xffffull << (code >> 21 & 3) * 16;
    is_known = kind != 3 || (*known >> to & 1) != 0;
    result = kind == 0 ? ~bits : kind == 2 ? bits : (value[to] & ~hole) | bits;
    if (!is_wide) result &= 0xffffffffu;
  } else if (is_move(code, &moved)) {
    is_known = moved == REGISTER_31 || (*known >> moved & 1) != 0;
    result = moved == REGISTER_31 ? 0 : value[moved];
    if (!is_wide) result &= 0xffffffffu;
  } else if ((code & 0xff800000u) == 0x91000000u) {  // add of an immediate
    is_known = (*known >> from & 1) != 0;
    result = value[from] + ((uint64_t)(code >> 10 & 0xfff) << ((code >> 22 & 1) != 0 ? 12 : 0));
  } else if ((code & 0xff800000u) == 0xd1000000u) {  // sub
    is_known = (*known >> from & 1) != 0;
    result = value[from] - ((uint64_t)(code >> 10 & 0xfff) << ((code >> 22 & 1) != 0 ? 12 : 0));
  } else if ((code & 0x9f000000u) == 0x90000000u) {  // adrp
    is_known = true;
    result = (at & ~0xfffull) + (uint64_t)((field(code, 5, 19) * 4 + (code >> 29 & 3)) * 4096);
  } else if (place != 0) {
    is_known = cunwind_read_word(u, place, &result);
    if (code >> 30 == 2) result &= 0xffffffffu;
  } else if ((code & 0x3a400000u) == 0x28400000u) {  // a pair is loaded
    *known &= ~(1u << (code >> 10 & 31));
  }
  // Register 31 is the stack pointer here, which calls need where it is.
  if (to == REGISTER_31) return;
  value[to] = result;
  *known = is_known ? *known | 1u << to : *known & ~(1u << to);
}

bool cunwind_arguments_fit(cunwind_unwinder *u, const struct cunwind_arguments *arguments, uint64_t start,
                           uint64_t call, uint64_t sp, uint64_t frame_pointer) {
  uint64_t value[32] = {0};
  uint32_t known = sp != 0 ? 1u << REGISTER_31 : 0, code;
  value[REGISTER_31] = sp;
  if (frame_pointer != CUNWIND_NO_FRAME_POINTER) value[CUNWIND_FRAME_POINTER] = frame_pointer, known |= 1u << 29;
  uint64_t first = call;
  while (first > start && call - first < 4 * LENGTH && cunwind_read_instruction(u, first - 4, &code) && !is_branch(code))
    first -= 4;
  for (uint64_t at = first; at < call; at += 4) {
    if (!cunwind_read_instruction(u, at, &code)) return true;
    run(u, code, at, value, &known);
  }
  for (unsigned i = 0; i < CUNWIND_ARGUMENT_REGISTERS; i++)
    if ((known & arguments->known) >> i & 1 && value[i] != arguments->value[i]) return false;
  return true;
}

#endif
