// Decoding of the few instructions that unwinding without tables needs (Arm Architecture Reference Manual, C4).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../unwinder.h"

// What the instructions from a function's start to some place have done to the stack. Depths are counted downwards from
// the canonical frame address, where the stack pointer is when the function begins.
struct cunwind_prologue {
  // Of the stack pointer.
  int64_t depth;
  // Of the frame record that the frame pointer leads to, once it is set.
  int64_t record_depth;
  bool sets_frame_pointer;
  // Whether the link register lies on the stack.
  bool keeps_link;
  // Whether a function was called, so that the link register leads into this one.
  bool calls;
  // Whether the path from the start is not a straight one.
  bool branches;
  // Whether the stack pointer was set to something that the instructions do not say.
  bool is_irregular;
};

enum cunwind_match { NO_MATCH, FOLLOWS_A_CALL, CALLED_THIS_FUNCTION };

#pragma GCC visibility push(hidden)

bool cunwind_read_instruction(cunwind_unwinder *u, uint64_t address, uint32_t *code);

// Decodes from `start` to `end`, at most; with `until_frame`, to the first branch behind the setting of the frame pointer.
struct cunwind_prologue cunwind_decode_prologue(cunwind_unwinder *u, uint64_t start, uint64_t end, bool until_frame);

// Where a call to `address` ends up: behind linkage tables' entries and the linker's stubs.
uint64_t cunwind_resolve_target(cunwind_unwinder *u, uint64_t address);

// How far the code of a function without unwind information may lie from its start.
#define GAP_LENGTH 16384u

// The nearest place before `lookup` where a function without unwind information could begin: behind a return or padding,
// or with what begins a frame behind a jump. 0 if there is none.
uint64_t cunwind_nearest_start(cunwind_unwinder *u, uint64_t lookup);

// What the call in front of `return_address` says; `target` is what a direct call calls, or 0.
enum cunwind_match cunwind_match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target);

// Where an unconditional branch leads; 0 if `code` is none.
uint64_t cunwind_branch_target(uint32_t code, uint64_t address);

// What a direct call calls; 0 if `code` is none.
uint64_t cunwind_call_target(uint32_t code, uint64_t address);

// Whether `address` lies in an entry of a procedure linkage table, or in a stub of the linker. `depth` is what the
// instructions before it have pushed.
bool cunwind_is_stub(cunwind_unwinder *u, uint64_t address, uint64_t *depth);

// The signed number in `count` bits from bit `low` on.
static inline int64_t cunwind_signed_bits(uint32_t code, unsigned low, unsigned count) {
  return (int64_t)((uint64_t)code << (64 - low - count)) >> (64 - count);
}

static inline bool cunwind_is_branch(uint32_t code) {
  // Without system calls, hints and moves of system registers, which are in the same group.
  return (code & 0x1c000000u) == 0x14000000u && (code & 0xfe000000u) != 0xd4000000u;
}
static inline bool cunwind_is_return(uint32_t code) {
  return (code & 0xfffffc1fu) == 0xd65f0000u || code == 0xd65f0bffu || code == 0xd65f0fffu;
}
static inline bool cunwind_is_call(uint32_t code) { return (code & 0xfc000000u) == 0x94000000u; }
static inline bool cunwind_is_indirect_call(uint32_t code) {
  return (code & 0xfffffc1fu) == 0xd63f0000u || (code & 0xfefff800u) == 0xd63f0800u;
}
static inline bool cunwind_is_indirect_branch(uint32_t code) {
  return (code & 0xfffffc1fu) == 0xd61f0000u || (code & 0xfefff800u) == 0xd61f0800u;
}

#pragma GCC visibility pop
