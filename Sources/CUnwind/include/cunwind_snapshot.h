// A copy of a thread's registers and stack.
#ifndef CUNWIND_SNAPSHOT_H
#define CUNWIND_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cunwind_process.h"
#include "cunwind_registers.h"

/// The most bytes kept of a stack. Frames further out are read from live memory, and the backtrace says so
/// (`read_live`).
#define CUNWIND_STACK_CAPACITY (512u * 1024u)

/// A stopped moment of one thread.
typedef struct cunwind_snapshot {
  uint64_t registers[CUNWIND_REGISTERS];
  /// Bit n: register n is known.
  uint64_t known;
  /// Address of the first byte in `stack`, and how many follow.
  uint64_t stack_address;
  uint64_t stack_length;
  unsigned char *stack;
} cunwind_snapshot;

/// Claims the snapshot memory of a process's handle: from before a capture until its stack has been
/// unwound. @return false while it is in use.
bool cunwind_snapshot_claim(cunwind_process *process);

/// Gives the snapshot memory back.
void cunwind_snapshot_release(cunwind_process *process);

enum cunwind_capture_result {
  CUNWIND_CAPTURED = 0,
  /// No sample yet.
  CUNWIND_CAPTURE_WAITING = 1,
  /// The thread has ended.
  CUNWIND_CAPTURE_NO_THREAD = 2,
  /// A handler of an earlier, abandoned capture is still copying.
  CUNWIND_CAPTURE_BUSY = 3,
  /// Not on this machine, or not in this process.
  CUNWIND_CAPTURE_UNSUPPORTED = 4,
  /// The kernel refused: too many signals are pending (RLIMIT_SIGPENDING), too much memory is locked, or no descriptor is
  /// free.
  CUNWIND_CAPTURE_REFUSED = 5,
};

/// Prepares a snapshot whose stack the calling thread reads from a thread that is blocked in the kernel. The caller has
/// claimed the snapshot memory. Of a stack whose end is unknown only the innermost 64 KiB are copied: what lies beyond
/// its end belongs to something else, and may be slow to read. @return false if an abandoned handler still copies into
/// it.
bool cunwind_snapshot_read(cunwind_process *process, uint64_t stack_pointer, uint64_t stack_highest,
                           cunwind_snapshot *snapshot);

#endif
