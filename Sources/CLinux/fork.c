#include "fork.h"

#include <linux/futex.h>
#include <pthread.h>
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
enum { MOST_LOCKS = 8, TRIES = 100, TRIES_FOR_THREADS = 30 };
static uint32_t *locks[MOST_LOCKS];
static int lock_count;

// What the forking thread has taken, for the time of the fork.
static __thread uint32_t *taken[MOST_LOCKS + 1];
static __thread int taken_count;
static __thread bool forks_on_main_thread, has_announced;

// The monitor's threads that work now, and the forks that wait for them or are in progress.
static uint32_t working_threads, forks;
static __thread bool is_monitors, is_working;

static void wait_a_moment(void) {
  struct timespec pause = {.tv_nsec = 100000};
  nanosleep(&pause, NULL);
}

void clinux_fork_monitor_thread_begins(void) {
  is_monitors = true;
  clinux_fork_monitor_thread_works();
}

void clinux_fork_monitor_thread_works(void) {
  if (!is_monitors || is_working) return;
  is_working = true;
  // Either this thread sees the fork, or the fork sees this thread: hence the order of all four accesses.
  for (int try = 0;; try++) {
    __atomic_add_fetch(&working_threads, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST) == 0 || try == TRIES) return;
    __atomic_sub_fetch(&working_threads, 1, __ATOMIC_SEQ_CST);
    wait_a_moment();
  }
}

void clinux_fork_monitor_thread_rests(void) {
  if (!is_working) return;
  is_working = false;
  __atomic_sub_fetch(&working_threads, 1, __ATOMIC_RELEASE);
}

static void announce_fork(void) {
  has_announced = true;
  __atomic_add_fetch(&forks, 1, __ATOMIC_SEQ_CST);
  for (int try = 0; __atomic_load_n(&working_threads, __ATOMIC_SEQ_CST) != 0 && try < TRIES_FOR_THREADS; try++) wait_a_moment();
}

void clinux_fork_register_lock(uint32_t *lock) {
  int index = __atomic_fetch_add(&lock_count, 1, __ATOMIC_RELAXED);
  if (index < MOST_LOCKS) __atomic_store_n(&locks[index], lock, __ATOMIC_RELEASE);
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

static void before_fork(void) {
  // A signal's handler forks in the middle of a fork: the outer one has taken all there is.
  if (has_announced) return;
  int error = errno;
  announce_fork();
  forks_on_main_thread = clinux_gettid() == getpid();
  uint32_t *own = clinux_loop_current_lock;
  // No thread owns it yet: it will be this thread's, here and in the child.
  if (own == NULL && forks_on_main_thread) own = __atomic_load_n(&clinux_main_loop_lock, __ATOMIC_ACQUIRE);
  if (own != NULL && take(own)) taken[taken_count++] = own;
  for (int index = 0; index < MOST_LOCKS; index++) {
    uint32_t *lock = __atomic_load_n(&locks[index], __ATOMIC_ACQUIRE);
    if (lock != NULL && take(lock)) taken[taken_count++] = lock;
  }
  errno = error;
}

static void give_back(void) {
  while (taken_count > 0) {
    uint32_t *lock = taken[--taken_count];
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) clinux_futex_wake(lock, 1);
  }
}

static void parent_after_fork(void) {
  int error = errno;
  give_back();
  if (has_announced) __atomic_sub_fetch(&forks, 1, __ATOMIC_RELEASE);
  has_announced = false;
  errno = error;
}

// Between fork and exec: it makes no call but futex(2), allocates nothing and takes no lock.
static void child_after_fork(void) {
  give_back();
  // None of the other threads is here.
  has_announced = false;
  __atomic_store_n(&forks, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&working_threads, 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&clinux_fork_count, 1, __ATOMIC_RELAXED);
  // The one thread of the child is its main thread. The parent's main loop is another thread's, in the middle of something.
  if (clinux_loop_current != NULL || !forks_on_main_thread) {
    __atomic_store_n(&clinux_main_loop, clinux_loop_current, __ATOMIC_RELEASE);
  }
  if (!forks_on_main_thread) clinux_fork_left_main_thread = true;
}

// At load time, before there is any loop: a fork before this could lose the thread that libdispatch treats as the main one.
__attribute__((constructor)) static void register_handlers(void) {
  pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}
