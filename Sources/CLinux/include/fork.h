// What a fork does to loops: the child has the forking thread alone, as its main thread, and all locks as they were. In C because handlers
// of a fork must not enter Swift's runtime. It can go when Swift promises what such code may do.
#ifndef CLINUX_FORK_H
#define CLINUX_FORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How many forks lie between the process that loaded this library and this one. Kept by pthread_atfork: getpid() would be a system call on each use.
extern unsigned clinux_fork_count;
static inline unsigned clinux_loop_fork_count(void) { return __atomic_load_n(&clinux_fork_count, __ATOMIC_RELAXED); }

// Whether a thread other than the main one has forked: libdispatch in the child takes a thread for the main one that is not there.
extern bool clinux_fork_left_main_thread;
static inline bool clinux_fork_has_left_main_thread(void) { return clinux_fork_left_main_thread; }

// The loop of the main thread, NULL before it is asked for. In the child of a fork it is the forking thread's, if that has one.
extern void *clinux_main_loop;
static inline void *clinux_loop_get_main(void) { return __atomic_load_n(&clinux_main_loop, __ATOMIC_ACQUIRE); }
extern uint32_t *clinux_main_loop_lock;
// False if there is one already.
static inline bool clinux_loop_set_main(void *loop, uint32_t *lock) {
  void *none = NULL;
  if (!__atomic_compare_exchange_n(&clinux_main_loop, &none, loop, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return false;
  __atomic_store_n(&clinux_main_loop_lock, lock, __ATOMIC_RELEASE);
  return true;
}

// The lock of the thread's loop, for as long as the thread has one. A fork waits for it, so that the child finds whole what it guards.
extern __thread uint32_t *clinux_loop_current_lock;
static inline void clinux_loop_set_current_lock(uint32_t *lock) { clinux_loop_current_lock = lock; }

// Registers a lock of the whole process for good, a word that is 0 while it is free: a fork waits for it, too.
void clinux_fork_register_lock(uint32_t *lock);

// The calling thread works for the monitor from now on, between a call of `works` and one of `rests`. A fork waits until none works, for
// 50 ms at most: such a thread may hold a lock of Swift's runtime for a moment, which nobody in the child would ever give back.
// One that works for long calls `passes` in between: it lets forks that wait pass. Other threads may call `rests`, `works` and `passes`; they do
// nothing there.
void clinux_fork_monitor_thread_begins(void);
void clinux_fork_monitor_thread_works(void);
void clinux_fork_monitor_thread_rests(void);
void clinux_fork_monitor_thread_passes(void);

// The calling thread works for the service from now on, until it calls `begins`; false if it did not work for the monitor. A call of `works`
// does nothing meanwhile.
bool clinux_fork_monitor_thread_leaves(void);

// How long this process's forks took, in nanoseconds, without those in progress; and whether one is in progress: other threads
// wait for memory meanwhile. Forks at the same time count each.
uint64_t clinux_fork_time(void);
bool clinux_fork_is_in_progress(void);

#endif
