// Blocked threads whose stacks have frames of many kinds, captured one after another, for a debugger to compare: `compare-stacks` reads
// the lines `STACK THREAD whole|part|approximate ADDRESS…`, innermost first, and what gdb says of the same threads.
#define _GNU_SOURCE
#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "CUnwind.h"
#include "capture.h"

#define THREADS 200
#define NOINLINE __attribute__((noinline))

typedef struct walk {
  unsigned seed;
  int left, thread;
  _Atomic int id;
} walk;

static int ends[2], sockets[2], set;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, free_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t read_write = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Thread_local walk *present;
static volatile double factor = 1.5;

static unsigned number(walk *w, unsigned limit) {
  w->seed = w->seed * 1103515245 + 12345;
  return (w->seed >> 16) % limit;
}

static NOINLINE int go_on(walk *w);

// -- What blocks, for longer than the debugger needs

static NOINLINE int block(walk *w) {
  char bytes[16];
  struct epoll_event event;
  const struct timespec hour = {3600, 0};
  switch (number(w, 14)) {
    case 0: return (int)read(ends[0], bytes, sizeof bytes);
    case 1: return poll(NULL, 0, 3600000);
    case 2: return nanosleep(&hour, NULL);
    case 3: return sem_wait(&semaphore);
    case 4: return pthread_mutex_lock(&mutex);
    case 5: pthread_mutex_lock(&free_mutex); return pthread_cond_wait(&condition, &free_mutex);
    case 6: return epoll_wait(set, &event, 1, -1);
    case 7: return select(0, NULL, NULL, NULL, NULL);
    case 8: return (int)recv(sockets[0], bytes, sizeof bytes, 0);
    case 9: return pause();
    case 10: return usleep(3600u * 1000 * 1000);
    case 11: return pthread_rwlock_wrlock(&read_write);
    case 12: return (int)syscall(SYS_ppoll, NULL, 0, &hour, NULL, 8);
    default: return clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL);
  }
}

// -- Frames

static NOINLINE int plain(walk *w) { return go_on(w) + 1; }
static NOINLINE int with_memory(walk *w) {
  size_t size = 16 + number(w, 4000);
  volatile char *memory = alloca(size);
  memory[0] = 1;
  return go_on(w) + memory[0];
}
static NOINLINE int with_a_large_frame(walk *w) {
  volatile char memory[9000];
  memory[number(w, 9000)] = 1;
  int result = go_on(w);
  return result + memory[number(w, 9000)];
}
static NOINLINE int with_registers(walk *w) {
  unsigned a = number(w, 9), b = number(w, 9), c = number(w, 9), d = number(w, 9), e = number(w, 9), f = number(w, 9);
  int result = go_on(w);
  return result + (int)(a * b + c * d + e * f + a * f);
}
static NOINLINE int with_floats(walk *w) {
  double a = factor * number(w, 9), b = factor + number(w, 9), c = factor - number(w, 9);
  int result = go_on(w);
  return result + (int)(a * b + c);
}
static NOINLINE int with_arguments(walk *w, ...) {
  va_list list;
  va_start(list, w);
  int result = go_on(w) + va_arg(list, int);
  va_end(list);
  return result;
}
static int compare(const void *a, const void *b) {
  (void)a, (void)b;
  walk *w = present;
  return w == NULL ? 0 : go_on(w);
}
static NOINLINE int in_qsort(walk *w) {
  int items[2] = {2, 1};
  present = w;
  qsort(items, 2, sizeof *items, compare);
  return items[0];
}
static NOINLINE int in_bsearch(walk *w) {
  int items[3] = {1, 2, 3};
  present = w;
  return bsearch(items, items, 3, sizeof *items, compare) != NULL;
}
static NOINLINE int in_tsearch(walk *w) {
  void *root = NULL;
  int items[2] = {1, 2};
  present = NULL;
  tsearch(items, &root, compare);
  present = w;
  return tsearch(items + 1, &root, compare) != NULL;
}
static NOINLINE int recursion(walk *w, unsigned left) { return left > 0 ? recursion(w, left - 1) + 1 : go_on(w) + 1; }
static void handler(int signal) {
  (void)signal;
  go_on(present);
}
static NOINLINE int in_a_handler(walk *w) {
  present = w;
  return raise(SIGUSR1);
}
static int (*volatile const pointers[])(walk *) = {plain, with_memory, with_registers, with_a_large_frame};
static NOINLINE int by_pointer(walk *w) { return pointers[number(w, 4)](w) + 1; }

static NOINLINE int go_on(walk *w) {
  if (w->left-- <= 0) return block(w) + 1;
  switch (number(w, 12)) {
    case 0: return plain(w) + 1;
    case 1: return with_memory(w) + 1;
    case 2: return with_a_large_frame(w) + 1;
    case 3: return with_registers(w) + 1;
    case 4: return with_floats(w) + 1;
    case 5: return with_arguments(w, 1, 2.0, 3) + 1;
    case 6: return in_qsort(w) + 1;
    case 7: return in_bsearch(w) + 1;
    case 8: return in_tsearch(w) + 1;
    case 9: return recursion(w, number(w, 6)) + 1;
    case 10: return in_a_handler(w) + 1;
    default: return by_pointer(w) + 1;
  }
}

static void *run(void *argument) {
  walk *w = argument;
  atomic_store(&w->id, (int)syscall(SYS_gettid));
  go_on(w);
  return NULL;
}

int main(int count, char **arguments) {
  const char *problem = cunwind_load();
  if (problem != NULL) return puts(problem), 2;
  cunwind_memory_prepare();
  cunwind_unwinder *unwinder = cunwind_unwinder_create(cunwind_own_process());
  unsigned seed = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
  if (pipe(ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  set = epoll_create1(0);
  sem_init(&semaphore, 0, 0);
  pthread_mutex_lock(&mutex);
  pthread_rwlock_rdlock(&read_write);
  // Handlers may call handlers.
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_NODEFER}, NULL);
  static walk walks[THREADS];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  for (int i = 0; i < THREADS; i++) {
    walks[i].seed = seed * 1000003 + (unsigned)i * 7919;
    walks[i].left = 2 + i % 19;
    pthread_t thread;
    if (pthread_create(&thread, &attributes, run, walks + i) != 0) return 1;
  }
  sleep(3);
  for (int i = 0; i < THREADS; i++) {
    static cunwind_frame frames[512];
    cunwind_backtrace trace;
    int thread = atomic_load(&walks[i].id);
    if (capture(unwinder, thread, frames, 512, &trace) != CAPTURED) continue;
    printf("STACK %d %s", thread, trace.approximate ? "approximate" : trace.end == CUNWIND_END_OUTERMOST ? "whole" : "part");
    for (size_t frame = 0; frame < trace.count; frame++) printf(" %lx", (unsigned long)frames[frame].address);
    puts("");
  }
  puts("READY");
  fflush(stdout);
  sleep(600);
  return 0;
}
