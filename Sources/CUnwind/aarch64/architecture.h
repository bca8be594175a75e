// aarch64: what the rest of CUnwind needs at compile time.
#pragma once

#include <asm/perf_regs.h>

// Nothing is kept below the stack pointer (Procedure Call Standard for the Arm 64-bit Architecture, 6.4.5.2).
#define CUNWIND_RED_ZONE 0u
// The smallest page: a larger one is checked more than once.
#define CUNWIND_SMALLEST_PAGE 4096u
// A bit for each register that a function preserves for its caller: X19 to X29.
#define CUNWIND_PRESERVED 0x3ff80000u

// The length of the instruction in front of the system call by which a signal handler returns, and of both.
#define CUNWIND_SIGNAL_RETURN_MOVE 4u
#define CUNWIND_SIGNAL_RETURN 8u

// libunwind's remote API for this architecture, and the relocation of a linkage table's entry.
#define CUNWIND_LIBUNWIND_HEADER <libunwind-aarch64.h>
#define CUNWIND_LIBUNWIND "libunwind-aarch64.so.8"
#define CUNWIND_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define CUNWIND_GLOBAL_WORD R_AARCH64_GLOB_DAT

// perf's numbers of the registers, in DWARF's order: they are the same.
static const int cunwind_perf_registers[CUNWIND_REGISTERS] = {
    PERF_REG_ARM64_X0,  PERF_REG_ARM64_X1,  PERF_REG_ARM64_X2,  PERF_REG_ARM64_X3,  PERF_REG_ARM64_X4,
    PERF_REG_ARM64_X5,  PERF_REG_ARM64_X6,  PERF_REG_ARM64_X7,  PERF_REG_ARM64_X8,  PERF_REG_ARM64_X9,
    PERF_REG_ARM64_X10, PERF_REG_ARM64_X11, PERF_REG_ARM64_X12, PERF_REG_ARM64_X13, PERF_REG_ARM64_X14,
    PERF_REG_ARM64_X15, PERF_REG_ARM64_X16, PERF_REG_ARM64_X17, PERF_REG_ARM64_X18, PERF_REG_ARM64_X19,
    PERF_REG_ARM64_X20, PERF_REG_ARM64_X21, PERF_REG_ARM64_X22, PERF_REG_ARM64_X23, PERF_REG_ARM64_X24,
    PERF_REG_ARM64_X25, PERF_REG_ARM64_X26, PERF_REG_ARM64_X27, PERF_REG_ARM64_X28, PERF_REG_ARM64_X29,
    PERF_REG_ARM64_LR,  PERF_REG_ARM64_SP,  PERF_REG_ARM64_PC};

// What libunwind is given for a frame pointer that nobody knows: no address of user space. libunwind 1.8 reads the
// register in each step, also where nothing depends on it; what depends on it reads memory near here.
#define CUNWIND_NO_FRAME_POINTER 0x00f1f2f300000000ull
#define CUNWIND_NO_FRAME_POINTER_REACH (1ull << 31)

// A return address without its signature (XPACLRI). An older processor has no signatures, and takes the instruction for
// a NOP.
static inline uint64_t cunwind_code_address(uint64_t value) {
  register uint64_t link __asm__("x30") = value;
  __asm__("hint #7" : "+r"(link));
  return link;
}

// The processor ignores the top byte of an address of data, and Swift marks frame pointers there.
static inline uint64_t cunwind_data_address(uint64_t value) { return value & 0x00ffffffffffffffull; }

// A system call that leaves errno alone. Returns a negative errno value if it fails.
static inline long cunwind_raw_call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

// Since which Linux 5.x an expired timer of processor time is handled on the way back to user mode.
#define CUNWIND_TASK_WORK_SINCE 16
