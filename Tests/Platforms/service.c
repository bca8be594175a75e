// A service in C that stalls in known places. Each stall is in a turn of a loop with the stall's name. After it, a line on
// standard output says what its report must say: EXPECTED NAME FUNCTION CAUSE CALL LOCK HOLDER DEPTH. `-` is nothing, and `|`
// separates what can be right. `Tests/Platforms/judge` compares.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stallmonitor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef STALL_MS
#define STALL_MS 1500
#endif
#define NOINLINE __attribute__((noinline))

static int ends[2], pair[2], lock_file;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t read_write = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t held;
static volatile unsigned long counter;
static volatile int result;
// The thread that holds what is waited for.
static volatile int holder;

// No function, so that the one that uses it is responsible.
#define pause_ms(ms) nanosleep(&(struct timespec){(ms) / 1000, (ms) % 1000 * 1000000L}, NULL)

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// -- What ends the stalls

static void *write_later(void *unused) {
  pause_ms(STALL_MS);
  result = (int)write(ends[1], "x", 1);
  return unused;
}
static void *send_later(void *unused) {
  pause_ms(STALL_MS);
  result = (int)write(pair[1], "x", 1);
  return unused;
}
static void *post_later(void *unused) {
  pause_ms(STALL_MS);
  sem_post(&semaphore);
  return unused;
}
static void *signal_later(void *unused) {
  pause_ms(STALL_MS);
  pthread_mutex_lock(&condition_mutex);
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&condition_mutex);
  return unused;
}
static void *hold_mutex(void *unused) {
  holder = (int)syscall(SYS_gettid);
  pthread_mutex_lock(&mutex);
  sem_post(&held);
  pause_ms(STALL_MS);
  pthread_mutex_unlock(&mutex);
  return unused;
}
static void *hold_read_write(void *unused) {
  holder = (int)syscall(SYS_gettid);
  pthread_rwlock_wrlock(&read_write);
  sem_post(&held);
  pause_ms(STALL_MS);
  pthread_rwlock_unlock(&read_write);
  return unused;
}
static void *hold_stream(void *unused) {
  holder = (int)syscall(SYS_gettid);
  flockfile(stderr);
  sem_post(&held);
  pause_ms(STALL_MS);
  funlockfile(stderr);
  return unused;
}
static void *hold_file(void *unused) {
  int file = open("/tmp/stalls.lock", O_RDWR | O_CREAT, 0600);
  flock(file, LOCK_EX | LOCK_NB);
  sem_post(&held);
  pause_ms(STALL_MS);
  close(file);
  return unused;
}
static void *end_later(void *unused) {
  holder = (int)syscall(SYS_gettid);
  pause_ms(STALL_MS);
  return unused;
}

static pthread_t start(void *(*body)(void *)) {
  pthread_t thread;
  pthread_create(&thread, NULL, body, NULL);
  return thread;
}

// -- The stalls

NOINLINE static void in_nanosleep(void) { pause_ms(STALL_MS), counter++; }
NOINLINE static void in_usleep(void) { usleep(STALL_MS * 1000), counter++; }
NOINLINE static void in_poll(void) { poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, STALL_MS), counter++; }
NOINLINE static void in_empty_poll(void) { poll(NULL, 0, STALL_MS), counter++; }
NOINLINE static void in_select(void) { select(0, NULL, NULL, NULL, &(struct timeval){0, STALL_MS * 1000}), counter++; }
NOINLINE static void in_read(void) {
  char byte;
  pthread_t thread = start(write_later);
  result = (int)read(ends[0], &byte, 1);
  pthread_join(thread, NULL);
}
NOINLINE static void in_recv(void) {
  char byte;
  pthread_t thread = start(send_later);
  result = (int)recv(pair[0], &byte, 1, 0);
  pthread_join(thread, NULL);
}
NOINLINE static void in_sem_wait(void) {
  pthread_t thread = start(post_later);
  sem_wait(&semaphore);
  pthread_join(thread, NULL);
}
NOINLINE static void in_cond_wait(void) {
  pthread_t thread = start(signal_later);
  pthread_mutex_lock(&condition_mutex);
  pthread_cond_wait(&condition, &condition_mutex);
  pthread_mutex_unlock(&condition_mutex);
  pthread_join(thread, NULL);
}
NOINLINE static void in_mutex(void) {
  pthread_t thread = start(hold_mutex);
  sem_wait(&held);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
}
NOINLINE static void in_read_lock(void) {
  pthread_t thread = start(hold_read_write);
  sem_wait(&held);
  pthread_rwlock_rdlock(&read_write);
  pthread_rwlock_unlock(&read_write);
  pthread_join(thread, NULL);
}
NOINLINE static void in_stream(void) {
  pthread_t thread = start(hold_stream);
  sem_wait(&held);
  fputc(' ', stderr);
  pthread_join(thread, NULL);
}
NOINLINE static void in_join(void) {
  pthread_join(start(end_later), NULL);
  counter++;
}
// Functions of the C library that keep nothing on the stack, called by one that is called through a pointer.
NOINLINE static void in_flock(void) {
  pthread_t thread = start(hold_file);
  sem_wait(&held);
  flock(lock_file, LOCK_EX);
  flock(lock_file, LOCK_UN);
  pthread_join(thread, NULL);
}
NOINLINE static void in_syscall(void) {
  struct timespec time = {STALL_MS / 1000, STALL_MS % 1000 * 1000000L};
  syscall(SYS_ppoll, NULL, 0, &time, NULL, 8);
  counter++;
}
// A function that jumps to the C library's, which then has its place on the stack.
NOINLINE static int jump_to_flock(int file, int operation) { __attribute__((musttail)) return flock(file, operation); }
NOINLINE static void in_tail_call(void) {
  // A frame of another size than that of in_flock: nothing distinguishes two such callers.
  char area[100];
  __asm__ volatile("" : : "r"(area) : "memory");
  pthread_t thread = start(hold_file);
  sem_wait(&held);
  jump_to_flock(lock_file, LOCK_EX);
  flock(lock_file, LOCK_UN);
  pthread_join(thread, NULL);
}
// With an area on the stack whose size is not known beforehand.
NOINLINE static void in_large_frame(void) {
  volatile char *area = __builtin_alloca((size_t)(1000 + counter % 7));
  area[0] = 1;
  pause_ms(STALL_MS);
  area[1] = area[0];
}
NOINLINE static void in_computing(void) {
  double end = now_ms() + STALL_MS;
  while (now_ms() < end)
    for (int i = 0; i < 100000; i++) counter = counter * 31 + 7;
}
NOINLINE static void in_leaf(void) {
  double end = now_ms() + STALL_MS;
  while (now_ms() < end)
    for (int i = 0; i < 300000; i++) __asm__ volatile("");
}

static int compare(const void *a, const void *b) {
  // Nearly all of the time.
  for (int i = 0; i < 2000; i++) counter = counter * 31 + 7;
  return memcmp(a, b, 4);
}
NOINLINE static void in_sorting(void) {
  double end = now_ms() + STALL_MS;
  static char data[4 * 20000];
  while (now_ms() < end) {
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(counter = counter * 31 + 7);
    qsort(data, sizeof data / 4, 4, compare);
  }
}
static void handler(int signal) {
  (void)signal;
  in_nanosleep();
}
NOINLINE static void in_handler(void) {
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
}

static const struct stall {
  const char *name, *culprit, *cause, *call, *lock;
  void (*run)(void);
} stalls[] = {
    {"nanosleep", "in_nanosleep", "sleep", "clock_nanosleep", "-", in_nanosleep},
    {"usleep", "in_usleep", "sleep", "clock_nanosleep", "-", in_usleep},
    {"poll", "in_poll", "io", "poll|ppoll", "-", in_poll},
    {"empty-poll", "in_empty_poll", "sleep", "poll|ppoll", "-", in_empty_poll},
    {"select", "in_select", "sleep", "select|pselect6", "-", in_select},
    {"read", "in_read", "io", "read", "-", in_read},
    {"recv", "in_recv", "io", "recvfrom", "-", in_recv},
    {"sem_wait", "in_sem_wait", "lock", "futex", "-", in_sem_wait},
    {"cond_wait", "in_cond_wait", "lock", "futex", "-", in_cond_wait},
    {"mutex", "in_mutex", "lock", "futex", "mutex", in_mutex},
    {"read-lock", "in_read_lock", "lock", "futex", "rwlock", in_read_lock},
    {"stream", "in_stream", "lock", "futex", "stream", in_stream},
    {"join", "in_join", "lock", "futex", "thread", in_join},
    {"flock", "in_flock", "lock", "flock", "-", in_flock},
    {"syscall", "in_syscall", "sleep", "ppoll", "-", in_syscall},
    {"tail-call", "in_tail_call", "lock", "flock", "-", in_tail_call},
    {"large-frame", "in_large_frame", "sleep", "clock_nanosleep", "-", in_large_frame},
    {"computing", "in_computing", "running|starved", "-", "-", in_computing},
    {"leaf", "in_leaf", "running|starved", "-", "-", in_leaf},
    {"sorting", "compare", "running|starved", "-", "-", in_sorting},
    {"handler", "in_nanosleep", "sleep", "clock_nanosleep", "-", in_handler},
};

NOINLINE static void nested(const struct stall *stall, int depth) {
  volatile int here = depth;
  if (depth > 0)
    nested(stall, depth - 1);
  else
    stall->run();
  counter += (unsigned long)here;
}

int main(int count, char **arguments) {
  int depth = count > 1 ? atoi(arguments[1]) : 0;
  const char *only = count > 2 ? arguments[2] : NULL;
  if (pipe(ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  sem_init(&semaphore, 0, 0);
  sem_init(&held, 0, 0);
  lock_file = open("/tmp/stalls.lock", O_RDWR | O_CREAT, 0600);
  if (stallmonitor_start(NULL) != 0) return fprintf(stderr, "%s\n", stallmonitor_error_text()), 1;
  for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++) {
    const struct stall *stall = &stalls[i];
    if (only != NULL && strcmp(only, stall->name) != 0) continue;
    stallmonitor_loop *watch = stallmonitor_loop_create(stall->name, 0);
    stallmonitor_loop_busy(watch);
    nested(stall, depth);
    stallmonitor_loop_idle(watch);
    pause_ms(300);
    stallmonitor_loop_destroy(watch);
    printf("EXPECTED %s %s %s %s %s %d %d\n", stall->name, stall->culprit, stall->cause, stall->call, stall->lock, holder,
           depth);
    fflush(stdout);
  }
  stallmonitor_stop();
  return 0;
}
