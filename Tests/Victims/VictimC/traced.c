#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "victim_traced.h"

#ifndef __WALL
#define __WALL 0x40000000
#endif

int victim_begin_stop(int thread) {
  int ends[2];
  char byte = 0;
  if (pipe(ends) != 0) return -1;
  pid_t tracer = fork();
  if (tracer == 0) {
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 ||
        waitpid(thread, &status, __WALL) != thread)
      _exit(1);
    if (write(ends[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  bool is_stopped = tracer > 0 && read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  if (is_stopped) return tracer;
  if (tracer > 0) victim_end_stop(tracer);
  return -1;
}

void victim_end_stop(int tracer) {
  kill(tracer, SIGKILL);
  waitpid(tracer, NULL, 0);
}
