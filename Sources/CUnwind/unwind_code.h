// Decoding of the few instructions that unwinding without tables needs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUNWIND_SAVES_MAX 16

// What a function's prologue pushes, in order (DWARF's register numbers), and how far below the return address RSP is after it.
struct cunwind_saves {
  unsigned char registers[CUNWIND_SAVES_MAX];
  size_t count;
  uint64_t depth;
};

struct cunwind_saves cunwind_prologue_saves(const unsigned char *code, size_t length);

#define CUNWIND_POPS_MAX 6

// Decodes the pops of preserved registers that end at `code + length`, the last one first (DWARF's register numbers).
// Returns how many there are.
size_t cunwind_pops_before(const unsigned char *code, size_t length, unsigned char registers[CUNWIND_POPS_MAX]);

// Whether `code` is an entry of a procedure linkage table: it jumps on through a pointer, with the stack as the call left it.
bool cunwind_is_jump_stub(const unsigned char code[8]);
