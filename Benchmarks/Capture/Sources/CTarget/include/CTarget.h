// A thread that is captured, and that says itself what it has noticed of it.
#ifndef C_TARGET_H
#define C_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// What the thread does at the bottom of its stack.
enum target_leaf {
  /// Reads the processor's time stamp counter in a loop: a pause is a gap between two readings.
  TARGET_RUNS,
  /// Waits in epoll_wait(2), 5 ms at a time: a call that signals and debuggers make fail with EINTR.
  TARGET_WAITS,
};

typedef struct target target;

/// Makes a target with `frames` frames of 48 different functions, about 100 bytes each.
target *target_create(enum target_leaf leaf, unsigned frames);

/// Becomes the target: returns after `target_stop`.
void target_run(target *target);

/// A thread that becomes the target, on `processor` alone (any if negative). `prepare` (or NULL) is called on it first.
void target_start(target *target, int processor, void (*prepare)(void));
void target_stop(target *target);

/// The kernel's id of the thread, once it is at the bottom.
int target_thread(const target *target);

/// Forgets what has been noticed, and returns when the thread goes by that.
void target_open_window(target *target);

/// The longest gap since, in ticks of the time stamp counter, read when the thread has certainly
/// continued.
uint64_t target_longest_gap(target *target);

/// The calls since that were made, and those that failed with EINTR or ended early.
uint64_t target_calls(const target *target);
uint64_t target_broken_calls(const target *target);

/// How much longer than 5 ms the latest calls took, in nanoseconds; at most `capacity` of them. @return how many.
size_t target_lateness(const target *target, double *nanoseconds, size_t capacity);

/// Signals whose handler has run on the thread's alternate stack since the last call; only whether, not how many.
bool target_was_signalled(target *target);

/// A handler that does nothing but count itself, for a signal of the same kind and flags as the capture signal.
bool target_install_empty_handler(void);

/// Sends that signal to the target and returns when its handler has run; false after 200 ms.
bool target_interrupt(target *target);

/// Has a timer of the target's user-mode time send it, as a capture does, and returns when its handler has run; false after 200 ms.
bool target_interrupt_by_timer(target *target);

/// Nanoseconds in a tick.
double target_tick_length(void);

/// Restricts the calling thread to one processor; all that the process began with if negative.
void target_pin(int processor);

/// The first and the last processor that the process may use.
void target_processors(int *first, int *last);

/// Lets any process of the same user read this one with ptrace(2).
void target_allow_tracing(void);

#endif
