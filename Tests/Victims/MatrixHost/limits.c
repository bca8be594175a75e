// Hosts that live close to a limit.
#include "host.h"

#include <dirent.h>

#define MiB ((size_t)1 << 20)

static void set_limit(int resource, rlim_t value) {
  struct rlimit limit = {value, value};
  require(setrlimit((__rlimit_resource_t)resource, &limit) == 0, "setrlimit");
}

static size_t status_kib(const char *key) {
  char line[256];
  size_t value = 0;
  FILE *file = fopen("/proc/self/status", "re");
  require(file != NULL, "/proc/self/status");
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, key, strlen(key)) == 0) value = strtoul(line + strlen(key) + 1, NULL, 10);
  fclose(file);
  return value;
}

// -- Memory

// Takes all memory that there is, in ever smaller pieces; gives it back by the list of them.
static void **take_all(void) {
  void **last = NULL;
  for (size_t bytes = MiB; bytes >= 32; bytes /= 2)
    for (void **piece; (piece = malloc(bytes)) != NULL; last = piece) *piece = last;
  return last;
}

// Whether a thread of the monitor does anything.
static bool monitor_works(void) {
  bool works = false;
  DIR *tasks = opendir("/proc/self/task");
  require(tasks != NULL, "/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[300], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
    FILE *file = fopen(path, "re");
    if (file == NULL) continue;
    // `42 (stall-watchdog) S …`
    if (fgets(line, sizeof line, file) != NULL) {
      const char *name = strchr(line, '('), *end = strrchr(line, ')');
      works |= name != NULL && end != NULL && strncmp(name, "(stall-", 7) == 0 && end[2] != 'S';
    }
    fclose(file);
  }
  closedir(tasks);
  return works;
}

// Waits until the monitor has reported, and has given back the memory for that. It looks for memory every 20 ms.
static void let_monitor_report(void) {
  for (int idle = 0; idle < 10; idle = monitor_works() ? 0 : idle + 1) pause_for(10);
}

static void without_memory(int resource, const char *key) {
  watch_start();
  // On an emulated processor the monitor finds no shorter one so soon. Later there is no memory for a report: malloc keeps it.
  stall(getenv("TEST_MACHINE") != NULL ? 3000 : 80);
  set_limit(resource, (status_kib(key) << 10) + 8 * MiB);
  for (int i = 0; i < 4; i++) {
    turn_begin();
    void **pieces = take_all();
    compute(60);
    // Not whether there is none any more: the monitor may have given some back meanwhile.
    say("out of memory: %d", pieces != NULL);
    for (void **next; pieces != NULL; pieces = next) {
      next = *pieces;
      free(pieces);
    }
    turn_end();
    // The end of the process, if it takes the memory of a report that has begun (Documentation/Guarantees.md).
    let_monitor_report();
  }
  void *again = malloc(MiB);
  say("memory again: %d", again != NULL);
  free(again);
}
static void without_data(void) {
  without_memory(RLIMIT_DATA, "VmData:");
  watch_stop();
}
static void without_address_space(void) {
  without_memory(RLIMIT_AS, "VmSize:");
  watch_stop();
}

// There is memory for a check and not for a report, until after the stall has ended or to the end.
static void stall_without_memory(bool recovers) {
  struct rlimit before, low;
  watch_start();
  pause_for(300);
  require(getrlimit(RLIMIT_AS, &before) == 0, "getrlimit");
  low = before;
  low.rlim_cur = (status_kib("VmSize:") << 10) + MiB;
  require(setrlimit(RLIMIT_AS, &low) == 0, "setrlimit");
  stall(300);
  pause_for(50);
  if (recovers) require(setrlimit(RLIMIT_AS, &before) == 0, "setrlimit");
  pause_for(200);
  say("alive");
  watch_stop();
}
static void memory_after_the_stall(void) { stall_without_memory(true); }
static void memory_never_again(void) { stall_without_memory(false); }

// Memory is short before the monitor's first stall: nothing of it has been prepared by an earlier one.
static void out_of_memory_at_once(int resource, const char *key) {
  watch_start();
  set_limit(resource, (status_kib(key) << 10) + 2 * MiB);
  void **pieces = take_all();
  for (int i = 0; i < 4; i++) stall(60);
  say("out of memory: %d", pieces != NULL);
}
static void no_data_at_once(void) { out_of_memory_at_once(RLIMIT_DATA, "VmData:"); }
static void no_address_space_at_once(void) { out_of_memory_at_once(RLIMIT_AS, "VmSize:"); }

// The monitor starts where there is next to nothing.
static void start_without_memory(void) {
  set_limit(RLIMIT_DATA, (status_kib("VmData:") << 10) + MiB / 4);
  watch_start();
  for (int i = 0; i < 3; i++) stall(60);
  say("alive");
}

static void memlock_budget(void) {
  set_limit(RLIMIT_MEMLOCK, 64 << 10);
  become_unprivileged();
  watch_start();
  void *memory = fresh_memory(64 << 10);
  turn_begin();
  compute(60);
  say("mlock: %d", mlock(memory, 64 << 10));
  compute(60);
  turn_end();
  say("munlock: %d", munlock(memory, 64 << 10));
  stall(60);
  say("mlock again: %d", mlock(memory, 64 << 10));
  watch_stop();
}

static void memlock_none(void) {
  set_limit(RLIMIT_MEMLOCK, 0);
  become_unprivileged();
  watch_start();
  for (int i = 0; i < 4; i++) stall(60);
  void *memory = fresh_memory(4096);
  int result = mlock(memory, 4096);
  say("mlock: %d, errno %d", result, errno);
  watch_stop();
}

// Every later mapping is locked and counts, so that next to none succeeds any more.
static void mlockall_future(void) {
  set_limit(RLIMIT_MEMLOCK, 64 << 10);
  become_unprivileged();
  watch_start();
  say("mlockall: %d", mlockall(MCL_FUTURE));
  for (int i = 0; i < 4; i++) stall(60);
  say("alive");
  watch_stop();
}

// -- Numbers

static void nproc_reached(void) {
  set_limit(RLIMIT_NPROC, 1);
  become_unprivileged();
  watch_start();
  for (int i = 0; i < 3; i++) stall(60);
  pid_t child = fork();
  if (child == 0) _exit(0);
  say("fork: %d, errno %d", child < 0 ? -1 : 0, errno);
  watch_stop();
}

// Root has no limit of processes; other users have, and their monitor's threads count (Documentation/Guarantees.md).
static void nproc_with_room(void) {
  set_limit(RLIMIT_NPROC, 12);
  become_unprivileged();
  watch_start();
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) _exit(i);
    stall(60);
    int status = -1;
    waitpid(child, &status, 0);
    say("child: %d", WEXITSTATUS(status));
  }
  watch_stop();
}

static volatile int counted;
static void count_signal(int signal) { counted += signal > 0; }

static void no_pending_signals(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  become_unprivileged();
  set_limit(RLIMIT_SIGPENDING, 0);
  watch_start();
  for (int i = 0; i < 4; i++) {
    turn_begin();
    compute(40);
    kill(getpid(), SIGUSR2);
    compute(40);
    turn_end();
    pause_for(3);
  }
  timer_t timer;
  int result = timer_create(CLOCK_MONOTONIC, NULL, &timer);
  say("handled: %d, timer_create: %d, errno %d", counted, result, errno);
  watch_stop();
}

// The host queues all signals that it may.
static void few_pending_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  become_unprivileged();
  set_limit(RLIMIT_SIGPENDING, 16);
  watch_start();
  for (int round = 0; round < 4; round++) {
    turn_begin();
    compute(40);
    int queued = 0, taken = 0;
    while (queued < 64 && sigqueue(getpid(), SIGRTMIN + 2, (union sigval){0}) == 0) queued++;
    compute(40);
    struct timespec zero = {0, 0};
    while (sigtimedwait(&set, NULL, &zero) > 0) taken++;
    // A timer takes one of them as long as it exists (timer_create(2)), and the monitor may capture this thread by one just now.
    say("queued but for one: %d, taken: %d", queued >= 15, taken == queued);
    turn_end();
    pause_for(3);
  }
  watch_stop();
}

// -- File sizes

// Nothing of the monitor's may be larger, or it is sent SIGXFSZ, whose default is the end of the process.
static void file_size(bool is_handled) {
  struct sigaction action = {.sa_handler = count_signal};
  if (is_handled) sigaction(SIGXFSZ, &action, NULL);
  set_limit(RLIMIT_FSIZE, 700);
  watch_start();
  for (int i = 0; i < 4; i++) stall(60);
  int before = counted;
  char bytes[800] = {0};
  int file = open("large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ssize_t first = write(file, bytes, sizeof bytes);
  ssize_t second = is_handled ? write(file, bytes, sizeof bytes) : -1;
  say("before: %d, written: %zd and %zd, handled: %d", before, first, second, counted - before);
  watch_stop();
}
static void file_size_with_handler(void) { file_size(true); }
static void file_size_without_handler(void) { file_size(false); }

const struct scenario limit_hosts[] = {
    {"rlimit-data-malloc-returns-null", without_data},
    {"rlimit-as-malloc-returns-null", without_address_space},
    {"rlimit-as-until-after-the-stall", memory_after_the_stall},
    {"rlimit-as-until-the-end", memory_never_again},
    {"rlimit-data-before-the-first-stall", no_data_at_once},
    {"rlimit-as-before-the-first-stall", no_address_space_at_once},
    {"rlimit-data-before-the-start", start_without_memory},
    {"rlimit-memlock-is-the-hosts", memlock_budget},
    {"rlimit-memlock-0", memlock_none},
    {"mlockall-of-the-future", mlockall_future},
    {"rlimit-nproc-reached", nproc_reached},
    {"rlimit-nproc-with-room", nproc_with_room},
    {"rlimit-sigpending-0", no_pending_signals},
    {"rlimit-sigpending-is-the-hosts", few_pending_signals},
    {"rlimit-fsize-with-a-handler", file_size_with_handler},
    {"rlimit-fsize-without-a-handler", file_size_without_handler},
    {NULL, NULL},
};
