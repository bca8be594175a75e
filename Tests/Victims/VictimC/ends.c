#define _GNU_SOURCE
#include "victim_ends.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t victim_fork(void) { return fork(); }

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
