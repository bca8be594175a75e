// What Swift's Glibc module does not show: variadic calls, the `environ` variable, and what glibc declares for
// _GNU_SOURCE alone, which that module is not built with. Each can go when the module shows it.
#ifndef CLINUX_PROCESS_H
#define CLINUX_PROCESS_H

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/// The environment block: a NULL-terminated array of `NAME=value`. Not safe beside `setenv`; read it at start.
static inline char *const *clinux_environment(void) { return environ; }

/// sem_clockwait(3) on CLOCK_MONOTONIC (glibc 2.30), which musl lacks.
int clinux_semaphore_wait_until(sem_t *semaphore, const struct timespec *deadline);

/// Names the calling thread; the kernel keeps 15 bytes (prctl(2) is variadic).
static inline void clinux_set_thread_name(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

/// Where the calling thread's stack ends, or 0 (pthread_getattr_np(3), for _GNU_SOURCE alone).
static inline unsigned long clinux_own_stack_end(void) {
  extern int pthread_getattr_np(pthread_t, pthread_attr_t *);
  pthread_attr_t attributes;
  void *lowest = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  int code = pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return code == 0 ? (unsigned long)lowest + size : 0;
}

/// Where a thread's list of robust mutexes begins (get_robust_list(2)), or 0. The C library keeps it in the thread's structure.
static inline unsigned long clinux_robust_list(int thread) {
  void *head = NULL;
  size_t length = 0;
  return syscall(SYS_get_robust_list, thread, &head, &length) == 0 ? (unsigned long)head : 0;
}

/// Random bytes without waiting for the kernel's pool. False if it has none yet.
static inline bool clinux_random(void *bytes, size_t count) {
  return getrandom(bytes, count, GRND_NONBLOCK) == (ssize_t)count;
}

/// Whether the program has more rights than who started it: set-user-ID, set-group-ID, or file capabilities (getauxval(3), AT_SECURE).
static inline bool clinux_has_more_rights(void) { return getauxval(AT_SECURE) != 0; }

/// The address of the main executable's program headers (getauxval(3), AT_PHDR).
static inline unsigned long clinux_program_headers(void) { return getauxval(AT_PHDR); }

/// Whether the kernel has loaded an interpreter for the executable. Not if that is static, or is the dynamic loader itself.
static inline bool clinux_has_interpreter(void) { return getauxval(AT_BASE) != 0; }

/// The main executable's path as it was passed to execve(2).
static inline const char *clinux_executable_name(void) {
  const char *name = (const char *)getauxval(AT_EXECFN);
  return name != NULL ? name : "";
}

/// Lets this thread's timed waits end up to `ns` late instead of the default 50 us (PR_SET_TIMERSLACK).
static inline void clinux_set_timer_slack(unsigned long ns) { prctl(PR_SET_TIMERSLACK, ns, 0, 0, 0); }

/// How often this thread has gone to sleep, and how many of its page faults read from disk or did not (getrusage(2), RUSAGE_THREAD).
void clinux_thread_waits(long *sleeps, long *disk_faults, long *faults);

/// Asks that this thread get a processor soon after it wakes, for a short time at once (sched_setattr(2), Linux 6.12: 0.1 ms).
///
/// Its share of the processor stays the same. Nothing happens for a thread with another scheduling policy, nor under a seccomp
/// filter unless `under_filter` says that the filter does not end the process for this call.
void clinux_request_short_slice(bool under_filter);

/// open(2); Swift does not import variadic functions.
static inline int clinux_open(const char *path, int flags, unsigned mode) { return open(path, flags, mode); }

/// tgkill(2): a signal to one thread of a process.
static inline int clinux_signal_thread(pid_t process, pid_t thread, int number) {
  return (int)syscall(SYS_tgkill, process, thread, number);
}

/// Whether the process has a handler for a signal (sigaction(2), whose structure differs between C libraries).
static inline bool clinux_has_signal_handler(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) != 0) return false;
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

/// dup with close-on-exec.
static inline int clinux_duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

#endif
