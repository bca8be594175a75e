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
// Bytes of a function on both sides of a call that are searched for branches to what is in front of it.
#define BRANCH_REACH (32u << 10)

// The zero register or the stack pointer.
#define REGISTER_31 31u

// brk, hlt and udf: what follows is reached by a branch alone.
static bool is_end(uint32_t code) { return (code & 0xff80001fu) == 0xd4000000u ? (code & 0x00600000u) != 0 : code < 0x10000u; }

static bool is_move(uint32_t code, unsigned *from) {
  *from = code >> 16 & 31;
  return (code & 0x7fe0ffe0u) == 0x2a0003e0u;
}

// The registers that an instruction which is no branch may write, a bit each; bit 31 is the stack pointer or none (Arm
// Architecture Reference Manual, C4.1).
static uint32_t written_by(uint32_t code) {
  const uint32_t lowest = 1u << (code & 31), base = 1u << (code >> 5 & 31), second = 1u << (code >> 10 & 31);
  const uint32_t status = 1u << (code >> 16 & 31);
  const bool is_vector = (code >> 26 & 1) != 0;
  if ((code & 0xff000000u) == 0xd4000000u) return 1;  // svc: the call's result
  if ((code & 0xff000000u) == 0xd5000000u) return (code >> 21 & 1) != 0 ? lowest : 0;
  if ((code & 0x0a000000u) != 0x08000000u) return lowest;
  if ((code & 0x3a000000u) == 0x28000000u)  // a pair, bit 23 with write-back
    return ((code >> 22 & 1) != 0 && !is_vector ? lowest | second : 0) | ((code >> 23 & 1) != 0 ? base : 0);
  if ((code & 0x3a000000u) == 0x38000000u) {  // one register
    const bool has_index = (code >> 24 & 1) == 0, is_store = (code >> 22 & 3) == 0 || is_vector;
    if (has_index && (code & 0x00200c00u) == 0x00200000u) return lowest;  // an atomic change
    const bool moves_base = has_index && (code & 0x00200400u) == 0x00000400u;
    return (is_store ? 0 : lowest) | (moves_base ? base : 0);
  }
  return lowest | second | status | base;  // exclusive ones, and those of several vectors
}

void cunwind_entry_arguments(cunwind_unwinder *u, uint64_t start, uint64_t call_end,
                             struct cunwind_arguments *arguments) {
  // Which register of the function's beginning each one has now; none if another instruction has written it.
  unsigned origin[32];
  for (unsigned i = 0; i < 32; i++) origin[i] = i;
  *arguments = (struct cunwind_arguments){.function = start};
  if (call_end - start > 4 * 2 * LENGTH) return;
  for (uint64_t at = start; at < call_end; at += 4) {
    uint32_t code;
    unsigned from;
    if (!cunwind_read_instruction(u, at, &code)) return;
    // Another system call is on another way through the function.
    if ((code & 0xff000000u) == 0xd4000000u) continue;
    // A call of another function leaves X19 to X28 (AAPCS64).
    uint32_t written = !cunwind_is_branch(code) ? written_by(code) : cunwind_is_call(code) ? 0x7ffffu : 0;
    for (unsigned to = 0; to < REGISTER_31; to++)
      if ((written >> to & 1) != 0)
        origin[to] = is_move(code, &from) && from != REGISTER_31 ? origin[from] : REGISTER_31;
  }
  for (unsigned i = 0; i <= NUMBER; i++) {
    if (i > 5 && i != NUMBER) continue;
    if (origin[i] >= CUNWIND_ARGUMENT_REGISTERS || (u->snapshot->known >> i & 1) == 0) continue;
    arguments->value[origin[i]] = u->snapshot->registers[i];
    arguments->known |= 1u << origin[i];
  }
}

// Whether register 31 is the stack pointer in an instruction that writes it: a base that is written back, or what is added
// to (without flags), or masked.
static bool moves_stack(uint32_t code, uint32_t written) {
  if ((written >> REGISTER_31 & 1) == 0) return false;
  if ((code & 0x0a000000u) == 0x08000000u) return (code >> 5 & 31) == REGISTER_31;
  return (code & 0x3f000000u) == 0x11000000u || (code & 0x3fe00000u) == 0x0b200000u ||
         ((code & 0x1f800000u) == 0x12000000u && (code >> 29 & 3) != 3);
}

// Whether an instruction may write to memory.
static bool stores(uint32_t code) {
  const bool is_vector = (code >> 26 & 1) != 0;
  if ((code & 0x0a000000u) != 0x08000000u || (code & 0x3b000000u) == 0x18000000u) return false;
  if ((code & 0x3a000000u) == 0x28000000u) return (code >> 22 & 1) == 0;
  if ((code & 0x3a000000u) != 0x38000000u || (code & 0x01200c00u) == 0x00200000u) return true;  // exclusive or atomic
  return (code >> 22 & (is_vector ? 1 : 3)) == 0;
}

// What is known of the registers, a bit each; which of that depends on where the stack pointer is, and which was loaded.
struct registers {
  uint64_t value[32];
  uint32_t known, relative, loaded;
};

// Where `code` loads a register from, if the base is known; 0 if it is no such load.
static uint64_t load_address(uint32_t code, const struct registers *r) {
  unsigned from = code >> 5 & 31;
  if ((r->known >> from & 1) == 0) return 0;
  if ((code & 0xbfc00000u) == 0xb9400000u)
    return r->value[from] + (uint64_t)(code >> 10 & 0xfff) * (code >> 30 == 3 ? 8 : 4);
  if ((code & 0xbfe00c00u) == 0xb8400000u) return r->value[from] + (uint64_t)cunwind_signed_bits(code, 12, 9);
  return 0;
}

// Runs an instruction as far as constants, places on the stack and what lies there go. Anything else makes the register
// unknown, also what is loaded from other memory: it may have changed since.
static void run(cunwind_unwinder *u, uint32_t code, uint64_t at, struct registers *r) {
  const unsigned to = code & 31, from = code >> 5 & 31;
  const uint64_t place = load_address(code, r), immediate = (uint64_t)(code >> 10 & 0xfff) << ((code >> 22 & 1) != 0 ? 12 : 0);
  const uint32_t written = written_by(code);
  unsigned moved;
  bool is_wide = code >> 31 != 0, is_known = false;
  // Of which registers' kinds the result is.
  uint32_t source = 0;
  uint64_t result = 0;
  if ((code & 0x1f800000u) == 0x12800000u) {  // movn, movz, movk
    uint64_t bits = (uint64_t)(code >> 5 & 0xffff) << (code >> 21 & 3) * 16;
    unsigned kind = code >> 29 & 3;
    uint64_t hole = 0xffffull << (code >> 21 & 3) * 16;
    is_known = kind != 3 || (r->known >> to & 1) != 0;
    if (kind == 3) source = 1u << to;
    result = kind == 0 ? ~bits : kind == 2 ? bits : (r->value[to] & ~hole) | bits;
    if (!is_wide) result &= 0xffffffffu;
  } else if (is_move(code, &moved)) {
    is_known = moved == REGISTER_31 || (r->known >> moved & 1) != 0;
    if (moved != REGISTER_31) source = 1u << moved;
    result = moved == REGISTER_31 ? 0 : r->value[moved];
    if (!is_wide) result &= 0xffffffffu;
  } else if ((code & 0xbf800000u) == 0x91000000u) {  // add, sub of an immediate
    is_known = (r->known >> from & 1) != 0;
    source = 1u << from;
    result = (code >> 30 & 1) == 0 ? r->value[from] + immediate : r->value[from] - immediate;
  } else if ((code & 0x9f000000u) == 0x90000000u) {  // adrp
    is_known = true;
    result = (at & ~0xfffull) + (uint64_t)((cunwind_signed_bits(code, 5, 19) * 4 + (code >> 29 & 3)) * 4096);
  } else if (place != 0) {
    is_known = cunwind_in_copy(u->snapshot, place, 8) && cunwind_read_word(u, place, &result);
    if (code >> 30 == 2) result &= 0xffffffffu;
  }
  const bool is_load = place != 0, is_relative = is_load || (r->relative & source) != 0, is_loaded = is_load || (r->loaded & source) != 0;
  r->known &= ~(written & ~(1u << REGISTER_31));
  // The memory is that of now: what was loaded before it was written is not there any more.
  if (stores(code)) r->known &= ~r->loaded;
  // The call needs the stack pointer where it is: with another one, places on the stack were others.
  if (moves_stack(code, written)) r->known &= ~(r->relative & ~(1u << REGISTER_31));
  if (to == REGISTER_31 || (written >> to & 1) == 0) return;
  r->value[to] = result;
  if (is_known) r->known |= 1u << to;
  r->relative = is_relative ? r->relative | 1u << to : r->relative & ~(1u << to);
  r->loaded = is_loaded ? r->loaded | 1u << to : r->loaded & ~(1u << to);
}

// Where a branch leads that has its target in itself; 0 if `code` is no such branch.
static uint64_t target_of_branch(uint32_t code, uint64_t at) {
  uint64_t target = cunwind_branch_target(code, at) + cunwind_call_target(code, at);
  if (target != 0) return target;
  if ((code & 0xfe000000u) == 0x54000000u || (code & 0x7e000000u) == 0x34000000u) return at + (uint64_t)(cunwind_signed_bits(code, 5, 19) * 4);
  if ((code & 0x7e000000u) == 0x36000000u) return at + (uint64_t)(cunwind_signed_bits(code, 5, 14) * 4);
  return 0;
}

// Where the instructions begin that are always run before a call, one after the other; the call itself if that is not
// known.
static uint64_t certain_start(cunwind_unwinder *u, uint64_t start, uint64_t end, uint64_t call) {
  uint64_t first = call;
  uint32_t code;
  while (first > start && call - first < 4 * LENGTH && cunwind_read_instruction(u, first - 4, &code) && !cunwind_is_branch(code) && !is_end(code))
    first -= 4;
  if (call - start > BRANCH_REACH || end - call > BRANCH_REACH) return call;
  for (uint64_t at = start; at < end; at += 4) {
    if (!cunwind_read_instruction(u, at, &code)) return call;
    uint64_t target = target_of_branch(code, at);
    if (target > first && target <= call) first = target;
    // By a table of places, which may be any.
    if (cunwind_is_indirect_branch(code)) return call;
  }
  return first;
}

bool cunwind_arguments_fit(cunwind_unwinder *u, const struct cunwind_arguments *arguments, uint64_t start, uint64_t end,
                           uint64_t call, uint64_t sp, uint64_t frame_pointer) {
  uint32_t branch;
  if (!cunwind_read_instruction(u, call, &branch)) return false;
  uint64_t target = cunwind_branch_target(branch, call) + cunwind_call_target(branch, call);
  // A function between them may have put them elsewhere.
  if (cunwind_resolve_target(u, target) != arguments->function) return true;
  struct registers r = {.value = {[REGISTER_31] = sp, [CUNWIND_FRAME_POINTER] = frame_pointer}};
  if (sp != 0) r.known = r.relative = 1u << REGISTER_31;
  if (sp != 0 && frame_pointer != CUNWIND_NO_FRAME_POINTER) {
    r.known |= 1u << CUNWIND_FRAME_POINTER;
    r.relative |= 1u << CUNWIND_FRAME_POINTER;
  }
  for (uint64_t at = certain_start(u, start, end, call); at < call; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) return true;
    run(u, code, at, &r);
  }
  for (unsigned i = 0; i < CUNWIND_ARGUMENT_REGISTERS; i++)
    if ((r.known & arguments->known) >> i & 1 && r.value[i] != arguments->value[i]) return false;
  return true;
}

#endif
