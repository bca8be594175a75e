// Processes that change their signals, stacks or memory at the moment at which a running thread is about to be captured, under a filter
// that leaves captures to the timer.
#include "host.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

static sigset_t everything, nothing;

#define ROUNDS 60
// The watchdog takes a signal back as soon as it has a processor, which on a busy machine may be too late once in a while.
static const char *share(int count) { return count > ROUNDS / 10 ? "more than one in ten" : "at most one in ten"; }

static void start_under_a_filter(void) {
  sigfillset(&everything);
  sigemptyset(&nothing);
  require(install_allow_filter() == 0, "filter");
  watch_start();
}

static void spin_us(long us) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

// The turn is late, and a timer may run, when all signals become blocked.
static void block_in_a_stall(int i, sigset_t *before) {
  turn_begin();
  spin_us(19900 + i % 10 * 60);
  sigprocmask(SIG_SETMASK, &everything, before);
  spin_us(10000);
}

static void unblock(int i, const sigset_t *before) {
  sigprocmask(SIG_SETMASK, before, NULL);
  turn_end();
  pause_for(1 + i * 37 % 4);
}

static void signals_blocked_in_a_stall(void) {
  start_under_a_filter();
  int waited = 0, pending = 0, read_by_file = 0;
  int file = signalfd(-1, &everything, SFD_NONBLOCK | SFD_CLOEXEC);
  for (int i = 0; i < ROUNDS; i++) {
    sigset_t before, set;
    block_in_a_stall(i, &before);
    sigpending(&set);
    for (int number = 1; number < 65; number++)
      if (sigismember(&set, number) == 1) pending++;
    struct timespec none = {0, 0};
    siginfo_t info;
    struct signalfd_siginfo record;
    if (i % 2 != 0 && sigtimedwait(&everything, &info, &none) > 0) waited++;
    if (i % 2 == 0 && read(file, &record, sizeof record) > 0) read_by_file++;
    unblock(i, &before);
  }
  say("rounds with a strange signal: %s", share(pending > waited + read_by_file ? pending : waited + read_by_file));
  watch_stop();
}

static void masks_of_waiting_calls(void) {
  start_under_a_filter();
  int ended_early = 0;
  for (int i = 0; i < ROUNDS; i++) {
    sigset_t before;
    block_in_a_stall(i, &before);
    struct timespec time = {0, 20000000};
    struct epoll_event event;
    int result;
    if (i % 2 != 0) {
      result = pselect(0, NULL, NULL, NULL, &time, &nothing);
    } else {
      int poller = epoll_create1(EPOLL_CLOEXEC);
      result = epoll_pwait(poller, &event, 1, 20, &nothing);
      close(poller);
    }
    if (result != 0) ended_early++;
    unblock(i, &before);
  }
  say("ended early: %s", share(ended_early));
  watch_stop();
}

static volatile int is_in_call, was_in_call;

static void slow_handler(int number) {
  (void)number;
  if (is_in_call) was_in_call = 1;
  spin_us(8000);
}

// The process's own handler interrupts the call, and the timer's signal comes while that handler runs.
static void own_interruptions(void) {
  start_under_a_filter();
  struct sigaction action = {.sa_handler = slow_handler};
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, NULL);
  int swallowed = 0;
  for (int i = 0; i < ROUNDS; i++) {
    turn_begin();
    struct itimerval timer = {{0, 0}, {0, 20500 + i % 10 * 100}};
    was_in_call = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    spin_us(20050 + i % 7 * 80);
    is_in_call = 1;
    int result = poll(NULL, 0, 60), error = errno;
    is_in_call = 0;
    if (was_in_call && !(result < 0 && error == EINTR)) swallowed++;
    turn_end();
    pause_for(1 + i * 37 % 4);
  }
  say("swallowed: %s", share(swallowed));
  watch_stop();
}

#define STACK (1u << 20)
static ucontext_t outside, inside;
static char *stack_memory;
static bool makes_loop_inside;

static void on_the_coroutine(void) {
  if (makes_loop_inside) watch_thread("inner");
  for (int i = 0; i < 4; i++) stall(60);
}

static void recurse(int depth) {
  volatile char room[4096];
  room[0] = 1;
  if (depth > 0)
    recurse(depth - 1);
  else
    stall(60);
  room[1] = room[0];
}

static void *thread_with_a_coroutine(void *ignored) {
  if (!makes_loop_inside) {
    watch_thread("inner");
    recurse(100);
  }
  char *low = stack_memory + STACK - (300u << 10);
  mprotect(low, 4096, PROT_NONE);
  getcontext(&inside);
  inside.uc_stack.ss_sp = low - (64u << 10);
  inside.uc_stack.ss_size = 64u << 10;
  inside.uc_link = &outside;
  makecontext(&inside, on_the_coroutine, 0);
  swapcontext(&outside, &inside);
  say("alive");
  return ignored;
}

static void coroutine_within_the_stack(void) {
  start_under_a_filter();
  stack_memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack_memory, STACK);
  pthread_t thread;
  require(pthread_create(&thread, &attributes, thread_with_a_coroutine, NULL) == 0, "thread");
  pthread_join(thread, NULL);
  watch_stop();
}

static void loop_made_on_a_coroutine(void) {
  makes_loop_inside = true;
  coroutine_within_the_stack();
}

const struct scenario moving_hosts[] = {
    {"signals-blocked-in-a-stall", signals_blocked_in_a_stall},
    {"masks-of-waiting-calls", masks_of_waiting_calls},
    {"own-interruptions", own_interruptions},
    {"stack-protected-after-a-capture", coroutine_within_the_stack},
    {"loop-made-on-a-coroutine", loop_made_on_a_coroutine},
    {NULL, NULL},
};
