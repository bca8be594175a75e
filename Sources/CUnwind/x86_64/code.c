// What machine code says about the stack: where a prologue puts RBP and saves registers, and whether a call ends at an
// address.
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__x86_64__)

#include "../modules.h"
#include "code.h"

// The length of an instruction that a compiler puts between a prologue's pushes and that leaves RSP alone: a move, lea,
// xor or test of registers and memory, or a constant. 0 for any other.
static size_t skippable(const unsigned char *code, size_t length) {
  size_t at = 0;
  unsigned rex = 0;
  if (at < length && (code[at] & 0xf0) == 0x40) rex = code[at++];
  if (at + 2 > length) return 0;
  unsigned char operation = code[at];
  if (operation >= 0xb8 && operation <= 0xbf) {  // mov $imm,%r
    if ((operation & 7) == 4 && (rex & 1) == 0) return 0;
    return at + ((rex & 8) != 0 ? 9 : 5);
  }
  bool to_register = operation == 0x8b || operation == 0x8d || operation == 0x33;
  if (!to_register && operation != 0x89 && operation != 0x31 && operation != 0x85) return 0;
  unsigned mod = code[at + 1] >> 6, reg = code[at + 1] >> 3 & 7, rm = code[at + 1] & 7;
  at += 2;
  if (to_register && reg == 4 && (rex & 4) == 0) return 0;
  if (!to_register && operation != 0x85 && mod == 3 && rm == 4 && (rex & 1) == 0) return 0;
  if (mod != 3 && rm == 4) {
    if (at >= length) return 0;
    if (mod == 0 && (code[at] & 7) == 5) at += 4;
    at++;
  }
  if (mod == 1) at += 1;
  if (mod == 2 || (mod == 0 && rm == 5)) at += 4;
  return at;
}

// push %rbp; push %r14; lea 8(%rsp),%rbp: no other language than Swift has the frame pointer point between two pushes, as
// its asynchronous functions do. Behind `endbr64` and `bts $60,%rbp`. 0 if there is no such prologue, or its length.
static size_t async_prologue(const unsigned char *code, size_t length) {
  static const unsigned char mark[] = {0x48, 0x0f, 0xba, 0xed, 0x3c};
  static const unsigned char prologue[] = {0x55, 0x41, 0x56, 0x48, 0x8d, 0x6c, 0x24, 0x08};
  size_t at = length >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
  if (length - at >= sizeof mark && memcmp(code + at, mark, sizeof mark) == 0) at += sizeof mark;
  return length - at >= sizeof prologue && memcmp(code + at, prologue, sizeof prologue) == 0 ? at + sizeof prologue : 0;
}

bool cunwind_prologue_keeps_context(const unsigned char *code, size_t length) { return async_prologue(code, length) != 0; }

int64_t cunwind_prologue_depth(const unsigned char *code, size_t length) {
  size_t at = async_prologue(code, length);
  int64_t depth = at != 0 ? 8 : 0;
  if (at == 0) {
    if (length >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) at = 4;  // endbr64
    if (at + 4 > length || code[at] != 0x55) return -1;                     // push %rbp
    at++;
    if (memcmp(code + at, "\x48\x89\xe5", 3) != 0 && memcmp(code + at, "\x48\x8b\xec", 3) != 0) return -1;
    at += 3;  // mov %rsp,%rbp
  }
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
      size_t skipped = skippable(code + at, length - at);
      if (skipped == 0) break;
      at += skipped;
    }
  }
  return depth;
}

static bool keeps_context(const cunwind_process *process, uint64_t function) {
  unsigned char code[20];
  return cunwind_prologue_keeps_context(code, cunwind_read(process, function, code, sizeof code));
}

uint64_t cunwind_context_distance(const cunwind_process *process, uint64_t address) {
  uint64_t start = cunwind_function_start(process, address);
  return start != 0 && keeps_context(process, start) ? 24 : 0;
}

bool cunwind_is_continuation(const cunwind_process *process, uint64_t address) {
  struct cunwind_mapping mapping;
  return cunwind_find_mapping(process, address, &mapping) &&
         (keeps_context(process, address) || cunwind_function_start(process, address) == address);
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

struct cunwind_saves cunwind_prologue_saves(const unsigned char *code, size_t length) {
  // DWARF's numbers of the registers in the order of the instruction set's.
  static const unsigned char dwarf[8] = {0, 2, 1, 3, 7, 6, 4, 5};
  struct cunwind_saves saves = {.count = 0, .depth = 0};
  size_t at = 0;
  if (length >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) at = 4;  // endbr64
  while (at < length && saves.count < CUNWIND_SAVES_MAX) {
    if (code[at] >= 0x50 && code[at] <= 0x57) {  // push %r
      saves.registers[saves.count++] = dwarf[code[at] - 0x50];
      saves.depth += 8, at += 1;
    } else if (at + 2 <= length && code[at] == 0x41 && code[at + 1] >= 0x50 && code[at + 1] <= 0x57) {  // push %r8-15
      saves.registers[saves.count++] = (unsigned char)(code[at + 1] - 0x50 + 8);
      saves.depth += 8, at += 2;
    } else if (at + 3 <= length && memcmp(code + at, "\x48\x89\xe5", 3) == 0) {  // mov %rsp,%rbp
      at += 3;
    } else if (at + 4 <= length && memcmp(code + at, "\x48\x83\xec", 3) == 0) {  // sub $imm8,%rsp
      saves.depth += (uint64_t)(int64_t)(int8_t)code[at + 3];
      break;
    } else if (at + 7 <= length && memcmp(code + at, "\x48\x81\xec", 3) == 0) {  // sub $imm32,%rsp
      int32_t immediate;
      memcpy(&immediate, code + at + 3, sizeof immediate);
      saves.depth += (uint64_t)(int64_t)immediate;
      break;
    } else {
      size_t skipped = skippable(code + at, length - at);
      if (skipped == 0) break;
      at += skipped;
    }
  }
  return saves;
}

size_t cunwind_pops_before(const unsigned char *code, size_t length, unsigned char registers[CUNWIND_POPS_MAX]) {
  size_t count = 0;
  while (count < CUNWIND_POPS_MAX && length > 0) {
    unsigned char last = code[length - 1];
    if (last == 0xc9) {  // leave: what was popped before lies elsewhere
      registers[count++] = CUNWIND_FRAME_POINTER;
      break;
    }
    bool is_extended = length >= 2 && code[length - 2] == 0x41;
    if (last == 0x5b) registers[count] = 3;
    else if (last == 0x5d) registers[count] = is_extended ? 13 : CUNWIND_FRAME_POINTER;
    else if (is_extended && (last == 0x5c || last == 0x5e || last == 0x5f)) registers[count] = last - 0x50;
    else break;
    count++;
    length -= last != 0x5b && is_extended ? 2 : 1;
  }
  return count;
}

size_t cunwind_jump_stub_length(const unsigned char code[8]) {
  size_t at = memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;  // endbr64
  return at + (code[at] == 0xf2 ? 7 : 6);                         // bnd
}

bool cunwind_is_jump_stub(const unsigned char code[8]) {
  const unsigned char *jump = code + cunwind_jump_stub_length(code) - 6;
  return jump[0] == 0xff && jump[1] == 0x25;  // jmp *displacement(%rip)
}

bool cunwind_sets_stack_pointer(const unsigned char code[3]) {
  enum { RSP = 4, RBP = 5 };
  if ((code[0] & 0xf8) != 0x48) return false;
  unsigned mod = code[2] >> 6, reg = (code[2] >> 3 & 7) | (code[0] & 4u) << 1, rm = (code[2] & 7) | (code[0] & 1u) << 3;
  switch (code[1]) {
    case 0x29: return mod == 3 && rm == RSP;                     // sub %r,%rsp
    case 0x89: return mod == 3 && rm == RSP && reg != RBP;       // mov %r,%rsp
    case 0x2b: return reg == RSP;                                // sub (%r),%rsp
    case 0x8b: return reg == RSP && !(mod == 3 && rm == RBP);    // mov (%r),%rsp
    case 0x8d: return reg == RSP && rm != RBP;                   // lea distance(%r),%rsp
    case 0x81:
    case 0x83: return mod == 3 && rm == RSP && reg == 4;         // and $imm,%rsp
    default: return false;
  }
}

#endif
