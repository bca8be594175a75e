#define _GNU_SOURCE
#include "victim_ends.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t victim_fork(void) { return fork(); }

static void *fork_once(void *came_back) {
  // The canceller's request is there by now; this waits for it without a cancellation point.
  while (!__atomic_load_n((bool *)came_back, __ATOMIC_ACQUIRE)) continue;
  *(bool *)came_back = false;
  pid_t child = fork();
  if (child == 0) _exit(0);
  *(bool *)came_back = true;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  victim_wait(child);
  return NULL;
}

bool victim_fork_while_cancelled(void) {
  bool came_back = false;
  pthread_t thread;
  if (pthread_create(&thread, NULL, fork_once, &came_back) != 0) return false;
  pthread_cancel(thread);
  __atomic_store_n(&came_back, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  return came_back;
}

pid_t victim_raw_fork(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

void victim_segfault(void) { *(volatile int *)0 = 1; }

int victim_wait(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1000;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void victim_exec(const char *path, const char *argument) {
  char *const arguments[] = {(char *)path, (char *)argument, NULL};
  execv(path, arguments);
}

// -- Forks at once

static struct {
  pthread_barrier_t barrier;
  const uint32_t *lock;
  unsigned rounds;
  _Atomic unsigned found_held;
} storm;

static void *fork_at_once(void *ignored) {
  for (unsigned i = 0; i < storm.rounds; i++) {
    pthread_barrier_wait(&storm.barrier);
    pid_t child = fork();
    if (child == 0) _exit(*storm.lock != 0);
    if (victim_wait(child) != 0) storm.found_held++;
  }
  return ignored;
}

unsigned victim_children_that_find_a_lock_held(const uint32_t *lock, unsigned threads, unsigned rounds, size_t bytes) {
  // All on one processor: a fork then comes into the middle of others.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  if (threads > 64) threads = 64;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  memset(memory, 1, bytes);
  storm.lock = lock;
  storm.rounds = rounds;
  pthread_barrier_init(&storm.barrier, NULL, threads);
  pthread_t ids[64];
  for (unsigned i = 0; i < threads; i++) pthread_create(&ids[i], NULL, fork_at_once, NULL);
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  return storm.found_held;
}
