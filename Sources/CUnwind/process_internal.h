// What a process is read through. Nothing behind it knows whose process it is.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cunwind_process.h"

// The mapped range of a module.
struct cunwind_mapping {
  uint64_t start, end;
  // The module's .eh_frame_hdr, or 0.
  uint64_t eh_frame_header;
  // Distinguishes the process's modules: in the own process the address of the loader's link map.
  uint64_t identity;
};

// Where a module's dynamic section and its program headers lie.
struct cunwind_image {
  uint64_t identity, load_bias, dynamic, headers, header_count;
};

// How memory and modules of a process are found.
struct cunwind_access {
  // As `cunwind_read`.
  size_t (*read)(const cunwind_process *process, uint64_t address, void *buffer, size_t length);
  // Finds the module that holds `address`. Not for a signal handler.
  bool (*find_mapping)(const cunwind_process *process, uint64_t address, struct cunwind_mapping *mapping);
  // Adds load bias and path of the module that was found.
  bool (*describe)(const cunwind_process *process, const struct cunwind_mapping *mapping, cunwind_module *module);
  // Notices modules that were loaded since; with `forgets`, also those that were unloaded or replaced.
  void (*refresh)(cunwind_process *process, bool forgets);
  // Passes each module that the one at `near` can call (dlmopen(3)) to `body` until it returns false. @return false if not all could
  // be read.
  bool (*each_image)(const cunwind_process *process, const struct cunwind_mapping *near,
                     bool (*body)(void *argument, const struct cunwind_image *image), void *argument);
};

// Where the C library makes cancellable system calls, from glibc 2.41 on; all 0 if it makes them otherwise, or if that is not known.
struct cunwind_cancellable {
  uint64_t outer, middle, inner;
  // Where the inner function's system call ends, and where the function returns to. On x86_64 alone.
  uint64_t inner_call_end, inner_returns_to;
  // How far above the stack pointer the number of a call lies that the inner function makes. On x86_64 alone.
  uint64_t number_offset;
};

struct cunwind_process {
  const struct cunwind_access *access;
  // 0 for the own process, whose id a fork changes.
  pid_t id;
  // The process that has claimed the snapshot memory, or 0.
  _Atomic pid_t claimed;
  // The snapshot memory, of CUNWIND_STACK_CAPACITY bytes.
  unsigned char *stack_copy;
  struct cunwind_cancellable cancellable;
};

#pragma GCC visibility push(hidden)

// Static, because a signal handler reads it and has no argument.
extern struct cunwind_process cunwind_own;

size_t cunwind_own_read(const cunwind_process *process, uint64_t address, void *buffer, size_t length);
bool cunwind_own_find_mapping(const cunwind_process *process, uint64_t address, struct cunwind_mapping *mapping);
bool cunwind_own_describe(const cunwind_process *process, const struct cunwind_mapping *mapping, cunwind_module *module);
void cunwind_own_refresh(cunwind_process *process, bool forgets);
bool cunwind_own_each_image(const cunwind_process *process, const struct cunwind_mapping *near,
                            bool (*body)(void *argument, const struct cunwind_image *image), void *argument);

static inline bool cunwind_find_mapping(const cunwind_process *process, uint64_t address, struct cunwind_mapping *mapping) {
  return process->access->find_mapping(process, address, mapping);
}

// Whether all `length` bytes could be read.
static inline bool cunwind_read_exactly(const cunwind_process *process, uint64_t address, void *buffer, size_t length) {
  return cunwind_read(process, address, buffer, length) == length;
}

#pragma GCC visibility pop
