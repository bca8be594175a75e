// Threads that stay inside one awkward thing, over and over, so that they are captured in the middle of it.
#ifndef VICTIM_MOMENTS_H
#define VICTIM_MOMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum victim_moment {
  VICTIM_MALLOC,
  VICTIM_DLOPEN,
  VICTIM_VFORK,
  VICTIM_SPAWN,
  VICTIM_HANDLER,
  /// On an alternate stack, which lies below the thread's own, or above it.
  VICTIM_HANDLER_ON_A_STACK_BELOW,
  VICTIM_HANDLER_ON_A_STACK_ABOVE,
  /// Calls through a null pointer; SIGSEGV's handler, on one of these stacks, goes back to before.
  VICTIM_CALL_OF_NOTHING,
  VICTIM_CALL_OF_NOTHING_WITH_A_STACK_BELOW,
  VICTIM_CALL_OF_NOTHING_WITH_A_STACK_ABOVE,
  VICTIM_FULL_STACK,
  VICTIM_SIGNALS_BLOCKED,
  VICTIM_DEEP,
  /// Protects and unprotects 64 MiB, so that each thread that asks the kernel for memory waits.
  VICTIM_MAPPING,
  /// Runs code of no module and without a frame pointer, until a signal comes; and known code from then on.
  VICTIM_FOREIGN_CODE,
  /// Calls `body`: the test's own Swift or C++.
  VICTIM_BODY,
};

/// A thread that is in it.
typedef struct victim_moment_thread victim_moment_thread;

/// Starts the thread and returns when it is inside. `body` (VICTIM_BODY alone) is called until the thread is stopped;
/// `prepare` (or NULL) once at its start.
victim_moment_thread *victim_moment_start(enum victim_moment moment, void (*prepare)(void), void (*body)(void));

/// The kernel's id of the thread, and the outermost return address on its stack.
int victim_moment_id(const victim_moment_thread *thread);
uint64_t victim_moment_outermost(const victim_moment_thread *thread);

/// Where the function begins, a few bytes long, that calls through a null pointer.
uint64_t victim_caller_of_nothing(void);

/// Ends the thread. @return how often it went through its moment.
unsigned long victim_moment_stop(victim_moment_thread *thread);

/// Keeps `count` threads alive at a time, each for about a millisecond, until stopped.
typedef struct victim_crowd victim_crowd;
victim_crowd *victim_crowd_start(size_t count);
/// The id of one that lived a moment ago.
int victim_crowd_id(victim_crowd *crowd, size_t index);
void victim_crowd_stop(victim_crowd *crowd);

/// Reads a byte from `descriptor` below 1 MiB of stack: from one of two callers, which differ in nothing else.
/// @param caller gets the return address in the caller.
long victim_read_far_below(int descriptor, bool second, uint64_t *caller);

/// Reads a byte from `descriptor` in a function that needs its frame pointer, below `gap` bytes of its own, called by one
/// that keeps a number in RBP. @param caller gets the return address in that caller.
long victim_read_below_a_number(int descriptor, size_t gap, uint64_t *caller);

/// As `victim_read_below_a_number`, but called through a pointer; in the gap lie the frames of calls that are over.
long victim_read_below_old_frames(int descriptor, size_t gap, uint64_t *caller);

/// Makes process_vm_readv(2) fail with EPERM on all threads, or kill the process. False if the kernel has no seccomp.
bool victim_forbid_process_vm_readv(bool kill);

/// Blocks a signal, has it pending, and calls ppoll(2) for that long with a mask that lets it in. @return what that says,
/// or its errno negated.
int victim_poll_letting_in(int number, unsigned milliseconds);

/// Computes for that long on a stack of 64 KiB that lies below the calling thread's own, with a page between them that
/// cannot be touched; in `victim_run_on_a_stack_of` alone.
bool victim_compute_on_a_stack_below(unsigned milliseconds);

/// Runs `body` on a thread with a stack of that size, and waits for its end. @return whether it was made.
bool victim_run_on_a_stack_of(size_t size, void (*body)(void));

/// Computes for that long with less than so many bytes of the calling thread's stack left.
void victim_compute_near_the_end_of_the_stack(unsigned milliseconds, size_t left);

/// Sets an alternate stack of that size; 0 if the kernel takes it.
int victim_set_alternate_stack(size_t size);

/// Runs a handler with SA_ONSTACK that needs that many bytes of stack.
void victim_run_handler_on_stack(size_t bytes);

/// Blocks all real-time signals in the calling thread.
void victim_block_real_time_signals(void);

/// Sends the calling thread each real-time signal eight times while it computes, and reads them from a signalfd(2). @return how many arrived; `sent` gets how many there were.
int victim_read_real_time_signals(unsigned milliseconds, int *sent);

/// What `body` answers in the child of a fork.
bool victim_child_says(bool (*body)(void));

/// Whether other processes of its user may read the process (PR_GET_DUMPABLE).
bool victim_is_dumpable(void);

#endif
