// Hosts that count their signals.
#include "host.h"

#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>

static volatile int counts[65];

static void count_signal(int signal) { __atomic_add_fetch(&counts[signal], 1, __ATOMIC_RELAXED); }

static sigset_t real_time_set(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) sigaddset(&set, n);
  return set;
}

static void say_counts(int first, int last) {
  for (int n = first; n <= last; n++) say("signal %d: %d", n, counts[n]);
}

static void signalfd_reads_all(void) {
  sigset_t set = real_time_set();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  int file = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  watch_start();
  for (int round = 0; round < 4; round++) {
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++) sigqueue(getpid(), n, (union sigval){.sival_int = n});
    stall(60);
    struct signalfd_siginfo info;
    while (read(file, &info, sizeof info) == sizeof info)
      if (info.ssi_int == (int)info.ssi_signo && info.ssi_pid == (unsigned)getpid()) counts[info.ssi_signo]++;
  }
  say_counts(SIGRTMIN, SIGRTMAX);
  watch_stop();
}

static void handle_all(bool after_start) {
  if (after_start) watch_start();
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) sigaction(n, &action, NULL);
  if (!after_start) watch_start();
  for (int round = 0; round < 3; round++) {
    turn_begin();
    compute(40);
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++) raise(n);
    compute(40);
    turn_end();
    pause_for(3);
  }
  watch_stop();
  say_counts(SIGRTMIN, SIGRTMAX);
  int replaced = 0;
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) {
    sigaction(n, NULL, &action);
    replaced += action.sa_handler != count_signal;
  }
  say("replaced handlers: %d", replaced);
}
static void handlers_before_start(void) { handle_all(false); }
static void handlers_after_start(void) { handle_all(true); }

static void *wait_for_signals(void *ignored) {
  sigset_t set = real_time_set();
  for (int left = 4 * (SIGRTMAX - SIGRTMIN + 1); left > 0; left--) {
    struct timespec limit = {5, 0};  // only where one is lost
    int n = sigtimedwait(&set, NULL, &limit);
    if (n < 0) break;
    counts[n]++;
  }
  return ignored;
}

static void sigwait_loop(void) {
  sigset_t set = real_time_set();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t waiter;
  pthread_create(&waiter, NULL, wait_for_signals, NULL);
  watch_start();
  for (int round = 0; round < 4; round++) {
    turn_begin();
    compute(30);
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++) kill(getpid(), n);
    compute(30);
    turn_end();
    pause_for(3);
  }
  pthread_join(waiter, NULL);
  say_counts(SIGRTMIN, SIGRTMAX);
  watch_stop();
}

// Turns that compute, until there are enough ticks of processor time: on a busy machine a turn has few.
static void stall_until(int signal, int ticks) {
  for (int i = 0; i < 4 || (i < 1000 && counts[signal] < ticks); i++) stall(60);
}

static void profiler(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  struct itimerval times = {{0, 4000}, {0, 4000}}, now;
  setitimer(ITIMER_PROF, &times, NULL);
  watch_start();
  stall_until(SIGPROF, 12);
  getitimer(ITIMER_PROF, &now);
  sigaction(SIGPROF, NULL, &action);
  say("ticks: %d, interval %ld, own handler: %d", counts[SIGPROF] >= 12, (long)now.it_interval.tv_usec,
      action.sa_handler == count_signal);
  watch_stop();
}

static void timers_by_signal(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN + 3, &action, NULL);
  watch_start();
  timer_t timers[8];
  for (int i = 0; i < 8; i++) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    say("timer %d: %d", i, timer_create(CLOCK_MONOTONIC, &event, &timers[i]));
    struct itimerspec time = {{0, 0}, {0, (i + 1) * 10000000L}};
    timer_settime(timers[i], 0, &time, NULL);
  }
  for (int i = 0; i < 4; i++) stall(50);
  for (int i = 0; i < 8; i++) say("overrun %d: %d", i, timer_getoverrun(timers[i]));
  say("expirations: %d", counts[SIGRTMIN + 3]);
  watch_stop();
}

static volatile int notified;
static void notify(union sigval value) { __atomic_add_fetch(&notified, value.sival_int, __ATOMIC_RELAXED); }

static void timers_by_thread(void) {
  watch_start();
  timer_t timers[6];
  for (int i = 0; i < 6; i++) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify, .sigev_value = {.sival_int = 1}};
    say("timer %d: %d", i, timer_create(CLOCK_MONOTONIC, &event, &timers[i]));
    struct itimerspec time = {{0, 0}, {0, (i + 1) * 10000000L}};
    timer_settime(timers[i], 0, &time, NULL);
  }
  for (int i = 0; i < 4; i++) stall(50);
  for (int i = 0; i < 400 && __atomic_load_n(&notified, __ATOMIC_RELAXED) < 6; i++) pause_for(10);
  say("notified: %d", notified);
  watch_stop();
}

// The processor's time of one thread, as a virtual machine's own sampler takes it.
static void thread_clock_timer(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN + 5, &action, NULL);
  watch_start();
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
  ((int *)&event.sigev_notify)[1] = (int)syscall(SYS_gettid);
  timer_t timer;
  say("timer: %d", timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer));
  struct itimerspec time = {{0, 8000000}, {0, 8000000}};
  timer_settime(timer, 0, &time, NULL);
  stall_until(SIGRTMIN + 5, 6);
  struct itimerspec now;
  timer_gettime(timer, &now);
  say("ticks: %d, interval %ld", counts[SIGRTMIN + 5] >= 6, now.it_interval.tv_nsec);
  watch_stop();
}

// A handler interrupts a call of the host's that must not be interrupted by anything else.
static volatile int pauses;
static void *pause_for_ever(void *ignored) {
  pause();
  __atomic_add_fetch(&pauses, 1, __ATOMIC_RELAXED);
  return ignored;
}
static void *suspend_for_ever(void *ignored) {
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
  __atomic_add_fetch(&pauses, 1, __ATOMIC_RELAXED);
  return ignored;
}
static void pausing_threads(void) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, i % 2 ? pause_for_ever : suspend_for_ever, NULL);
  watch_start();
  for (int i = 0; i < 5; i++) stall(60);
  say("returned: %d", pauses);
  watch_stop();
}

static void pending_and_masks(void) {
  sigset_t before, after, pending;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  watch_start();
  for (int i = 0; i < 4; i++) stall(60);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  sigpending(&pending);
  int changed = 0, waiting = 0, handlers = 0;
  for (int n = 1; n < 65; n++) {
    changed += sigismember(&before, n) != sigismember(&after, n);
    waiting += sigismember(&pending, n) == 1;
    struct sigaction action;
    if (n < 32 && sigaction(n, NULL, &action) == 0 && action.sa_handler != SIG_DFL) handlers++;
  }
  say("mask changed: %d, pending: %d, handlers below 32: %d", changed, waiting, handlers);
  watch_stop();
}

static void blocked_on_the_loop(void) {
  sigset_t all, pending;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  watch_start();
  for (int i = 0; i < 5; i++) stall(60);
  sigpending(&pending);
  int waiting = 0;
  for (int n = 1; n < 65; n++) waiting += sigismember(&pending, n) == 1;
  say("pending: %d", waiting);
  watch_stop();
}

static void child_signals(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  watch_start();
  int reaped = 0;
  for (int i = 0; i < 6; i++) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    stall(50);
    reaped += waitpid(child, NULL, 0) == child;
  }
  int other = waitpid(-1, NULL, WNOHANG);
  say("SIGCHLD: %d, reaped: %d, any other: %d, errno %d", counts[SIGCHLD], reaped, other, errno);
  watch_stop();
}

const struct scenario signal_hosts[] = {
    {"signalfd-reads-all-real-time-signals", signalfd_reads_all},
    {"handlers-for-all-real-time-signals", handlers_before_start},
    {"handlers-for-all-after-the-start", handlers_after_start},
    {"sigwait-loop", sigwait_loop},
    {"profiler-with-itimer-prof", profiler},
    {"timers-by-signal", timers_by_signal},
    {"timers-by-thread", timers_by_thread},
    {"timer-on-a-thread-clock", thread_clock_timer},
    {"threads-in-pause-and-sigsuspend", pausing_threads},
    {"pending-signals-and-masks", pending_and_masks},
    {"loop-that-blocks-all-signals", blocked_on_the_loop},
    {"child-signals", child_signals},
    {NULL, NULL},
};
