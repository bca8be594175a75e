// The snapshot memory, shared by the ways to take a stack.
#ifndef CUNWIND_SNAPSHOT_INTERNAL_H
#define CUNWIND_SNAPSHOT_INTERNAL_H

#include <stdatomic.h>

#include "architecture.h"
#include "cunwind_snapshot.h"
#include "process_internal.h"

#pragma GCC visibility push(hidden)

// A handler that runs after its waiter timed out finds another state and returns. `state` is the generation in the
// high bits and the stage in the low two.
enum snapshot_stage { SNAPSHOT_FREE = 0, SNAPSHOT_REQUESTED = 1, SNAPSHOT_COPYING = 2, SNAPSHOT_COPIED = 3 };
struct snapshot_slot {
  _Atomic uint64_t state;
  cunwind_snapshot snapshot;
};
// The own process's: static and never freed.
extern struct snapshot_slot cunwind_slot;
extern unsigned char cunwind_stack_copy[CUNWIND_STACK_CAPACITY];

// Takes the slot for the next generation. False while an abandoned handler copies.
bool cunwind_slot_begin(enum snapshot_stage stage, uint64_t *generation);

// The memory that a stack of the process is copied into. NULL while an abandoned handler copies into it.
unsigned char *cunwind_copy_begin(cunwind_process *process);

uint64_t cunwind_now_ns(void);

// Whether the process has no such thread any more. A filter may refuse to say: then it has.
bool cunwind_thread_is_gone(const cunwind_process *process, int32_t thread);

// The bounds of a prepared thread's own stack. Read by the handler on that thread.
struct own_stack {
  uint64_t lowest, end;
};
extern __thread struct own_stack cunwind_own_stack __attribute__((tls_model("initial-exec")));

#pragma GCC visibility pop

#endif
