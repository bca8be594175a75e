// An asymmetric fence: it is free for the thread that passes it a million times a second, and expensive for the one that rarely does.
//
// Swift has neither a compiler-only barrier nor membarrier(2): `syscall` is variadic. It can go when Swift has both.
#ifndef CLINUX_BARRIER_H
#define CLINUX_BARRIER_H

#include <linux/membarrier.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Keeps the compiler from moving a load before an earlier store. No instruction.
static inline void clinux_compiler_barrier(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Keeps the processor from doing so, for kernels without membarrier. About 20 cycles.
static inline void clinux_full_barrier(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/// Makes `clinux_barrier_on_all_threads` usable. False on kernels before 4.14, or where seccomp forbids it.
static inline bool clinux_barrier_register(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/// A full fence on every running thread of this process (membarrier(2), private expedited); microseconds.
static inline void clinux_barrier_on_all_threads(void) {
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

#endif
