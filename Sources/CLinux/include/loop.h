// What the run loop needs from the kernel and the runtimes and Swift cannot import by itself: variadic calls, thread-local
// variables, inline assembly, a packed union and weak symbols. Each can go when Swift has it.
#ifndef CLINUX_LOOP_H
#define CLINUX_LOOP_H

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The address of the thread's control block: which thread is this, in one instruction. pthread_self() is a call through the PLT.
static inline uintptr_t clinux_thread_pointer(void) { return (uintptr_t)__builtin_thread_pointer(); }

// One word of thread-local storage for the thread's loop. Swift has no thread-local variables; pthread_getspecific is a call.
// The pthread key beside it exists for its destructor alone.
extern __thread void *clinux_loop_current;
static inline void *clinux_loop_get_current(void) { return clinux_loop_current; }
static inline void clinux_loop_set_current(void *value) { clinux_loop_current = value; }

// The descriptor source that the thread's loop is calling, and its descriptor: a callback that needs only these does not wait for the
// source's memory. Both are 0 outside of such calls.
typedef struct clinux_loop_callee_t {
  const void *source;
  int32_t descriptor;
} clinux_loop_callee_t;
extern __thread clinux_loop_callee_t clinux_loop_callee;
static inline clinux_loop_callee_t clinux_loop_get_callee(void) { return clinux_loop_callee; }
static inline void clinux_loop_set_callee(clinux_loop_callee_t value) { clinux_loop_callee = value; }

// syscall() is variadic, which Swift cannot call.
static inline int clinux_gettid(void) { return (int)syscall(SYS_gettid); }
static inline long clinux_futex_wait(const void *word, uint32_t expected, const struct timespec *relative) {
  return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, relative, NULL, 0);
}
static inline long clinux_futex_wake(const void *word, int count) {
  return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/// What a thread waits on until another one wakes it, and which one that is.
///
/// A monitor finds the thread beside the word. `mark` shows that the word belongs to such a wait.
typedef struct clinux_awaited {
  /// 0 until the wait is over.
  uint32_t word;
  /// The kernel's number of the thread that is waited for; 0 if it is not known.
  int32_t thread;
  uint64_t mark;
} clinux_awaited;

/// The mark of a wait at this address.
static inline uint64_t clinux_awaited_mark(uint64_t address) { return address ^ UINT64_C(0x9d1f6a53c7e2b804); }

// glibc 2.36 declares pidfd_open, but the headers of older ones do not.
static inline int clinux_pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

// Waits for the exited child of a pidfd (Linux 5.4), without blocking: CLD_EXITED, CLD_KILLED or CLD_DUMPED with the code or the signal,
// 0 if it has not exited, negative if it cannot be waited for. P_PIDFD is 3, in headers since glibc 2.36.
static inline int clinux_wait_for_pidfd(int descriptor, int *status) {
  siginfo_t info;
  info.si_pid = 0;
  if (waitid((idtype_t)3, (id_t)descriptor, &info, WEXITED | WNOHANG) != 0) return -errno;
  if (info.si_pid == 0) return 0;
  *status = info.si_status;
  return info.si_code;
}

// Prefetches 128 bytes for writing; any address may be given. Swift has no function for it.
static inline void clinux_prefetch(const void *address) {
  __builtin_prefetch(address, 1);
  __builtin_prefetch((const char *)address + 64, 1);
}

// Prefetches 64 bytes for reading; any address may be given.
static inline void clinux_prefetch_for_reading(const void *address) { __builtin_prefetch(address, 0); }

// CLOCK_MONOTONIC in nanoseconds; inline so that a turn pays for the vDSO and nothing else.
static inline int64_t clinux_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// The same as of the last tick of the kernel's clock, which is at most so long ago.
enum { CLINUX_COARSE_TICK = 10000000 };
static inline int64_t clinux_monotonic_coarse(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// A clock for statistics: the processor's own where it is known to tick evenly (8 ns instead of 22), otherwise nanoseconds. The unit is found by
// comparing it with CLOCK_MONOTONIC, never assumed.
extern int clinux_has_even_tick;
static inline int64_t clinux_ticks(void) {
#if defined(__x86_64__)
  if (clinux_has_even_tick) return (int64_t)__builtin_ia32_rdtsc();
#endif
  return clinux_monotonic();
}

// epoll_event is packed and carries a union: reading the token through it costs Swift a copy of the whole.
static inline uint64_t clinux_epoll_token(const struct epoll_event *event) { return event->data.u64; }
static inline int clinux_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events, .data = {.u64 = token}};
  return epoll_ctl(epoll, operation, descriptor, &event);
}
// glibc's epoll_wait is a cancellation point, which costs two locked instructions in a program with threads, and its syscall() shuffles
// seven registers. A loop's thread is stopped and not cancelled. Returns the number of events, or a negative number.
static inline int clinux_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = timeout;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"((long)SYS_epoll_wait), "D"((long)epoll), "S"(events), "d"((long)count), "r"(r10)
                   : "rcx", "r11", "memory");
  return (int)result;
#else
  long result = syscall(SYS_epoll_pwait, epoll, events, count, timeout, NULL, 8);
  return result < 0 ? -errno : (int)result;
#endif
}

// Whether the kernel has this name for a descriptor's file in /proc/self/fd. For the child of a fork: it takes no lock.
int clinux_descriptor_is(int descriptor, const char *name);

// EPOLLET is 1u << 31, which Swift imports as a negative enumeration value.
static inline uint32_t clinux_epoll_edge_triggered(void) { return (uint32_t)EPOLLET; }

// libdispatch's entry points for a foreign main loop, weak: a program without libdispatch still links and gets NULL here.
extern int _dispatch_get_main_queue_port_4CF(void) __attribute__((weak));
extern void _dispatch_main_queue_callback_4CF(void *) __attribute__((weak));
static inline int clinux_dispatch_is_linked(void) {
  return &_dispatch_get_main_queue_port_4CF != NULL && &_dispatch_main_queue_callback_4CF != NULL;
}
static inline int clinux_dispatch_main_queue_descriptor(void) { return _dispatch_get_main_queue_port_4CF(); }
static inline void clinux_dispatch_drain_main_queue(void) { _dispatch_main_queue_callback_4CF(NULL); }

// The concurrency runtime's hook for what an `@main async` program does with its main thread, weak as well. The hook has
// Swift's calling convention and never returns; `body` must not return either.
int clinux_host_async_main(void (*body)(void));

#endif
