// An asymmetric fence: it is free for the thread that passes it a million times a second, and expensive for the one that rarely does.
//
// Swift has neither a compiler-only barrier nor membarrier(2): `syscall` is variadic. It can go when Swift has both.
#ifndef CLINUX_BARRIER_H
#define CLINUX_BARRIER_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

// The commands of linux/membarrier.h, which Swift's Static Linux SDK lacks.
enum { CLINUX_MEMBARRIER_EXPEDITED = 1 << 3, CLINUX_MEMBARRIER_REGISTER_EXPEDITED = 1 << 4 };

/// Keeps the compiler from moving a load before an earlier store. No instruction.
static inline void clinux_compiler_barrier(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Keeps the processor from doing so, for kernels without membarrier. About 20 cycles.
static inline void clinux_full_barrier(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/// Makes `clinux_barrier_on_all_threads` usable. False on kernels before 4.14, or where seccomp forbids it.
static inline bool clinux_barrier_register(void) {
  return syscall(SYS_membarrier, CLINUX_MEMBARRIER_REGISTER_EXPEDITED, 0, 0) == 0;
}

/// A full fence on every running thread of this process (membarrier(2), private expedited); microseconds.
static inline void clinux_barrier_on_all_threads(void) {
  syscall(SYS_membarrier, CLINUX_MEMBARRIER_EXPEDITED, 0, 0);
}

#endif
