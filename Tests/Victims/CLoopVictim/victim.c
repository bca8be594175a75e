// A service in C with hand-written epoll loops, judged from outside by its report lines.
//
//   CLoopVictim SCENARIO
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stallmonitor.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define say(...) (fprintf(stderr, "victim: " __VA_ARGS__), fputc('\n', stderr))

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static volatile unsigned long counter;

__attribute__((noinline)) static void compute_digest(double ms) {
  double end = now_ms() + ms;
  while (now_ms() < end)
    for (int i = 0; i < 100000; i++) counter = counter * 31 + 7;
}

__attribute__((noinline)) static void sleep_in_handler(double ms) { usleep((useconds_t)(ms * 1000)); }

struct loop {
  stallmonitor_loop *watch;
  int poller, timer;
};

static void loop_open(struct loop *loop, const char *name, unsigned threshold_ms, unsigned first_ms, unsigned interval_ms) {
  loop->poller = epoll_create1(EPOLL_CLOEXEC);
  loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  struct itimerspec times = {.it_value = {first_ms / 1000, first_ms % 1000 * 1000000L},
                             .it_interval = {interval_ms / 1000, interval_ms % 1000 * 1000000L}};
  timerfd_settime(loop->timer, 0, &times, NULL);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(loop->poller, EPOLL_CTL_ADD, loop->timer, &event);
  loop->watch = stallmonitor_loop_create(name, threshold_ms);
  if (loop->watch == NULL) say("create=%d %s", stallmonitor_error_code(), stallmonitor_error_text());
}

// One turn: waits, and then handles what there is.
static int loop_wait(struct loop *loop, int timeout_ms) {
  struct epoll_event event;
  stallmonitor_loop_idle(loop->watch);
  int count = epoll_wait(loop->poller, &event, 1, timeout_ms);
  stallmonitor_loop_busy(loop->watch);
  uint64_t expirations;
  return count > 0 && read(loop->timer, &expirations, sizeof expirations) > 0;
}

static void loop_turn_once(const char *name, unsigned threshold_ms, void (*handler)(double), double ms) {
  struct loop loop;
  loop_open(&loop, name, threshold_ms, 30, 0);
  while (!loop_wait(&loop, -1)) {}
  handler(ms);
  loop_wait(&loop, 100);
  stallmonitor_loop_destroy(loop.watch);
}

static void *fast_worker(void *ignored) {
  loop_turn_once("fast", 100, compute_digest, 600);
  return ignored;
}

static void *slow_worker(void *ignored) {
  loop_turn_once("slow", 5000, sleep_in_handler, 600);
  return ignored;
}

static void *ends_in_stall(void *slot) {
  struct loop loop;
  loop_open(&loop, "short-lived", 0, 10, 0);
  *(stallmonitor_loop **)slot = loop.watch;
  loop_wait(&loop, -1);
  compute_digest(600);
  pthread_exit(NULL);
}

static void *ends_in_turn(void *slot) {
  struct loop loop;
  loop_open(&loop, "short-lived", 0, 1, 0);
  if (slot != NULL) *(stallmonitor_loop **)slot = loop.watch;
  loop_wait(&loop, -1);
  close(loop.poller);
  close(loop.timer);
  return NULL;
}

static void *destroy_later(void *watch) {
  usleep(600000);
  stallmonitor_loop_destroy(watch);
  return NULL;
}

static void run_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, body, argument);
  pthread_join(thread, NULL);
}

static int mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  int lines = 0;
  for (int c; maps != NULL && (c = fgetc(maps)) != EOF;) lines += c == '\n';
  if (maps != NULL) fclose(maps);
  return lines;
}

static void *call_without_end(void *unused) {
  for (;;) {
    stallmonitor_is_watching();
    stallmonitor_start(NULL);
  }
  return unused;
}

// -- Forks

// Registered before any library's, so that this one runs after all of those.
static volatile unsigned fork_takes_ms;
static void before_fork(void) { usleep(fork_takes_ms * 1000); }
static void register_handler(void) { pthread_atfork(before_fork, NULL, NULL); }
__attribute__((section(".preinit_array"), used)) static void (*const register_early)(void) = register_handler;

static int fork_once(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  return child > 0;
}

static void *fork_slowly(void *unused) {
  usleep(50000);
  fork_takes_ms = 700;
  fork_once();
  return unused;
}

static void sleep_beside_a_fork(double ms) {
  pthread_t forking;
  pthread_create(&forking, NULL, fork_slowly, NULL);
  usleep((useconds_t)(ms * 1000));
  pthread_join(forking, NULL);
}

static volatile unsigned handled;
static void fork_in_handler(int number) {
  int error = errno;
  (void)number;
  handled += (unsigned)fork_once();
  errno = error;
}

// A program of one thread, without the monitor: C libraries allow it to fork in a handler that interrupts fork(2).
static void fork_in_handlers(void) {
  struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
  // A fork that is interrupted in the kernel begins again: on a slow machine there is time for one.
  double before = now_ms();
  fork_once();
  suseconds_t interval = 401 + (suseconds_t)(2000 * (now_ms() - before));
  struct itimerval often = {{0, interval}, {0, interval}}, never = {{0, 0}, {0, 0}};
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  sigaction(SIGALRM, &action, NULL);
  sigprocmask(SIG_UNBLOCK, &alarms, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  unsigned forks = 0;
  for (double end = now_ms() + 4000; now_ms() < end;) forks += (unsigned)fork_once();
  setitimer(ITIMER_REAL, &never, NULL);
  say("forked=%d", forks > 0 && handled > 0);
}

// A host that was built when there were two options, with a byte behind them that does not belong
// to them.
static void older(const char *threshold) {
  struct {
    size_t size;
    unsigned threshold_ms, none;
    const char *not_an_option;
  } options = {16, (unsigned)atoi(threshold), 0, (const char *)1};
  say("start=%d text %s", stallmonitor_start((const stallmonitor_options *)&options), stallmonitor_error_text());
  options.size = 8;
  options.threshold_ms = 3600001;
  say("again=%d", stallmonitor_start((const stallmonitor_options *)&options));
  loop_turn_once("requests", 0, sleep_in_handler, 300);
}

static void misuse(void) {
  stallmonitor_loop_busy(NULL);
  stallmonitor_loop_idle(NULL);
  stallmonitor_loop_destroy(NULL);
  stallmonitor_pause();
  stallmonitor_resume();
  stallmonitor_stop();
  stallmonitor_options options = STALLMONITOR_OPTIONS;
  say("untried=%d", stallmonitor_error_code() == 0 && stallmonitor_error_text()[0] == 0);
  say("early=%d text %s", stallmonitor_loop_create("early", 0) == NULL ? stallmonitor_error_code() : 1, stallmonitor_error_text());
  say("watching=%d", stallmonitor_is_watching());
  options.threshold_ms = 3600001;
  say("threshold=%d text %s", stallmonitor_start(&options), stallmonitor_error_text());
  options.threshold_ms = 0;
  options.sink = "syslog";
  say("sink=%d text %s", stallmonitor_start(&options), stallmonitor_error_text());
  options.sink = NULL;
  options.size = 3;
  say("size=%d text %s", stallmonitor_start(&options), stallmonitor_error_text());
  say("first=%d second=%d", stallmonitor_start(NULL), stallmonitor_start(NULL));
  say("forgotten=%d", stallmonitor_error_code() == 0 && stallmonitor_error_text()[0] == 0);
  stallmonitor_loop *loop = stallmonitor_loop_create("one", 0);
  say("twice=%d text %s", stallmonitor_loop_create("one", 0) == NULL ? stallmonitor_error_code() : 1, stallmonitor_error_text());
  say("null=%d empty=%d control=%d long=%d", stallmonitor_loop_create(NULL, 0) == NULL ? stallmonitor_error_code() : 1,
      stallmonitor_loop_create("", 0) == NULL ? stallmonitor_error_code() : 1,
      stallmonitor_loop_create("a\nb", 0) == NULL ? stallmonitor_error_code() : 1,
      stallmonitor_loop_create("12345678901234567890123456789012345678901234567890123456789012345", 0) == NULL
          ? stallmonitor_error_code()
          : 1);
  say("limit=%d text %s", stallmonitor_loop_create("late", 3600001) == NULL ? stallmonitor_error_code() : 1,
      stallmonitor_error_text());
  stallmonitor_loop *good = stallmonitor_loop_create("good", 0);
  say("created=%d", good != NULL && stallmonitor_error_code() == 0 && stallmonitor_error_text()[0] == 0);
  stallmonitor_loop_destroy(good);
  // A handle outlives its monitor, and watches nothing any more.
  stallmonitor_stop();
  stallmonitor_stop();
  stallmonitor_loop_busy(loop);
  compute_digest(400);
  say("again=%d", stallmonitor_start(NULL));
  stallmonitor_loop *other = stallmonitor_loop_create("one", 0);
  say("name_is_free=%d", other != NULL);
  stallmonitor_loop_idle(loop);
  stallmonitor_loop_destroy(loop);
  stallmonitor_loop_destroy(other);
}

// Whether errno is as it was before a call of the library's.
#define KEEPS_ERRNO(call) (errno = 4711, (call), errno == 4711)

// No file can be opened any more: most of what the library tries on this thread fails.
static void keep_errno(void) {
  struct loop loop;
  loop_open(&loop, "requests", 50, 10, 0);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &limit);
  int busy = 1, idle = 1;
  for (int i = 0; i < 4; i++) {
    busy &= KEEPS_ERRNO(stallmonitor_loop_busy(loop.watch));
    compute_digest(150);
    idle &= KEEPS_ERRNO(stallmonitor_loop_idle(loop.watch));
    usleep(10000);
  }
  say("busy=%d idle=%d", busy, idle);
  stallmonitor_loop *other = NULL;
  int create = KEEPS_ERRNO(other = stallmonitor_loop_create("other", 0));
  say("create=%d destroy=%d", create, KEEPS_ERRNO(stallmonitor_loop_destroy(other)));
  int pause = KEEPS_ERRNO(stallmonitor_pause()), resume = KEEPS_ERRNO(stallmonitor_resume());
  say("pause=%d resume=%d watching=%d", pause, resume, KEEPS_ERRNO(stallmonitor_is_watching()));
  stallmonitor_loop_destroy(loop.watch);
  int stop = KEEPS_ERRNO(stallmonitor_stop());
  say("stop=%d start=%d", stop, KEEPS_ERRNO(stallmonitor_start(NULL)));
}

int main(int count, char **arguments) {
  const char *scenario = count > 1 ? arguments[1] : "";
  if (strcmp(scenario, "older") == 0) {
    older("100");
    stallmonitor_stop();
    return 0;
  }
  if (strcmp(scenario, "misuse") == 0) {
    misuse();
    stallmonitor_stop();
    say("survived=1");
    return 0;
  }
  if (strcmp(scenario, "fork-in-handlers") == 0) {
    fork_in_handlers();
    return 0;
  }
  say("start=%d", stallmonitor_start(NULL));
  if (strcmp(scenario, "compute") == 0) {
    loop_turn_once("requests", 0, compute_digest, 600);
  } else if (strcmp(scenario, "sleep") == 0) {
    loop_turn_once("requests", 0, sleep_in_handler, 600);
  } else if (strcmp(scenario, "paused") == 0) {
    stallmonitor_pause();
    loop_turn_once("requests", 0, compute_digest, 600);
    stallmonitor_resume();
  } else if (strcmp(scenario, "healthy") == 0) {
    struct loop loop;
    loop_open(&loop, "requests", 100, 1, 5);
    double end = now_ms() + 800;
    while (now_ms() < end)
      if (loop_wait(&loop, -1)) compute_digest(3);
    stallmonitor_loop_destroy(loop.watch);
  } else if (strcmp(scenario, "idle") == 0) {
    struct loop loop;
    loop_open(&loop, "requests", 100, 1, 0);
    loop_wait(&loop, -1);
    loop_wait(&loop, 500);
    stallmonitor_loop_destroy(loop.watch);
    compute_digest(400);
  } else if (strcmp(scenario, "two") == 0) {
    pthread_t fast, slow;
    pthread_create(&fast, NULL, fast_worker, NULL);
    pthread_create(&slow, NULL, slow_worker, NULL);
    pthread_join(fast, NULL);
    pthread_join(slow, NULL);
  } else if (strcmp(scenario, "small-stack") == 0) {
    pthread_attr_t attributes;
    pthread_t worker;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    pthread_create(&worker, &attributes, fast_worker, NULL);
    pthread_attr_destroy(&attributes);
    pthread_join(worker, NULL);
  } else if (strcmp(scenario, "destroyed-by-itself") == 0) {
    struct loop loop;
    loop_open(&loop, "requests", 0, 10, 0);
    loop_wait(&loop, -1);
    compute_digest(500);
    stallmonitor_loop_destroy(loop.watch);
    compute_digest(600);
  } else if (strcmp(scenario, "destroyed-by-another") == 0) {
    struct loop loop;
    loop_open(&loop, "requests", 0, 10, 0);
    loop_wait(&loop, -1);
    pthread_t other;
    pthread_create(&other, NULL, destroy_later, loop.watch);
    compute_digest(900);
    pthread_join(other, NULL);
  } else if (strcmp(scenario, "thread-ends-in-stall") == 0) {
    stallmonitor_loop *watch = NULL;
    run_thread(ends_in_stall, &watch);
    usleep(200000);
    stallmonitor_loop_destroy(watch);
  } else if (strcmp(scenario, "thread-ends") == 0) {
    // Many, with one name: each has let it go.
    run_thread(ends_in_turn, NULL);
    usleep(400000);
    int before = mappings();
    for (int i = 0; i < 50; i++) run_thread(ends_in_turn, NULL);
    usleep(400000);
    int after = mappings();
    stallmonitor_loop *watch = NULL;
    run_thread(ends_in_turn, &watch);
    say("created=%d mappings_grown=%d", watch != NULL, after - before);
    stallmonitor_loop_destroy(watch);
  } else if (strcmp(scenario, "slow-fork") == 0) {
    loop_turn_once("requests", 0, sleep_beside_a_fork, 1000);
  } else if (strcmp(scenario, "fork") == 0) {
    struct loop loop;
    loop_open(&loop, "requests", 0, 10, 0);
    loop_wait(&loop, -1);
    pid_t child = fork();
    if (child == 0) {
      int watching = stallmonitor_is_watching();
      stallmonitor_loop_idle(loop.watch);
      stallmonitor_loop_busy(loop.watch);
      int refused = stallmonitor_loop_create("child", 0) == NULL;
      stallmonitor_loop_destroy(loop.watch);
      stallmonitor_stop();
      int started = stallmonitor_start(NULL);
      stallmonitor_stop();
      _exit(watching * 4 + !refused * 2 + (started != 0));
    }
    int status = 1;
    stallmonitor_loop_idle(loop.watch);
    waitpid(child, &status, 0);
    say("child=%d", status);
    stallmonitor_loop_destroy(loop.watch);
  } else if (strcmp(scenario, "fork-in-calls") == 0) {
    pthread_t callers[4];
    for (int i = 0; i < 4; i++) pthread_create(&callers[i], NULL, call_without_end, NULL);
    int ended = 0;
    for (int i = 0; i < 300; i++) {
      pid_t child = fork();
      if (child == 0) {
        // What ends a deadlock.
        alarm(20);
        stallmonitor_pause();
        stallmonitor_resume();
        int watching = stallmonitor_is_watching();
        int refused = stallmonitor_loop_create("child", 0) == NULL;
        stallmonitor_stop();
        _exit(watching || !refused);
      }
      int status = 1;
      waitpid(child, &status, 0);
      ended += status == 0;
      if (status != 0) break;
    }
    say("ended=%d", ended);
    // The callers never end.
    _exit(0);
  } else if (strcmp(scenario, "errno") == 0) {
    keep_errno();
  } else if (strcmp(scenario, "started-twice") == 0) {
    loop_turn_once("requests", 50, compute_digest, 150);
    stallmonitor_stop();
    say("again=%d", stallmonitor_start(NULL));
    loop_turn_once("requests", 50, compute_digest, 150);
  } else if (strcmp(scenario, "cost") == 0) {
    stallmonitor_loop *watch = stallmonitor_loop_create("requests", 0);
    const int turns = 20000000;
    for (int round = 0; round < 3; round++) {
      double start = now_ms();
      for (int i = 0; i < turns; i++) stallmonitor_loop_busy(watch);
      double middle = now_ms();
      for (int i = 0; i < turns; i++) stallmonitor_loop_idle(watch);
      say("busy_ns=%.1f idle_ns=%.1f", (middle - start) * 1e6 / turns, (now_ms() - middle) * 1e6 / turns);
    }
    stallmonitor_loop_destroy(watch);
  } else {
    say("unknown scenario: %s", scenario);
    return 2;
  }
  stallmonitor_stop();
  return 0;
}
