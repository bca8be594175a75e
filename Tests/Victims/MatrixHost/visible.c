// What a process can see of being watched: Documentation/Guarantees.md says it, and a test reads it here.
#include "host.h"

#include <dirent.h>
#include <sched.h>

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

static void say_threads(void) {
  char names[64][16];
  size_t count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL && count < 64;) {
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
    if (file == NULL) continue;
    if (fscanf(file, "%15s", names[count]) == 1 && strncmp(names[count], "stall-", 6) == 0) count++;
    fclose(file);
  }
  if (tasks != NULL) closedir(tasks);
  qsort(names, count, sizeof *names, compare_names);
  for (size_t i = 0; i < count; i++) say("thread: %s", names[i]);
}

// After the stall's lines are out, so that no short-lived thread is left.
static void threads(void) {
  watch_start();
  stall(60);
  pause_for(1500);
  say_threads();
  watch_stop();
  pause_for(200);
  say("after stop()");
  say_threads();
}

static void say_signals(void) {
  int handlers = 0;
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL) handlers++;
  }
  stack_t stack;
  sigaltstack(NULL, &stack);
  say("real-time signals with a handler: %d, alternate stack: %s", handlers,
      (stack.ss_flags & SS_DISABLE) != 0 ? "none" : "one");
}

static void signals(void) {
  watch_start();
  for (int i = 0; i < 3; i++) stall(100);
  say_signals();
  watch_stop();
}

// What the Swift runtime in the library handles.
static void crash_handlers(void) {
  watch_start();
  const int numbers[] = {SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
  int handlers = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action;
    sigaction(numbers[i], NULL, &action);
    handlers += action.sa_handler != SIG_DFL;
  }
  stack_t stack;
  sigaltstack(NULL, &stack);
  say("handlers of crashes: %d, alternate stack: %s", handlers, (stack.ss_flags & SS_DISABLE) != 0 ? "none" : "one");
  watch_stop();
}

static void signals_under_a_filter(void) {
  require(install_allow_filter() == 0, "filter");
  signals();
}

static void user_namespace(void) {
  watch_start();
  stall(60);
  int result = unshare(CLONE_NEWUSER);
  say("unshare: %d, errno %d", result, errno);
  watch_stop();
}

const struct scenario visible_hosts[] = {
    {"threads", threads},
    {"signals", signals},
    {"signals-under-a-filter", signals_under_a_filter},
    {"crash-handlers", crash_handlers},
    {"user-namespace", user_namespace},
    {NULL, NULL},
};
