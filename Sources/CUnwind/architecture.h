// What CUnwind needs to know of a processor, and which folder knows it.
//
// A new architecture needs: its register numbers in `include/cunwind_registers.h`; a folder with an
// `architecture.h` as in `x86_64/`; the functions that are declared below and at the end of
// `unwinder.h`; and a line here. On an architecture without a folder, and without glibc,
// `unsupported.c` says that there are no stacks. (CUNWIND_UNKNOWN_ARCHITECTURE compiles that case on a known one.)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "cunwind_registers.h"

// What a snapshot's `known` is if all registers are.
#define CUNWIND_ALL_KNOWN ((1ull << CUNWIND_REGISTERS) - 1)

// Modules are found by the lists of glibc's loader. With musl, a static executable cannot open libunwind
// either, and Swift's Static Linux SDK has no headers of it.
#if !defined(__GLIBC__) || defined(CUNWIND_UNKNOWN_ARCHITECTURE)
#define CUNWIND_HAS_STACKS 0
#elif defined(__x86_64__)
#define CUNWIND_HAS_STACKS 1
#include "x86_64/architecture.h"
#elif defined(__aarch64__)
#define CUNWIND_HAS_STACKS 1
#include "aarch64/architecture.h"
#else
#define CUNWIND_HAS_STACKS 0
#endif

#if !CUNWIND_HAS_STACKS
#define CUNWIND_RED_ZONE 0u

#include <errno.h>
#include <unistd.h>

// A system call that leaves errno alone. Returns a negative errno value if it fails.
static inline long cunwind_raw_call(long number, long a, long b, long c, long d, long e, long f) {
  int kept = errno;
  long result = syscall(number, a, b, c, d, e, f);
  if (result < 0) result = -errno;
  errno = kept;
  return result;
}
#endif

// Hidden, so that a signal handler's calls are bound when the program is linked and never by the loader.
#pragma GCC visibility push(hidden)

// Copies page by page up to the first that cannot be read. For a signal handler. @return the bytes copied.
size_t cunwind_checked_copy(void *to, uint64_t from, size_t length);

// -- What each architecture implements for the signal handler

// Whether the 8 bytes at `address` can be read; as `cunwind_is_readable`.
bool cunwind_arch_is_readable(uint64_t address);
// Copies bytes so that no interposer or sanitizer sees it.
void cunwind_arch_copy(void *to, uint64_t from, size_t length);
// Copies all registers of what the signal has interrupted.
void cunwind_arch_copy_registers(const ucontext_t *context, uint64_t registers[CUNWIND_REGISTERS]);
// Repeats the system call that the signal has made end with EINTR, if it has, by going back to its instruction.
void cunwind_arch_restart_call(ucontext_t *context);

#pragma GCC visibility pop
