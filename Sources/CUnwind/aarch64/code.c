// What machine code says about the stack: where a prologue puts the frame record, and where calls lead.
#define _GNU_SOURCE
#include <string.h>

#include "../architecture.h"

#if CUNWIND_HAS_STACKS && defined(__aarch64__)

#include "../modules.h"
#include "code.h"

// Instructions that are decoded of one function at most.
#define DECODED_MAX 4096u

bool cunwind_read_instruction(cunwind_unwinder *u, uint64_t address, uint32_t *code) {
  return address % 4 == 0 && cunwind_read_cached(u, address, code, sizeof *code);
}

static unsigned first_register(uint32_t code) { return code & 31; }
static unsigned base_register(uint32_t code) { return code >> 5 & 31; }
static unsigned second_register(uint32_t code) { return code >> 10 & 31; }

static int64_t immediate12(uint32_t code) { return (int64_t)(code >> 10 & 0xfff) << ((code >> 22 & 1) != 0 ? 12 : 0); }

// How far a store or load of a pair with write-back moves its base; 0 if `code` is none. The width is 4, 8 or 16 bytes.
static int64_t pair_write_back(uint32_t code) {
  if ((code & 0x3a000000u) != 0x28000000u || (code & 0x00800000u) == 0) return 0;
  bool is_vector = (code & 0x04000000u) != 0;
  unsigned kind = code >> 30;
  return cunwind_signed_bits(code, 15, 7) * (is_vector ? 4 << kind : kind == 2 ? 8 : 4);
}

// The same for a single register.
static int64_t single_write_back(uint32_t code) {
  if ((code & 0x3b200400u) != 0x38000400u) return 0;
  return cunwind_signed_bits(code, 12, 9);
}

uint64_t cunwind_branch_target(uint32_t code, uint64_t address) {
  if ((code & 0xfc000000u) != 0x14000000u) return 0;
  return address + (uint64_t)(cunwind_signed_bits(code, 0, 26) * 4);
}

uint64_t cunwind_call_target(uint32_t code, uint64_t address) {
  return cunwind_is_call(code) ? address + (uint64_t)(cunwind_signed_bits(code, 0, 26) * 4) : 0;
}

// One instruction of a prologue. False for one that does nothing to the stack.
static bool decode_stack(uint32_t code, struct cunwind_prologue *p) {
  if ((code & 0xff8003ffu) == 0xd10003ffu) {  // sub sp, sp, #immediate
    p->depth += immediate12(code);
  } else if ((code & 0xff8003ffu) == 0x910003ffu) {  // add sp, sp, #immediate
    p->depth -= immediate12(code);
  } else if ((code & 0xff8003ffu) == 0x910003fdu) {  // add x29, sp, #immediate
    p->record_depth = p->depth - immediate12(code);
    p->sets_frame_pointer = true;
  } else if ((code & 0x3b000000u) == 0x29000000u || (code & 0x3b000000u) == 0x28000000u) {  // a pair
    if (base_register(code) != 31) return false;
    bool is_store = (code & 0x00400000u) == 0;
    p->depth -= pair_write_back(code);
    bool has_link = (code & 0xfc000000u) == 0xa8000000u && (first_register(code) == 30 || second_register(code) == 30);
    if (has_link) p->keeps_link = is_store;
  } else if ((code & 0x3b200400u) == 0x38000400u && base_register(code) == 31) {  // one register, with write-back
    p->depth -= single_write_back(code);
    if (first_register(code) == 30 && (code & 0xffa00000u) == 0xf8000000u) p->keeps_link = (code & 0x00400000u) == 0;
  } else if ((code & 0xff8003ffu) == 0xf90003feu) {  // str or ldr x30, [sp, #immediate]
    p->keeps_link = (code & 0x00400000u) == 0;
  } else if (first_register(code) == 31 &&
             (((code & 0x7f000000u) == 0x11000000u || (code & 0x7f000000u) == 0x51000000u) ||
              (code & 0x7f800000u) == 0x12000000u || (code & 0x3fe00000u) == 0x0b200000u)) {
    // Another addition, subtraction or mask that writes the stack pointer. (With flags, register 31 is nothing.)
    p->is_irregular = true;
  } else {
    return false;
  }
  return true;
}

struct cunwind_prologue cunwind_decode_prologue(cunwind_unwinder *u, uint64_t start, uint64_t end, bool until_frame) {
  struct cunwind_prologue p;
  memset(&p, 0, sizeof p);
  if (end - start > 4 * DECODED_MAX) end = start + 4 * DECODED_MAX;
  for (uint64_t at = start; at < end; at += 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at, &code)) break;
    if (cunwind_is_branch(code)) {
      if (until_frame && p.sets_frame_pointer) break;
      bool calls = cunwind_is_call(code) || cunwind_is_indirect_call(code);
      p.calls |= calls;
      p.branches |= !calls;
      continue;
    }
    decode_stack(code, &p);
  }
  return p;
}

// The entry of a linkage table, or a stub: `bti`, then `adrp x16; ldr x17, [x16, #offset]; add; br x17`, or `adrp x16; add
// x16, x16, #offset; br x16`. Nothing but `bti` is in front of it. @return where it leads; 0 if it is none.
static uint64_t follow_stub(cunwind_unwinder *u, uint64_t address) {
  uint32_t code[3];
  if (!cunwind_read_instruction(u, address, &code[0])) return 0;
  if ((code[0] & 0xffffff3fu) == 0xd503241fu) {  // bti
    address += 4;
    if (!cunwind_read_instruction(u, address, &code[0])) return 0;
  }
  uint64_t branch = cunwind_branch_target(code[0], address);
  if (branch != 0) return branch;
  if ((code[0] & 0x9f00001fu) != 0x90000010u || !cunwind_read_instruction(u, address + 4, &code[1]) ||
      !cunwind_read_instruction(u, address + 8, &code[2]))
    return 0;
  int64_t pages = cunwind_signed_bits(code[0], 5, 19) * 4 + (code[0] >> 29 & 3);
  uint64_t page = (address & ~0xfffull) + (uint64_t)(pages * 4096), target;
  if ((code[1] & 0xffc003ffu) == 0xf9400211u)
    return cunwind_read_word(u, page + (code[1] >> 10 & 0xfff) * 8, &target) ? target : 0;
  if ((code[1] & 0xffc003ffu) == 0x91000210u && code[2] == 0xd61f0200u) return page + (code[1] >> 10 & 0xfff);
  return 0;
}

uint64_t cunwind_resolve_target(cunwind_unwinder *u, uint64_t address) {
  // A stub leads to an entry of the table, that to the function, and that may be a name for another.
  for (unsigned i = 0; i < 3; i++) {
    uint64_t next = follow_stub(u, address);
    if (next == 0) break;
    address = next;
  }
  return address;
}

// `adrp x16`, `ldr x17` and a jump, or `adrp x16`, `add x16` and a jump.
static bool is_entry(cunwind_unwinder *u, uint64_t address) {
  uint32_t code[3];
  for (unsigned i = 0; i < 3; i++)
    if (!cunwind_read_instruction(u, address + 4 * i, &code[i])) return false;
  if ((code[0] & 0x9f00001fu) != 0x90000010u) return false;
  return (code[1] & 0xffc003ffu) == 0xf9400211u || ((code[1] & 0xffc003ffu) == 0x91000210u && code[2] == 0xd61f0200u);
}

// `stp x16, x30, [sp, #-16]!`, which begins the table's first entry: the others lead to it until a function is bound.
static bool is_push(uint32_t code) { return code == 0xa9bf7bf0u; }

bool cunwind_is_stub(cunwind_unwinder *u, uint64_t address, uint64_t *depth) {
  uint32_t code, before;
  *depth = 0;
  if (!cunwind_read_instruction(u, address, &code)) return false;
  uint64_t first = address;
  if ((code & 0xffffff3fu) == 0xd503241fu) {  // bti
    first += 4;
    if (!cunwind_read_instruction(u, first, &code)) return false;
  }
  if (is_push(code)) return is_entry(u, first + 4);
  if (first != address) return is_entry(u, first);
  // adrp, ldr, add, autia1716 and br: with no other jump between.
  for (unsigned i = 0; i < 5; i++) {
    uint64_t at = address - 4 * i;
    if (!cunwind_read_instruction(u, at, &code) || (i > 0 && cunwind_is_branch(code))) return false;
    if (!is_entry(u, at)) continue;
    if (cunwind_read_instruction(u, at - 4, &before) && is_push(before)) *depth = 16;
    return true;
  }
  return false;
}

enum cunwind_match cunwind_match_call(cunwind_unwinder *u, uint64_t return_address, uint64_t *target) {
  struct cunwind_mapping mapping;
  uint32_t code;
  *target = 0;
  if (return_address % 4 != 0 || !cunwind_find_mapping(u->process, return_address, &mapping)) return NO_MATCH;
  if (!cunwind_read_instruction(u, return_address - 4, &code)) return NO_MATCH;
  *target = cunwind_call_target(code, return_address - 4);
  if (*target != 0 || cunwind_is_indirect_call(code)) return FOLLOWS_A_CALL;
  // The kernel calls a signal's handler.
  return cunwind_arch_is_signal_return(u, return_address) ? CALLED_THIS_FUNCTION : NO_MATCH;
}

#define NOP 0xd503201fu

// b, br and brk
static bool never_goes_on(uint32_t code) {
  return (code & 0xfc000000u) == 0x14000000u || cunwind_is_indirect_branch(code) ||
         (code & 0xffe0001fu) == 0xd4200000u;
}

// Whether the `nop` in front of `end` is padding between functions. Code that was patched at its start has them, too: the
// kernel's functions in the vDSO have one in the middle of what getrandom() begins with. A call may never return.
static bool is_padding(cunwind_unwinder *u, uint64_t end) {
  uint32_t code = NOP;
  for (uint64_t at = end; code == NOP && end - at < GAP_LENGTH; at -= 4)
    if (!cunwind_read_instruction(u, at - 4, &code) || cunwind_has_unwind_information(u, at - 4)) return true;
  return cunwind_is_return(code) || code == 0 || never_goes_on(code) || cunwind_is_call(code) ||
         cunwind_is_indirect_call(code);
}

// paciasp, pacibsp, and bti for calls
static bool is_landing(uint32_t code) { return (code & 0xffffffbfu) == 0xd503233fu || (code & 0xffffff7fu) == 0xd503245fu; }

uint64_t cunwind_nearest_start(cunwind_unwinder *u, uint64_t lookup) {
  for (uint64_t at = lookup & ~3ull; lookup - at < GAP_LENGTH; at -= 4) {
    uint32_t code;
    if (!cunwind_read_instruction(u, at - 4, &code) || cunwind_has_unwind_information(u, at - 4)) return at;
    if (cunwind_is_return(code) || code == 0 || (code == NOP && is_padding(u, at))) return at;
    if (never_goes_on(code) && cunwind_read_instruction(u, at, &code) &&
        (is_landing(code) || (code & 0xff8003ffu) == 0xd10003ffu || (code & 0xffc07fffu) == 0xa9807bfdu))
      return at;
  }
  return 0;
}

// The distance of a function's context of Swift concurrency below the canonical frame address: it lies below the frame
// record. No other language stores X22 there before anything else is called.
static uint64_t context_distance(const cunwind_process *process, uint64_t function) {
  uint32_t code[24];
  struct cunwind_prologue p;
  memset(&p, 0, sizeof p);
  size_t count = cunwind_read(process, function, code, sizeof code) / sizeof *code;
  int64_t context = 0;
  for (size_t i = 0; i < count; i++) {
    if (cunwind_is_branch(code[i]) || p.is_irregular) break;
    if ((code[i] & 0xffc003ffu) == 0xf90003f6u)  // str x22, [sp, #offset]
      context = p.depth - (int64_t)(code[i] >> 10 & 0xfff) * 8;
    if ((code[i] & 0xffe00fffu) == 0xf80003b6u && p.sets_frame_pointer)  // stur x22, [x29, #offset]
      context = p.record_depth - cunwind_signed_bits(code[i], 12, 9);
    decode_stack(code[i], &p);
    if (p.sets_frame_pointer && context != 0) break;
  }
  return p.sets_frame_pointer && context == p.record_depth + 8 ? (uint64_t)context : 0;
}

// Functions of Swift concurrency are in no unwind table. The nearest setting of the frame pointer before `address` is of
// the function that has it, if that has a frame record.
static uint64_t function_with_record(const cunwind_process *process, uint64_t address) {
  uint32_t code[64];
  bool has_found = false;
  for (uint64_t end = address & ~3ull; address - end < GAP_LENGTH && end > sizeof code; end -= sizeof code) {
    if (cunwind_read(process, end - sizeof code, code, sizeof code) != sizeof code) return 0;
    for (size_t i = sizeof code / sizeof *code; i > 0; i--) {
      uint32_t one = code[i - 1];
      uint64_t at = end - sizeof code + 4 * (i - 1);
      if (has_found && (cunwind_is_branch(one) || cunwind_is_return(one))) return at + 4;
      has_found |= (one & 0xff8003ffu) == 0x910003fdu;
    }
  }
  return 0;
}

uint64_t cunwind_context_distance(const cunwind_process *process, uint64_t address) {
  uint64_t start = function_with_record(process, address);
  return start != 0 ? context_distance(process, start) : 0;
}

bool cunwind_is_continuation(const cunwind_process *process, uint64_t address) {
  struct cunwind_mapping mapping;
  return cunwind_find_mapping(process, address, &mapping) &&
         (context_distance(process, address) != 0 || cunwind_function_start(process, address) == address);
}

#endif
