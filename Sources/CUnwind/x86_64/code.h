// Decoding of the few instructions that unwinding without tables needs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../unwinder.h"

#define CUNWIND_SAVES_MAX 16

// What a function's prologue pushes, in order (DWARF's register numbers), and how far below the return
// address RSP is after it.
struct cunwind_saves {
  unsigned char registers[CUNWIND_SAVES_MAX];
  size_t count;
  uint64_t depth;
};

#pragma GCC visibility push(hidden)

struct cunwind_saves cunwind_prologue_saves(const unsigned char *code, size_t length);

// Decodes the pops of preserved registers that end at `code + length`, the last one first (DWARF's register numbers).
// Returns how many there are.
size_t cunwind_pops_before(const unsigned char *code, size_t length, unsigned char registers[CUNWIND_POPS_MAX]);

// Whether `code` is an entry of a procedure linkage table: it jumps on through a pointer, with the stack
// as the call left it.
bool cunwind_is_jump_stub(const unsigned char code[8]);

// The length of such an entry up to the end of its jump; its last four bytes are the distance to the pointer.
size_t cunwind_jump_stub_length(const unsigned char code[8]);

// Whether the instruction at `code` sets RSP, but for a constant that is added, and for what a function's end restores.
bool cunwind_sets_stack_pointer(const unsigned char code[3]);

enum cunwind_match { NO_MATCH, FOLLOWS_A_CALL, CALLED_THIS_FUNCTION };

// What the call in front of `return_address` says; `target` is what a direct call calls, or 0.
enum cunwind_match cunwind_match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target);

// The function that a call of `target` reaches: its own, or through the entry of a linkage table.
uint64_t cunwind_resolve_target(cunwind_unwinder *u, uint64_t target);

#pragma GCC visibility pop
