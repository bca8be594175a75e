#define _GNU_SOURCE
#include "victim_ends.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
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
