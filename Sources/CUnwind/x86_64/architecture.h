// x86_64: what the rest of CUnwind needs at compile time.
#pragma once

#include <asm/perf_regs.h>

// What a function may keep below the stack pointer (System V ABI, AMD64 supplement, 3.2.2).
#define CUNWIND_RED_ZONE 128u
// The smallest page: a larger one is checked more than once.
#define CUNWIND_SMALLEST_PAGE 4096u
// A bit for each register that a function preserves for its caller: RBX, RBP, R12 to R15.
#define CUNWIND_PRESERVED 0xf048u

// The length of the instruction in front of the system call by which a signal handler returns, and of both.
#define CUNWIND_SIGNAL_RETURN_MOVE 7u
#define CUNWIND_SIGNAL_RETURN 9u

// libunwind's remote API for this architecture, and the relocation of a linkage table's entry.
#define CUNWIND_LIBUNWIND_HEADER <libunwind-x86_64.h>
#define CUNWIND_LIBUNWIND "libunwind-x86_64.so.8"
#define CUNWIND_JUMP_SLOT R_X86_64_JUMP_SLOT
#define CUNWIND_GLOBAL_WORD R_X86_64_GLOB_DAT

// perf's numbers of the registers, in DWARF's order.
static const int cunwind_perf_registers[CUNWIND_REGISTERS] = {
    PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,  PERF_REG_X86_DI,
    PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,  PERF_REG_X86_R10, PERF_REG_X86_R11,
    PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15, PERF_REG_X86_IP};

// Addresses of code and of data are in registers and memory as they are.
static inline uint64_t cunwind_code_address(uint64_t value) { return value; }
static inline uint64_t cunwind_data_address(uint64_t value) { return value; }

// A system call that leaves errno alone. Returns a negative errno value if it fails.
static inline long cunwind_raw_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return number;
}

// Since which Linux 5.x an expired timer of processor time is handled on the way back to user mode.
#define CUNWIND_TASK_WORK_SINCE 11
