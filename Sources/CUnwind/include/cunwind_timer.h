// A copy of a running thread by a signal that the kernel raises only while the thread runs its own code.
#ifndef CUNWIND_TIMER_H
#define CUNWIND_TIMER_H

#include "cunwind_snapshot.h"

/// Finds a real-time signal for a thread, from SIGRTMAX - 1 down, and installs the copying handler: one whose disposition
/// is the default, or that has the handler already. `blocked` is the thread's mask; what it blocks is left alone,
/// because sigwait(3) and signalfd(2) rest on signals that are blocked in all threads.
///
/// Call it before each capture. The handler stays for the life of the process: a signal that is still on its way would
/// end the process under the default disposition. @return the signal, or a negative errno value.
int cunwind_timer_signal(uint64_t blocked);

/// The lowest real-time signal that the C library gives out (a macro that Swift does not import).
int cunwind_first_real_time_signal(void);

/// Installs the handler for SIGPROF until `cunwind_timer_end`: for libdispatch's workers, which block every signal but
/// this and those of a crash. Only while the process leaves that signal alone: default disposition, no profiling timer.
/// False otherwise.
bool cunwind_timer_borrow_profiling_signal(void);

/// Checks that timers of the processor time can be made, by making one that never runs.
/// @return 0, -ENOTSUP where the kernel raises their signals within system calls, or the negative errno value of
/// timer_create(2).
int cunwind_timer_check(void);

/// A request for one copy.
typedef struct cunwind_timer {
  int number;
  int identifier;
  int32_t thread;
  uint64_t generation;
} cunwind_timer;

/// Starts a timer on the thread's user-mode processor time. The caller has claimed the snapshot memory, and knows that
/// the thread is prepared (`cunwind_thread_is_prepared`).
/// @return CUNWIND_CAPTURED if the timer runs.
enum cunwind_capture_result cunwind_timer_begin(cunwind_timer *timer, int32_t thread, int number);

/// Waits for the handler to have copied registers and stack.
enum cunwind_capture_result cunwind_timer_wait(cunwind_timer *timer, uint64_t timeout_ns, cunwind_snapshot *snapshot);

/// Whether the handler has begun to copy, and not ended.
bool cunwind_timer_is_copying(const cunwind_timer *timer);

/// Deletes the timer, and gives a borrowed signal back. A handler that copies at this moment is waited for, 10 ms at
/// most.
void cunwind_timer_end(cunwind_timer *timer);

#if defined(__x86_64__)

/// Whether a signal has made a system call end early, which the handler then lets begin again.
///
/// A thread that blocks the signal after the timer was armed, and then calls ppoll(2),
/// sigsuspend(2) or the like with a mask that lets it in, gets EINTR at once. If RAX is -EINTR and
/// the instructions before RIP are `mov $number,%eax; syscall`, continuing at the `mov` repeats the
/// call. Not so for `close`, which has done its work by then. Exposed for tests. `code` holds the 7
/// bytes before RIP.
bool cunwind_is_interrupted_syscall(uint64_t rax, const unsigned char code[7]);

#endif

/// Whether the 8 bytes at `address` can be read; for a signal handler: no descriptor, and no system call that a filter
/// forbids. errno is untouched. Exposed for tests.
bool cunwind_is_readable(uint64_t address);

#endif
