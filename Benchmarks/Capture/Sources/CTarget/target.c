#define _GNU_SOURCE
#include "CTarget.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define WAIT_MS 5
#define KEPT 4096u
#define UNTOUCHED 0x756e746f75636865u
#define WATCHED_WORDS 16u

struct target {
  enum target_leaf leaf;
  unsigned frames;
  int processor;
  void (*prepare)(void);
  pthread_t handle;
  _Atomic int thread;
  _Atomic bool done;
  _Atomic uint64_t window, seen, beats, longest;
  _Atomic uint64_t calls, broken;
  double lateness[KEPT];
  uint64_t *alternate_end;
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void run_on(target *t) {
  uint64_t window = 0, longest = 0, beats = 0, last = __rdtsc();
  while (!atomic_load_explicit(&t->done, memory_order_relaxed)) {
    uint64_t now = __rdtsc(), asked = atomic_load_explicit(&t->window, memory_order_relaxed);
    if (asked != window) {
      window = asked, longest = 0;
      atomic_store(&t->longest, 0);
      atomic_store(&t->seen, window);
      now = __rdtsc();
    } else if (now - last > longest) {
      longest = now - last;
      atomic_store_explicit(&t->longest, longest, memory_order_relaxed);
    }
    last = now;
    atomic_store_explicit(&t->beats, ++beats, memory_order_relaxed);
  }
}

static void wait_on(target *t) {
  int set = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event;
  uint64_t window = 0;
  while (!atomic_load(&t->done)) {
    uint64_t asked = atomic_load(&t->window);
    if (asked != window) {
      window = asked;
      atomic_store(&t->calls, 0);
      atomic_store(&t->broken, 0);
      atomic_store(&t->seen, window);
    }
    int64_t start = now_ns();
    int result = epoll_wait(set, &event, 1, WAIT_MS);
    int64_t late = now_ns() - start - WAIT_MS * 1000000ll;
    uint64_t calls = atomic_load(&t->calls);
    t->lateness[calls % KEPT] = (double)late;
    atomic_store(&t->calls, calls + 1);
    if (result != 0 || late < 0) atomic_fetch_add(&t->broken, 1);
  }
  close(set);
}

__attribute__((noinline)) static void reach_bottom(target *t) {
  atomic_store(&t->thread, (int)syscall(SYS_gettid));
  if (t->leaf == TARGET_RUNS) run_on(t);
  else wait_on(t);
  __asm__ volatile("" : : : "memory");
}

// -- Many different functions, so that what is learnt from unwind tables is not one row

static void descend(target *t, unsigned left);

#define LEVEL(n)                                                            \
  __attribute__((noinline)) static void level_##n(target *t, unsigned left) { \
    volatile char room[48 + 8 * (n % 5)];                                   \
    room[n % 48] = (char)left;                                              \
    descend(t, left);                                                       \
    __asm__ volatile("" : : "r"(room) : "memory");                          \
  }
#define EIGHT(n) LEVEL(n##0) LEVEL(n##1) LEVEL(n##2) LEVEL(n##3) LEVEL(n##4) LEVEL(n##5) LEVEL(n##6) LEVEL(n##7)
EIGHT(1) EIGHT(2) EIGHT(3) EIGHT(4) EIGHT(5) EIGHT(6)
#define NAMES(n) level_##n##0, level_##n##1, level_##n##2, level_##n##3, level_##n##4, level_##n##5, level_##n##6, level_##n##7
static void (*const levels[48])(target *, unsigned) = {NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5), NAMES(6)};

__attribute__((always_inline)) static inline void descend(target *t, unsigned left) {
  if (left == 0) reach_bottom(t);
  else levels[left % 48](t, left - 1);
}

// -- The thread

target *target_create(enum target_leaf leaf, unsigned frames) {
  target *t = calloc(1, sizeof *t);
  if (t == NULL) abort();
  t->leaf = leaf, t->frames = frames, t->processor = -1;
  return t;
}

void target_run(target *t) { levels[0](t, t->frames); }

static void *target_main(void *argument) {
  target *t = argument;
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  target_pin(t->processor);
  if (t->prepare != NULL) t->prepare();
  stack_t alternate;
  if (sigaltstack(NULL, &alternate) == 0 && (alternate.ss_flags & SS_DISABLE) == 0) {
    // What the kernel puts there for a handler begins at its end.
    t->alternate_end = (uint64_t *)((char *)alternate.ss_sp + alternate.ss_size);
    for (unsigned i = 1; i <= WATCHED_WORDS; i++) t->alternate_end[-(int)i] = UNTOUCHED;
  }
  target_run(t);
  return NULL;
}

void target_start(target *t, int processor, void (*prepare)(void)) {
  t->processor = processor, t->prepare = prepare;
  if (pthread_create(&t->handle, NULL, target_main, t) != 0) abort();
  while (target_thread(t) == 0) sched_yield();
}

void target_stop(target *t) {
  atomic_store(&t->done, true);
  if (t->handle != 0) pthread_join(t->handle, NULL);
}

int target_thread(const target *t) { return atomic_load(&t->thread); }

void target_open_window(target *t) {
  uint64_t window = atomic_fetch_add(&t->window, 1) + 1;
  while (atomic_load(&t->seen) != window && !atomic_load(&t->done)) _mm_pause();
}

uint64_t target_longest_gap(target *t) {
  uint64_t beats = atomic_load(&t->beats);
  while (atomic_load(&t->beats) < beats + 3 && !atomic_load(&t->done)) _mm_pause();
  return atomic_load(&t->longest);
}

uint64_t target_calls(const target *t) { return atomic_load(&t->calls); }
uint64_t target_broken_calls(const target *t) { return atomic_load(&t->broken); }

size_t target_lateness(const target *t, double *nanoseconds, size_t capacity) {
  uint64_t calls = atomic_load(&t->calls);
  size_t count = calls < KEPT ? (size_t)calls : KEPT;
  if (count > capacity) count = capacity;
  memcpy(nanoseconds, t->lateness, count * sizeof *nanoseconds);
  return count;
}

bool target_was_signalled(target *t) {
  bool touched = false;
  for (unsigned i = 1; i <= WATCHED_WORDS && t->alternate_end != NULL; i++) {
    touched |= t->alternate_end[-(int)i] != UNTOUCHED;
    t->alternate_end[-(int)i] = UNTOUCHED;
  }
  return touched;
}

// -- The signal that costs the least

static _Atomic uint64_t handled;
static int empty_signal;

static void empty_handler(int number, siginfo_t *info, void *context) {
  (void)number, (void)info, (void)context;
  atomic_store_explicit(&handled, atomic_load_explicit(&handled, memory_order_relaxed) + 1, memory_order_relaxed);
}

bool target_install_empty_handler(void) {
  empty_signal = SIGRTMIN + 5;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = empty_handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  return sigaction(empty_signal, &action, NULL) == 0;
}

static bool wait_for_handler(uint64_t before) {
  int64_t start = now_ns();
  while (atomic_load(&handled) == before) {
    if (now_ns() - start > 200000000) return false;
    _mm_pause();
  }
  return true;
}

bool target_interrupt(target *t) {
  uint64_t before = atomic_load(&handled);
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = empty_signal, info.si_code = SI_QUEUE, info.si_pid = getpid(), info.si_uid = getuid();
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), target_thread(t), empty_signal, &info) != 0) return false;
  return wait_for_handler(before);
}

bool target_interrupt_by_timer(target *t) {
  uint64_t before = atomic_load(&handled);
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = empty_signal;
  event._sigev_un._tid = target_thread(t);
  // The user-mode time of the thread, as in linux/posix-timers.h.
  clockid_t clock = (clockid_t)(~(unsigned)target_thread(t) << 3 | 4 | 1);
  int identifier;
  if (syscall(SYS_timer_create, clock, &event, &identifier) != 0) return false;
  struct itimerspec shortest = {{0, 0}, {0, 1}};
  bool was_handled = syscall(SYS_timer_settime, identifier, 0, &shortest, NULL) == 0 && wait_for_handler(before);
  syscall(SYS_timer_delete, identifier);
  return was_handled;
}

// -- The machine

double target_tick_length(void) {
  int64_t start = now_ns();
  uint64_t ticks = __rdtsc();
  struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
  int64_t end = now_ns();
  return (double)(end - start) / (double)(__rdtsc() - ticks);
}

static cpu_set_t allowed;

__attribute__((constructor)) static void remember_processors(void) { sched_getaffinity(0, sizeof allowed, &allowed); }

void target_pin(int processor) {
  cpu_set_t set = allowed;
  if (processor >= 0) {
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
  }
  sched_setaffinity(0, sizeof set, &set);
}

void target_processors(int *first, int *last) {
  *first = *last = -1;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &allowed)) continue;
    if (*first < 0) *first = i;
    *last = i;
  }
}

void target_allow_tracing(void) { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }
