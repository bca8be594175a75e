//   host list     the names of all stalls
//   host NAME     one stall, in a turn of a watched loop
#include "host.h"

#include <semaphore.h>
#include <stallmonitor.h>
#include <sys/prctl.h>

extern const stall __start_stalls[], __stop_stalls[];

volatile uint64_t result;
double deadline;

void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "setup failed: %s: %s\n", what, strerror(errno));
  _exit(99);
}

struct helper {
  const char *name;
  void (*before)(void *), (*after)(void *);
  void *argument;
  sem_t is_ready;
};

static void *help(void *argument) {
  struct helper *helper = argument;
  prctl(PR_SET_NAME, helper->name);
  if (helper->before != NULL) helper->before(helper->argument);
  sem_post(&helper->is_ready);
  double left = (deadline - now_seconds()) * 1e3;
  if (left > 0) usleep((unsigned)(left * 1e3));
  helper->after(helper->argument);
  return NULL;
}

void meanwhile(const char *name, void (*before)(void *), void (*after)(void *), void *argument) {
  struct helper *helper = calloc(1, sizeof *helper);
  *helper = (struct helper){.name = name, .before = before, .after = after, .argument = argument};
  sem_init(&helper->is_ready, 0, 0);
  pthread_t thread;
  require(pthread_create(&thread, NULL, help, helper) == 0, "pthread_create");
  pthread_detach(thread);
  while (sem_wait(&helper->is_ready) != 0) {}
}

void later(const char *name, void (*action)(void *), void *argument) { meanwhile(name, NULL, action, argument); }

int main(int count, char **arguments) {
  if (count != 2) return 98;
  if (strcmp(arguments[1], "list") == 0) {
    for (const stall *s = __start_stalls; s < __stop_stalls; s++) puts(s->name);
    return 0;
  }
  for (const stall *s = __start_stalls; s < __stop_stalls; s++) {
    if (strcmp(s->name, arguments[1]) != 0) continue;
    require(stallmonitor_start(NULL) == STALLMONITOR_OK, stallmonitor_error_text());
    stallmonitor_loop *loop = stallmonitor_loop_create("main", 0);
    require(loop != NULL, stallmonitor_error_text());
    // The first call takes its time on a busy machine, and is no part of the stall.
    is_late();
    deadline = now_seconds() + STALL_MS / 1e3;
    stallmonitor_loop_busy(loop);
    s->run();
    stallmonitor_loop_idle(loop);
    stallmonitor_stop();
    return 0;
  }
  return 97;
}
