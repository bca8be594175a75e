// What the monitor meets in a static executable with musl: no library can be opened, and what musl lacks
// has a replacement. `scripts/test-musl` compiles it.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "CSymbols.h"
#include "cunwind_process.h"
#include "cunwind_thread.h"
#include "cunwind_unwind.h"
#include "process.h"
#include "threads.h"

static int failures;

static void check(const char *what, bool holds) {
  printf("%s: %s\n", what, holds ? "yes" : "NO");
  if (!holds) failures++;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// What a report with its names takes on the stack, and more than musl's default.
static void *use_stack(void *used) {
  volatile char stack[1 << 20];
  for (size_t i = 0; i < sizeof stack; i += 4096) stack[i] = 1;
  *(volatile bool *)used = stack[0] == 1;
  return NULL;
}

int main(void) {
  const char *problem = cunwind_load();
  printf("reports will have no stacks: %s\n", problem != NULL ? problem : "(no reason)");
  check("libunwind is not loaded, with a reason", problem != NULL && *problem != 0);
  check("the reason stays the same", cunwind_load() == problem);
  check("libdw is not loaded", csymbols_load() == -1);
  printf("the stacks in reports will have no functions: %s\n", csymbols_problem());
  check("with a reason", csymbols_problem() != NULL && *csymbols_problem() != 0);

  // musl has neither of the two lists of modules that glibc has.
  uint64_t word, place = (uint64_t)(uintptr_t)&place;
  cunwind_module module;
  cunwind_memory_prepare();
  check("memory is read", cunwind_read(cunwind_own_process(), place, &word, sizeof word) == sizeof word && word == place);
  check("no module is found", !cunwind_find_module(cunwind_own_process(), (uint64_t)(uintptr_t)main, &module));
  check("nor a function", cunwind_function_start(cunwind_own_process(), (uint64_t)(uintptr_t)main) == 0);
  cunwind_prepare_thread();
  cunwind_thread_ends();
  cunwind_memory_finish();

  bool used = false;
  clinux_thread_t thread;
  check("a thread starts", clinux_thread_create(&thread, 0, use_stack, &used) == 0);
  check("it is joined", clinux_thread_join(thread) == 0);
  check("it has more than 1 MiB of stack", used);

  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  double begun = seconds();
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_nsec += 300000000;
  if (deadline.tv_nsec >= 1000000000) deadline.tv_sec += 1, deadline.tv_nsec -= 1000000000;
  check("a wait fails at its deadline", clinux_semaphore_wait_until(&semaphore, &deadline) != 0 && errno == ETIMEDOUT);
  check("and not before", seconds() - begun >= 0.3);
  check("a wait after its deadline fails", clinux_semaphore_wait_until(&semaphore, &deadline) != 0 && errno == ETIMEDOUT);
  sem_post(&semaphore);
  check("unless the semaphore is posted", clinux_semaphore_wait_until(&semaphore, &deadline) == 0);

  check("no handler is found where there is none", !clinux_has_signal_handler(SIGPROF));
  return failures != 0;
}
