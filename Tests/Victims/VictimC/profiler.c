// A profiler as services link one: a handler of SIGPROF, which the kernel sends to a thread that uses the processor.
#define _GNU_SOURCE
#include "victim_profiler.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>

static atomic_int on_watchdog, on_others;

static void sample(int number) {
  (void)number;
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  atomic_fetch_add(strcmp(name, "stall-watchdog") == 0 ? &on_watchdog : &on_others, 1);
}

void victim_profile(void) {
  struct sigaction action = {.sa_handler = sample, .sa_flags = SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  struct itimerval timer = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

int victim_samples_of_watchdog(void) { return atomic_load(&on_watchdog); }
int victim_samples_of_others(void) { return atomic_load(&on_others); }
