//   matrix-host list
//   matrix-host host NAME watched|unwatched
//   matrix-host visible NAME watched|unwatched
//   matrix-host transfer NAME watched|unwatched loop|late|holder|bystander [filtered]
#include "host.h"

#include <semaphore.h>

static const struct scenario *const hosts[] = {descriptor_hosts, stack_hosts,   signal_hosts, limit_hosts,
                                               filter_hosts,     process_hosts, output_hosts, attribute_hosts,
                                               moving_hosts};
static const struct transfer *const transfers[] = {file_transfers, socket_transfers, memory_transfers, pipe_transfers};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct transfer *transfer;
void (*transfer_begins)(void);

static void transfer_once(void) {
  errno = 0;
  struct outcome outcome = transfer->run();
  say("%s result=%lld errno=%d bytes=%llu checksum=%llx", transfer->name, (long long)outcome.result, outcome.error,
      (unsigned long long)outcome.bytes, (unsigned long long)outcome.checksum);
}

static void on_the_loop(void) {
  transfer_begins = turn_begin;
  transfer_once();
  turn_end();
}

// The transfer is in progress when the stall is 250 ms old.
static void compute_before(void) {
  turn_begin();
  compute(247);
}

static void late_in_a_turn(void) {
  transfer_begins = compute_before;
  transfer_once();
  compute(100);  // a transfer of 2 ms ends before the threshold
  turn_end();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t has_begun, is_done;

static void say_begun(void) { sem_post(&has_begun); }

static void *hold(void *ignored) {
  pthread_mutex_lock(&lock);
  transfer_once();
  pthread_mutex_unlock(&lock);
  return ignored;
}

static void by_the_lock_holder(void) {
  pthread_t thread;
  transfer_begins = say_begun;
  pthread_create(&thread, NULL, hold, NULL);
  while (sem_wait(&has_begun) != 0) {}
  turn_begin();
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  turn_end();
  pthread_join(thread, NULL);
}

static void *stand_by(void *ignored) {
  transfer_once();
  sem_post(&is_done);
  return ignored;
}

// A thread that nobody watches, while the loop waits for something else.
static void by_a_bystander(void) {
  pthread_t thread;
  transfer_begins = say_begun;
  pthread_create(&thread, NULL, stand_by, NULL);
  while (sem_wait(&has_begun) != 0) {}
  turn_begin();
  while (sem_wait(&is_done) != 0) {}
  turn_end();
  pthread_join(thread, NULL);
}

static int run_transfer(const char *role, bool is_filtered) {
  sem_init(&has_begun, 0, 0);
  sem_init(&is_done, 0, 0);
  if (is_filtered) require(install_allow_filter() == 0, "filter");
  watch_start();
  if (strcmp(role, "late") == 0) {
    late_in_a_turn();
  } else if (strcmp(role, "holder") == 0) {
    by_the_lock_holder();
  } else if (strcmp(role, "bystander") == 0) {
    by_a_bystander();
  } else {
    on_the_loop();
  }
  watch_stop();
  return 0;
}

static int list(void) {
  for (size_t i = 0; i < COUNT(hosts); i++)
    for (const struct scenario *s = hosts[i]; s->name != NULL; s++) printf("host %s\n", s->name);
  for (size_t i = 0; i < COUNT(transfers); i++)
    for (const struct transfer *t = transfers[i]; t->name != NULL; t++) printf("transfer %s\n", t->name);
  return 0;
}

// Nothing depends on who started this: no directory, no descriptor, and no signal, not even the C library's own two.
static void begin_clean(void) {
  const char *directory = getenv("MATRIX_DIRECTORY");
  if (directory != NULL) require(chdir(directory) == 0, "chdir");
  syscall(SYS_close_range, 3, ~0U, 0);
  uint64_t action[4] = {0};
  for (int n = 32; n < 34; n++) syscall(SYS_rt_sigaction, n, action, NULL, 8);
}

int main(int count, char **arguments) {
  if (count >= 2 && strcmp(arguments[1], "list") == 0) return list();
  if (count < 4) return 64;
  begin_clean();
  is_watched = strcmp(arguments[3], "watched") == 0;
  for (size_t i = 0; i < COUNT(hosts) && strcmp(arguments[1], "host") == 0; i++)
    for (const struct scenario *s = hosts[i]; s->name != NULL; s++) {
      if (strcmp(s->name, arguments[2]) != 0) continue;
      s->run();
      return 0;
    }
  for (const struct scenario *s = visible_hosts; s->name != NULL && strcmp(arguments[1], "visible") == 0; s++)
    if (strcmp(s->name, arguments[2]) == 0) {
      s->run();
      return 0;
    }
  for (size_t i = 0; i < COUNT(transfers) && strcmp(arguments[1], "transfer") == 0; i++)
    for (const struct transfer *t = transfers[i]; t->name != NULL; t++) {
      if (strcmp(t->name, arguments[2]) != 0) continue;
      transfer = t;
      return run_transfer(count > 4 ? arguments[4] : "loop", count > 5);
    }
  return 64;
}
