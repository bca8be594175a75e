// Programs that check their own attributes, before and after.
#include "host.h"

#include <locale.h>
#include <sched.h>
#include <sys/prctl.h>

extern char **environ;

static uint64_t environment_sum(void) {
  uint64_t sum = 5381;
  for (char **variable = environ; *variable != NULL; variable++)
    for (const char *c = *variable; *c != 0; c++) sum = sum * 33 + (unsigned char)*c;
  return sum;
}

struct attributes {
  uint64_t environment;
  mode_t mask;
  int priority, policy, slack, dumpable, no_new_privileges, subreaper, parent_signal, processors;
  unsigned alarm;
  char directory[512], name[32], locale[128];
};

static struct attributes read_attributes(void) {
  struct attributes now = {0};
  cpu_set_t processors;
  now.environment = environment_sum();
  umask(now.mask = umask(022));
  now.priority = getpriority(PRIO_PROCESS, 0);
  now.policy = sched_getscheduler(0);
  now.slack = prctl(PR_GET_TIMERSLACK);
  now.dumpable = prctl(PR_GET_DUMPABLE);
  now.no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  prctl(PR_GET_CHILD_SUBREAPER, &now.subreaper);
  prctl(PR_GET_PDEATHSIG, &now.parent_signal);
  sched_getaffinity(0, sizeof processors, &processors);
  now.processors = CPU_COUNT(&processors);
  now.alarm = alarm(0);
  if (getcwd(now.directory, sizeof now.directory) == NULL) now.directory[0] = 0;
  prctl(PR_GET_NAME, now.name);
  snprintf(now.locale, sizeof now.locale, "%s", setlocale(LC_ALL, NULL));
  return now;
}

static void attributes_stay(void) {
  struct attributes before = read_attributes();
  watch_start();
  for (int i = 0; i < 4; i++) stall(60);
  struct attributes after = read_attributes();
  watch_stop();
#define SAME(field) say(#field ": %s", memcmp(&before.field, &after.field, sizeof before.field) == 0 ? "same" : "changed")
  SAME(environment);
  SAME(mask);
  SAME(priority);
  SAME(policy);
  SAME(slack);
  SAME(dumpable);
  SAME(no_new_privileges);
  SAME(subreaper);
  SAME(parent_signal);
  SAME(processors);
  SAME(alarm);
  SAME(directory);
  SAME(name);
  SAME(locale);
}

// errno, the rounding of floating point and a thread's own values, over captures of a computation.
static void registers_stay(void) {
  watch_start();
  double sum = 0;
  unsigned changed = 0;
  for (int round = 0; round < 4; round++) {
    turn_begin();
    errno = 4711;
    volatile double x = 1.0;
    for (int i = 1; i < 12000000; i++) {
      x = x * 1.0000001 + 1.0 / i;
      changed += errno != 4711;
    }
    sum += x;
    turn_end();
    pause_for(3);
  }
  say("sum %.17g, errno changed %u times", sum, changed);
  watch_stop();
}

static pthread_key_t key;
static int destroyed;
static void destroy(void *value) { destroyed += value != NULL; }

static void *short_lived(void *ignored) {
  pthread_setspecific(key, &destroyed);
  stack_t stack;
  sigset_t mask;
  sigaltstack(NULL, &stack);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  int blocked = 0;
  for (int n = 1; n < 65; n++) blocked += sigismember(&mask, n) == 1;
  say("thread: alternate stack %d, blocked %d", stack.ss_flags != SS_DISABLE, blocked);
  return ignored;
}

static void threads_come_and_go(void) {
  pthread_key_create(&key, destroy);
  watch_start();
  for (int i = 0; i < 4; i++) {
    turn_begin();
    compute(30);
    run_thread(short_lived);
    compute(30);
    turn_end();
    pause_for(3);
  }
  say("destroyed: %d", destroyed);
  watch_stop();
}

const struct scenario attribute_hosts[] = {
    {"attributes-stay", attributes_stay},
    {"registers-stay", registers_stay},
    {"threads-come-and-go", threads_come_and_go},
    {NULL, NULL},
};
