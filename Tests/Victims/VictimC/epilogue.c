// A function whose unwind table says of its epilogue, as GCC's do, that the registers it has popped lie below the stack pointer.
#include "VictimC.h"

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".type victim_epilogue,@function\n"
    "victim_epilogue:\n"
    ".cfi_startproc\n"
    "push %r13\n.cfi_def_cfa_offset 16\n.cfi_offset %r13,-16\n"
    "push %rbp\n.cfi_def_cfa_offset 24\n.cfi_offset %rbp,-24\n"
    "push %rbx\n.cfi_def_cfa_offset 32\n.cfi_offset %rbx,-32\n"
    "mov %rdi,%rbp\n"
    "pop %rbx\n.cfi_def_cfa_offset 24\n"
    "pop %rbp\n.cfi_def_cfa_offset 16\n"
    "pop %r13\n.cfi_def_cfa_offset 8\n"
    ".globl victim_epilogue_return\n"
    "victim_epilogue_return:\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size victim_epilogue,.-victim_epilogue\n"
    ".type victim_epilogue_caller,@function\n"
    "victim_epilogue_caller:\n"
    ".cfi_startproc\n"
    "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\n"
    "mov %rsp,%rbp\n.cfi_def_cfa_register %rbp\n"
    "call victim_epilogue\n"
    ".globl victim_epilogue_called\n"
    "victim_epilogue_called:\n"
    "pop %rbp\n.cfi_def_cfa %rsp,8\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size victim_epilogue_caller,.-victim_epilogue_caller\n");

extern const char victim_epilogue_return[], victim_epilogue_called[];
#else
static const char victim_epilogue_return[1], victim_epilogue_called[1];
#endif

uint64_t victim_epilogue_at(bool is_caller) {
  return (uint64_t)(uintptr_t)(is_caller ? victim_epilogue_called : victim_epilogue_return);
}
