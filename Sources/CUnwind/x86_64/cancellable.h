// Cancellable system calls of glibc 2.41 and later.
#pragma once

#include "../architecture.h"
#include "cunwind_unwind.h"

#pragma GCC visibility push(hidden)

// Where this process's C library has them; all 0 if it makes them otherwise.
struct cunwind_cancellable {
  uint64_t outer, middle, inner;
  // Where the inner function's system call ends, and where the function returns to.
  uint64_t inner_call_end, inner_returns_to;
  // How far above the stack pointer the number of a call lies that the inner function makes.
  uint64_t number_offset;
};
extern struct cunwind_cancellable cunwind_cancellable;

#pragma GCC visibility pop
