// Unwinding a snapshot with libunwind's remote API, after the thread has continued.
#ifndef CUNWIND_UNWIND_H
#define CUNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cunwind_process.h"
#include "cunwind_snapshot.h"

/// Opens libunwind's remote API. It takes the dynamic loader's lock, so call it when the watch
/// starts and never during a stall. From any thread; the first call opens it, and later ones return
/// what that one did. @return NULL, or why it cannot be opened (a constant string).
const char *cunwind_load(void);

#if defined(__x86_64__)
/// Whether a system call that ends at `counter` is made by the function of glibc 2.41 or later that is given the number of any cancellable
/// call, after a successful `cunwind_load`. False for another process, whose functions are not known.
/// @param returns_to becomes what lies at the stack pointer then.
/// @param number_offset becomes how far above the stack pointer the number lies.
bool cunwind_is_cancellable_call(const cunwind_process *process, uint64_t counter, uint64_t *returns_to, uint64_t *number_offset);
#endif

enum cunwind_end {
  /// The outermost frame was reached: the unwind information says that there is no caller, or the
  /// return address is 0 and no frame was a guess.
  CUNWIND_END_OUTERMOST = 0,
  /// There were more frames than space.
  CUNWIND_END_LIMIT = 1,
  /// The next frame could not be found.
  CUNWIND_END_LOST = 2,
};

typedef struct cunwind_frame {
  /// The instruction that was about to run (innermost frame, or a frame that a signal interrupted), or the return
  /// address.
  uint64_t address;
  /// True for a return address: the call is at `address - 1`.
  bool is_return_address;
  /// Whether `context` is known.
  bool knows_context;
  /// The stack pointer: of a caller, after its current call.
  uint64_t stack_pointer;
  /// The register that a function of Swift concurrency is given its context in, as the frame has it.
  uint64_t context;
} cunwind_frame;

typedef struct cunwind_backtrace {
  size_t count;
  enum cunwind_end end;
  /// A frame was found by scanning the stack or by following a frame pointer without unwind information.
  bool approximate;
  /// Stack outside the copy was read, as it was during the unwinding: correct if the thread has been blocked until its
  /// end.
  bool read_live;
  /// It was lost in code of no module: made at run time, or unloaded since.
  bool is_outside_modules;
} cunwind_backtrace;

typedef struct cunwind_unwinder cunwind_unwinder;

/// Makes an unwinder for stacks of the process (about 300 KiB, allocated once). Used by one thread at a time.
/// @return NULL before a successful `cunwind_load`, or without memory.
cunwind_unwinder *cunwind_unwinder_create(cunwind_process *process);

/// Frees the unwinder.
void cunwind_unwinder_destroy(cunwind_unwinder *unwinder);

/// Forgets what was learnt from unwind tables: call it when modules may have been unloaded since.
void cunwind_unwinder_flush(cunwind_unwinder *unwinder);

/// Unwinds `snapshot` into `frames`, innermost first. At most `capacity` frames; bounded in steps, and every load is
/// checked, so garbage in the snapshot gives a short backtrace.
///
/// A snapshot read from a blocked thread has no frame pointer. It is recovered at the first frame that needs it, from that
/// function's prologue; a recovery that had to scan is `approximate`. On aarch64 it has no link register either, and the
/// innermost function's caller is found on the stack.
cunwind_backtrace cunwind_unwind(cunwind_unwinder *unwinder, const cunwind_snapshot *snapshot, cunwind_frame *frames,
                                 size_t capacity);

/// Whether the function that holds `address` keeps its context of Swift concurrency on the stack, by its prologue.
/// @return its distance below the function's canonical frame address, or 0 if it does not.
uint64_t cunwind_context_distance(const cunwind_process *process, uint64_t address);

/// Whether code of a module begins at `address` that a function of Swift concurrency can continue with: one that keeps its
/// context, which not all unwind tables have, or the beginning of a function by the table.
bool cunwind_is_continuation(const cunwind_process *process, uint64_t address);

#if defined(__x86_64__)

/// Whether a function that begins with `code` stores the context register at the canonical frame address - 24.
bool cunwind_prologue_keeps_context(const unsigned char *code, size_t length);

/// What a function's prologue pushes and reserves below its frame pointer; `code` is its first bytes. Exposed for tests.
/// @return bytes between RSP and RBP after the prologue, or -1 if it sets up no frame pointer or aligns the stack.
int64_t cunwind_prologue_depth(const unsigned char *code, size_t length);

/// Whether the bytes before a return address end in a call. `code` holds the 8 bytes before it. Exposed for tests.
/// @return 2 for a direct call (its displacement in `displacement`), 1 for an indirect one, 0 for none.
int cunwind_call_before(const unsigned char code[8], int32_t *displacement);

#endif

#endif
