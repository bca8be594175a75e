#define _GNU_SOURCE
#include "victim_locks.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex;
static pthread_rwlock_t read_write;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static FILE *stream;
static unsigned duration;
static _Atomic int keeper_id;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
  // One write a line, as the victims do; no stream of the C library's, which may be what is waited for.
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) abort();
}

static void pause_for(unsigned milliseconds) {
  struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  nanosleep(&time, NULL);
}

static void make_mutex(int type, int protocol, int robustness, int sharing) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutexattr_setprotocol(&attributes, protocol);
  pthread_mutexattr_setrobust(&attributes, robustness);
  pthread_mutexattr_setpshared(&attributes, sharing);
  pthread_mutex_init(&mutex, &attributes);
}
static void make_normal(void) { make_mutex(PTHREAD_MUTEX_NORMAL, 0, 0, 0); }
static void make_recursive(void) { make_mutex(PTHREAD_MUTEX_RECURSIVE, 0, 0, 0); }
static void make_error_checking(void) { make_mutex(PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0); }
static void make_adaptive(void) { make_mutex(PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0); }
static void make_robust(void) { make_mutex(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_MUTEX_ROBUST, 0); }
static void make_shared(void) { make_mutex(PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PROCESS_SHARED); }
// In memory that another process may have, too.
static pthread_mutex_t *mapped;
static void make_mapped(int protocol) {
  if (mapped == NULL) mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  make_mutex(PTHREAD_MUTEX_NORMAL, protocol, 0, PTHREAD_PROCESS_SHARED);
  memcpy(mapped, &mutex, sizeof mutex);
}
static void make_mapped_plain(void) { make_mapped(PTHREAD_PRIO_NONE); }
static void make_mapped_inheriting(void) { make_mapped(PTHREAD_PRIO_INHERIT); }
static void take_mapped(void) { pthread_mutex_lock(mapped); }
static void give_mapped(void) { pthread_mutex_unlock(mapped); }
static void make_inheriting(void) { make_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0, 0); }
static void make_inheriting_robust(void) {
  make_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST, 0);
}
static void make_read_write(void) { pthread_rwlock_init(&read_write, NULL); }
static void make_stream(void) { stream = fopen("/dev/null", "w"); }

static void take_mutex(void) { pthread_mutex_lock(&mutex); }
static void give_mutex(void) { pthread_mutex_unlock(&mutex); }
static void take_mutex_timed(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec += 60;
  pthread_mutex_timedlock(&mutex, &time);
}
// The call is not the function's last action: as a jump, it would leave no frame of the function.
static void take_for_writing(void) {
  pthread_rwlock_wrlock(&read_write);
  __asm__ volatile("");
}
static void take_for_reading(void) {
  pthread_rwlock_rdlock(&read_write);
  __asm__ volatile("");
}
static void give_read_write(void) { pthread_rwlock_unlock(&read_write); }
static void take_stream(void) { flockfile(stream); }
static void give_stream(void) { funlockfile(stream); }
static void nothing(void) {}

static void signal_later(void) {
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
}
static void await_condition(void) {
  pthread_mutex_lock(&mutex);
  pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}
static void make_semaphore(void) { sem_init(&semaphore, 0, 0); }
static void post(void) { sem_post(&semaphore); }
static void await_semaphore(void) { sem_wait(&semaphore); }

// A word that looks like a mutex and is none: the same call, the same value, the same fields.
static struct {
  uint32_t word, count, owner, users, kind;
} alike;
static void make_alike(void) { memset(&alike, 0, sizeof alike); }
static void take_alike(void) {
  alike.word = 2, alike.owner = (uint32_t)gettid(), alike.users = 1;
}
static void give_alike(void) {
  alike.word = 0;
  syscall(SYS_futex, &alike.word, 129 /* wake, private */, 1, NULL, NULL, 0);
}
static void await_alike(void) {
  while (alike.word == 2) syscall(SYS_futex, &alike.word, 128 /* wait, private */, 2, NULL, NULL, 0);
}

static const struct kind {
  const char *name;
  void (*make)(void);
  // What the keeper does before and after, and what the waiter does.
  void (*take)(void);
  void (*give)(void);
  void (*wait)(void);
  void (*give_back)(void);
} kinds[] = {
    {"mutex", make_normal, take_mutex, give_mutex, take_mutex, give_mutex},
    {"recursive mutex", make_recursive, take_mutex, give_mutex, take_mutex, give_mutex},
    {"error-checking mutex", make_error_checking, take_mutex, give_mutex, take_mutex, give_mutex},
    {"adaptive mutex", make_adaptive, take_mutex, give_mutex, take_mutex, give_mutex},
    {"robust mutex", make_robust, take_mutex, give_mutex, take_mutex, give_mutex},
    {"shared mutex", make_shared, take_mutex, give_mutex, take_mutex, give_mutex},
    {"mutex with a timeout", make_normal, take_mutex, give_mutex, take_mutex_timed, give_mutex},
    {"robust mutex with a timeout", make_robust, take_mutex, give_mutex, take_mutex_timed, give_mutex},
    {"inheriting mutex", make_inheriting, take_mutex, give_mutex, take_mutex, give_mutex},
    {"robust inheriting mutex", make_inheriting_robust, take_mutex, give_mutex, take_mutex, give_mutex},
    {"read-write lock, reading", make_read_write, take_for_writing, give_read_write, take_for_reading, give_read_write},
    {"read-write lock, writing", make_read_write, take_for_writing, give_read_write, take_for_writing, give_read_write},
    {"stream", make_stream, take_stream, give_stream, take_stream, give_stream},
    {"join", nothing, nothing, nothing, NULL, nothing},
    // Nobody is known to hold these.
    {"nobody: read-write lock, writing after readers", make_read_write, take_for_reading, give_read_write, take_for_writing,
     give_read_write},
    {"nobody: mutex in shared memory", make_mapped_plain, take_mapped, give_mapped, take_mapped, give_mapped},
    {"nobody: inheriting mutex in shared memory", make_mapped_inheriting, take_mapped, give_mapped, take_mapped, give_mapped},
    {"nobody: condition", make_normal, nothing, signal_later, await_condition, nothing},
    {"nobody: semaphore", make_semaphore, nothing, post, await_semaphore, nothing},
    {"nobody: word that is no mutex", make_alike, take_alike, give_alike, await_alike, nothing},
};
const size_t victim_lock_count = sizeof kinds / sizeof *kinds;
const char *victim_lock_name(size_t index) { return kinds[index].name; }

__attribute__((noinline)) static void keep_the_lock(void) {
  pause_for(duration);
  __asm__ volatile("" : : : "memory");  // no tail call: the frame stays
}

static void *keeper_main(void *argument) {
  const struct kind *kind = argument;
  pthread_setname_np(pthread_self(), "keeper");
  kind->take();
  atomic_store(&keeper_id, gettid());
  keep_the_lock();
  kind->give();
  return NULL;
}

int victim_keeper_id(void) { return atomic_load(&keeper_id); }

bool victim_wait_for(const char *name, unsigned milliseconds) {
  for (size_t i = 0; i < victim_lock_count; i++) {
    if (strcmp(kinds[i].name, name) != 0) continue;
    duration = milliseconds;
    kinds[i].make();
    pthread_t keeper;
    atomic_store(&keeper_id, 0);
    pthread_create(&keeper, NULL, keeper_main, (void *)&kinds[i]);
    while (atomic_load(&keeper_id) == 0) pause_for(1);
    say("victim: keeper=%d\n", atomic_load(&keeper_id));
    if (kinds[i].wait != NULL) {
      kinds[i].wait();
      kinds[i].give_back();
    }
    pthread_join(keeper, NULL);
    return true;
  }
  return false;
}

// -- Circles

#define CIRCLE 8
static pthread_mutex_t circle[CIRCLE];
static unsigned circle_count;
static pthread_barrier_t all_hold_one;

__attribute__((noinline)) static void wait_for_the_next(unsigned index) {
  pthread_mutex_lock(&circle[(index + 1) % circle_count]);
  __asm__ volatile("" : : : "memory");
}

static void join_circle(unsigned index) {
  pthread_mutex_lock(&circle[index]);
  pthread_barrier_wait(&all_hold_one);
  wait_for_the_next(index);
  abort();
}
static void *circle_main(void *index) {
  join_circle((unsigned)(uintptr_t)index);
  return NULL;
}

_Noreturn void victim_deadlock(unsigned count) {
  circle_count = count;
  pthread_barrier_init(&all_hold_one, NULL, count);
  for (unsigned i = 0; i < count; i++) pthread_mutex_init(&circle[i], NULL);
  for (unsigned i = 1; i < count; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, circle_main, (void *)(uintptr_t)i);
  }
  say("victim: circle=%u\n", count);
  join_circle(0);
  abort();
}
