#include "fork.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

unsigned clinux_fork_count;
bool clinux_fork_left_main_thread;
void *clinux_main_loop;
uint32_t *clinux_main_loop_lock;
__thread uint32_t *clinux_loop_current_lock;

// The locks of the process's tables. The child has one thread: nobody there would ever give back what another thread held.
enum { MOST_LOCKS = 8, TRIES = 100 };
static uint32_t *locks[MOST_LOCKS];
static int lock_count;

// Forks that are in progress at the same time share these locks: the first takes them, the last gives them back. Guarded by `is_sharing`.
static uint32_t *taken[MOST_LOCKS];
static int taken_count;
static uint32_t sharers;
static uint32_t is_sharing;

// The lock of the forking thread's own loop, for the time of the fork.
static __thread uint32_t *own_taken;
static __thread bool forks_on_main_thread, has_announced, is_sharer;
// Forks of the thread that are in progress: a handler of a signal, or of a fork, may fork.
static __thread int depth;

// The monitor's threads that work now, the forks that wait for them or are in progress, and the threads that wait for forks.
static uint32_t working_threads, forks, waiting_threads;
static __thread bool is_monitors, is_working;

// How long all forks took that are over, in nanoseconds, and when that of this thread began.
static uint64_t fork_time;
static __thread int64_t fork_begin;

// Whether a fork has waited for them in vain, and not all have rested since.
static uint32_t is_held_up;

// How long a fork waits for the monitor's threads, and they for a fork, in nanoseconds. Long for the first, since on a busy machine a thread may
// lose its processor while it holds a lock of Swift's runtime.
enum { FORK_WAITS = 50000000, FORK_WAITS_AGAIN = 3000000, THREAD_WAITS = 100000000 };

// Waits until the word is not `value`; false if it still is at that time. No cancellation point, which fork(2) is not either.
static bool wait_for_change(const uint32_t *word, uint32_t value, int64_t deadline) {
  int64_t time = clinux_monotonic();
  if (time >= deadline) return false;
  struct timespec left = {.tv_nsec = (long)(deadline - time)};
  clinux_futex_wait(word, value, &left);
  return true;
}

static void stop_working(void) {
  uint32_t left = __atomic_sub_fetch(&working_threads, 1, __ATOMIC_SEQ_CST);
  if (left != 0) return;
  __atomic_store_n(&is_held_up, false, __ATOMIC_RELAXED);
  if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST) != 0) clinux_futex_wake(&working_threads, INT_MAX);
}

void clinux_fork_monitor_thread_begins(void) {
  is_monitors = true;
  clinux_fork_monitor_thread_works();
}

void clinux_fork_monitor_thread_works(void) {
  if (!is_monitors || is_working) return;
  is_working = true;
  // Either this thread sees the fork, or the fork sees this thread: hence the order of all accesses.
  __atomic_add_fetch(&working_threads, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST) == 0) return;
  int64_t deadline = clinux_monotonic() + THREAD_WAITS;
  bool has_time = true;
  __atomic_add_fetch(&waiting_threads, 1, __ATOMIC_SEQ_CST);
  for (uint32_t current; has_time && (current = __atomic_load_n(&forks, __ATOMIC_SEQ_CST)) != 0;) {
    stop_working();
    has_time = wait_for_change(&forks, current, deadline);
    __atomic_add_fetch(&working_threads, 1, __ATOMIC_SEQ_CST);
  }
  __atomic_sub_fetch(&waiting_threads, 1, __ATOMIC_RELAXED);
}

void clinux_fork_monitor_thread_rests(void) {
  if (!is_working) return;
  is_working = false;
  stop_working();
}

void clinux_fork_monitor_thread_passes(void) {
  if (__atomic_load_n(&forks, __ATOMIC_RELAXED) == 0 || !is_working) return;
  clinux_fork_monitor_thread_rests();
  clinux_fork_monitor_thread_works();
}

bool clinux_fork_monitor_thread_leaves(void) {
  bool is_leaving = is_monitors;
  clinux_fork_monitor_thread_rests();
  is_monitors = false;
  return is_leaving;
}

static void announce_fork(void) {
  has_announced = true;
  fork_begin = clinux_monotonic();
  __atomic_add_fetch(&forks, 1, __ATOMIC_SEQ_CST);
  uint32_t working = __atomic_load_n(&working_threads, __ATOMIC_SEQ_CST);
  if (working == 0) return;
  int64_t deadline = clinux_monotonic() + (__atomic_load_n(&is_held_up, __ATOMIC_RELAXED) ? FORK_WAITS_AGAIN : FORK_WAITS);
  while (working != 0 && wait_for_change(&working_threads, working, deadline)) {
    working = __atomic_load_n(&working_threads, __ATOMIC_SEQ_CST);
  }
  if (working != 0) __atomic_store_n(&is_held_up, true, __ATOMIC_RELAXED);
}

static void end_fork(void) {
  has_announced = false;
  __atomic_add_fetch(&fork_time, (uint64_t)(clinux_monotonic() - fork_begin), __ATOMIC_RELAXED);
  uint32_t left = __atomic_sub_fetch(&forks, 1, __ATOMIC_SEQ_CST);
  if (left == 0 && __atomic_load_n(&waiting_threads, __ATOMIC_SEQ_CST) != 0) clinux_futex_wake(&forks, INT_MAX);
}

uint64_t clinux_fork_time(void) { return __atomic_load_n(&fork_time, __ATOMIC_RELAXED); }

bool clinux_fork_is_in_progress(void) { return __atomic_load_n(&forks, __ATOMIC_RELAXED) != 0; }

void clinux_fork_register_lock(uint32_t *lock) {
  int index = __atomic_fetch_add(&lock_count, 1, __ATOMIC_RELAXED);
  if (index < MOST_LOCKS) __atomic_store_n(&locks[index], lock, __ATOMIC_RELEASE);
}

static void wait_a_moment(void) {
  struct timespec pause = {.tv_nsec = 100000};
  // Not nanosleep(3): that is a cancellation point.
  syscall(SYS_nanosleep, &pause, NULL);
}

// A hundredth of a second at most: the thread itself is the holder if a signal's handler forks in such a section.
static bool take(uint32_t *lock) {
  for (int try = 0; try < TRIES; try++) {
    uint32_t free = 0;
    if (__atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return true;
    wait_a_moment();
  }
  return false;
}

// Takes all locks that are free soon enough.
static void take_all(void) {
  for (int index = 0; index < MOST_LOCKS; index++) {
    uint32_t *lock = __atomic_load_n(&locks[index], __ATOMIC_ACQUIRE);
    if (lock != NULL && take(lock)) taken[taken_count++] = lock;
  }
}

static void give_back(uint32_t *lock) {
  if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) clinux_futex_wake(lock, 1);
}

static void give_all_back(void) {
  while (taken_count > 0) give_back(taken[--taken_count]);
}

static bool is_waited_for(void) {
  for (int index = 0; index < taken_count; index++)
    if (__atomic_load_n(taken[index], __ATOMIC_RELAXED) == 2) return true;
  return false;
}

// Has the fork share the locks. Forks that never end all at once would hold them for good, so that one which comes while a thread waits for a
// lock lets the others end first, for a hundredth of a second at most.
static void share_locks(void) {
  for (int try = 0; !is_sharer && take(&is_sharing); try++) {
    is_sharer = try >= TRIES || sharers == 0 || !is_waited_for();
    if (is_sharer && sharers++ == 0) take_all();
    give_back(&is_sharing);
    if (!is_sharer) wait_a_moment();
  }
}

static void stop_sharing_locks(void) {
  if (!is_sharer) return;
  while (!take(&is_sharing)) {}
  if (--sharers == 0) give_all_back();
  give_back(&is_sharing);
  is_sharer = false;
}

static void give_own_back(void) {
  if (own_taken != NULL) give_back(own_taken);
  own_taken = NULL;
}

static void begin_fork(void) {
  announce_fork();
  forks_on_main_thread = clinux_gettid() == getpid();
  uint32_t *own = clinux_loop_current_lock;
  // No thread owns it yet: it will be this thread's, here and in the child.
  if (own == NULL && forks_on_main_thread) own = __atomic_load_n(&clinux_main_loop_lock, __ATOMIC_ACQUIRE);
  own_taken = own != NULL && take(own) ? own : NULL;
  share_locks();
}

static void end_fork_in_parent(void) {
  stop_sharing_locks();
  give_own_back();
  end_fork();
}

// Between fork and exec: it makes no calls but futex(2) and rt_sigprocmask(2), allocates nothing and takes no lock.
static void end_fork_in_child(void) {
  // None of the other threads is here. An outer fork of this one continues.
  if (depth == 0) {
    has_announced = is_sharer = false;
    give_own_back();
  }
  is_sharing = 0;
  sharers = is_sharer;
  if (!is_sharer) give_all_back();
  is_monitors = is_working = false;
  __atomic_store_n(&forks, has_announced, __ATOMIC_RELAXED);
  __atomic_store_n(&working_threads, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&is_held_up, false, __ATOMIC_RELAXED);
  __atomic_store_n(&waiting_threads, 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&clinux_fork_count, 1, __ATOMIC_RELAXED);
  // The one thread of the child is its main thread. The parent's main loop is another thread's, in the middle of something.
  if (clinux_loop_current != NULL || !forks_on_main_thread) {
    __atomic_store_n(&clinux_main_loop, clinux_loop_current, __ATOMIC_RELEASE);
  }
  if (!forks_on_main_thread) clinux_fork_left_main_thread = true;
}

// A handler of a signal that forked in the middle of `body` would find what is taken and not noted.
static void without_signals(void (*body)(void)) {
  sigset_t all, before;
  int error = errno;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  body();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
}

// The outermost fork takes and gives back for those within.
static void note_begin(void) {
  if (depth++ == 0) begin_fork();
}

static void note_end_in_parent(void) {
  // A handler that is registered as a thread forks has no fork of its own.
  if (depth > 0 && --depth == 0) end_fork_in_parent();
}

static void note_end_in_child(void) {
  if (depth > 0) --depth;
  end_fork_in_child();
}

static void before_fork(void) { without_signals(note_begin); }
static void parent_after_fork(void) { without_signals(note_end_in_parent); }
static void child_after_fork(void) { without_signals(note_end_in_child); }

// At load time, before there is any loop: a fork before this could lose the thread that libdispatch treats as the main one.
__attribute__((constructor)) static void register_handlers(void) {
  pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}
