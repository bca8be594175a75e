// Hosts that close, reuse, count and lock descriptors.
#include "host.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/un.h>

#define closefrom_3() syscall(SYS_close_range, 3, ~0U, 0)

// -- All numbers are closed and given to the host's own files and sockets.

enum { FILES = 24, SOCKETS = 8 };

static void report_sockets(int ends[SOCKETS][2]) {
  for (int i = 0; i < SOCKETS; i++) {
    char bytes[65536];
    ssize_t mine = recv(ends[i][0], bytes, sizeof bytes, MSG_DONTWAIT);
    int mine_error = mine < 0 ? errno : 0;
    ssize_t theirs = recv(ends[i][1], bytes, sizeof bytes, MSG_DONTWAIT);
    int theirs_error = theirs < 0 ? errno : 0;
    say("socket %d: %zd (%d) and %zd (%d) bytes", i, mine, mine_error, theirs, theirs_error);
  }
}

static void reuse_all_numbers(void) {
  int files[FILES], ends[SOCKETS][2];
  stall(60);
  closefrom_3();
  for (int i = 0; i < FILES; i++) {
    char name[32];
    snprintf(name, sizeof name, "own-%02d", i);
    files[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    dprintf(files[i], "first line of %d\n", i);
  }
  for (int i = 0; i < SOCKETS; i++) require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) == 0, "socketpair");
  say("first number: %d", files[0]);
  for (int i = 0; i < 4; i++) stall(80);
  for (int i = 0; i < FILES; i++) {
    struct stat status = {0};
    if (fstat(files[i], &status) != 0) say("file %d: errno %d", i, errno);
    if (dprintf(files[i], "last line of %d\n", i) < 0) say("file %d: not written", i);
    fstat(files[i], &status);
    say("file %d: %lld bytes", i, (long long)status.st_size);
  }
  report_sockets(ends);
}

static void closefrom_then_reuse(void) {
  watch_start();
  reuse_all_numbers();
  watch_stop();
}

// An agent that takes every line and answers nothing; it ends with this process.
static pid_t start_agent(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  require(path != NULL && strlen(path) < sizeof address.sun_path, "MATRIX_AGENT");
  strcpy(address.sun_path, path);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0, "agent");
  pid_t agent = fork();
  if (agent != 0) {
    close(listener);
    return agent;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct pollfd waits[32] = {{listener, POLLIN, 0}};
  for (nfds_t count = 1; poll(waits, count, -1) > 0;) {
    if (waits[0].revents != 0 && count < 32) waits[count++] = (struct pollfd){accept(listener, NULL, NULL), POLLIN, 0};
    char bytes[4096];
    for (nfds_t i = 1; i < count; i++)
      if (waits[i].revents != 0 && read(waits[i].fd, bytes, sizeof bytes) <= 0) waits[i].fd = -1;
  }
  _exit(0);
}

static void closefrom_agent(void) {
  pid_t agent = start_agent(getenv("MATRIX_AGENT"));
  watch_start();
  pause_for(50);
  reuse_all_numbers();
  watch_stop();
  kill(agent, SIGKILL);
  waitpid(agent, NULL, 0);
}

// -- Numbers

static void close_0_in_a_stall(void) {
  watch_start();
  for (int i = 0; i < 6; i++) {
    turn_begin();
    compute(15);
    close(0);
    compute(40);
    int file = open("/dev/null", O_RDONLY);
    say("number: %d", file);
    if (file != 0 && file > 2) {
      dup2(file, 0);
      close(file);
    }
    turn_end();
    pause_for(3);
  }
  watch_stop();
}

static int open_all(int *numbers, int limit) {
  int count = 0;
  while (count < limit && (numbers[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) count++;
  return count;
}

static void open_to_the_limit(void) {
  enum { LIMIT = 40 };
  struct rlimit limit = {LIMIT, LIMIT};
  setrlimit(RLIMIT_NOFILE, &limit);
  watch_start();
  for (int i = 0; i < 5; i++) {
    int numbers[LIMIT];
    turn_begin();
    compute(30);
    int count = open_all(numbers, LIMIT);
    compute(30);
    say("opened %d, then errno %d", count, errno);
    for (int n = 0; n < count; n++) close(numbers[n]);
    turn_end();
    pause_for(3);
  }
  watch_stop();
}

static void all_taken_at_start(void) {
  enum { LIMIT = 64 };
  struct rlimit limit = {LIMIT, LIMIT};
  setrlimit(RLIMIT_NOFILE, &limit);
  int numbers[LIMIT];
  int count = open_all(numbers, LIMIT);
  watch_start();
  for (int i = 0; i < 3; i++) stall(40);
  close(numbers[0]);
  int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  say("opened %d, again %s", count, file == numbers[0] ? "the same number" : "another number");
  watch_stop();
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void list_descriptors(const char *when) {
  int numbers[256], count = 0;
  DIR *directory = opendir("/proc/self/fd");
  require(directory != NULL, "/proc/self/fd");
  for (struct dirent *entry; (entry = readdir(directory)) != NULL && count < 256;)
    if (entry->d_name[0] != '.') numbers[count++] = atoi(entry->d_name);
  int own = dirfd(directory);
  qsort(numbers, (size_t)count, sizeof *numbers, by_number);
  say("%s: %d descriptors", when, count - 1);
  for (int i = 0; i < count; i++) {
    char link[64], target[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", numbers[i]);
    if (numbers[i] == own || readlink(link, target, sizeof target - 1) < 0) continue;
    target[strcspn(target, ":[")] = 0;  // without the inode's number
    say("  %d %s", numbers[i], strrchr(target, '/') != NULL ? strrchr(target, '/') : target);
  }
  closedir(directory);
}

static void descriptor_list(void) {
  watch_start();
  list_descriptors("at first");
  turn_begin();
  compute(100);
  list_descriptors("in a stall");
  turn_end();
  stall(40);
  list_descriptors("after it");
  watch_stop();
  list_descriptors("at the end");
}

static void dup2_over_all(void) {
  say_to("facts");
  watch_start();
  for (int round = 0; round < 3; round++) {
    turn_begin();
    compute(20);
    for (int number = 0; number < 24; number++) {
      char name[32];
      snprintf(name, sizeof name, "target-%d-%02d", round, number);
      int file = open(name, O_RDWR | O_CREAT, 0600);
      int kept = fcntl(file, F_DUPFD, 200);
      close(file);
      if (number != 3) dup2(kept, number);  // 3 is where the facts go
      close(kept);
    }
    compute(60);
    for (int number = 0; number < 24; number++)
      if (number != 3) dprintf(number, "round %d, number %d\n", round, number);
    turn_end();
    stall(40);
  }
  watch_stop();
}

// -- Ends that others wait for

static void eof_of(int number) {
  int ends[2];
  say_to("facts");
  require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  dup2(ends[1], number);
  close(ends[1]);
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  close(number);
  struct pollfd wait = {ends[0], POLLIN, 0};
  // Without another copy, the end of file is there as soon as the last one is closed.
  int ready = poll(&wait, 1, 1500);
  char byte;
  say("ready: %d, read: %zd", ready, ready > 0 ? read(ends[0], &byte, 1) : -1);
  turn_end();
  watch_stop();
}
static void eof_of_stdout(void) { eof_of(STDOUT_FILENO); }
static void eof_of_stderr(void) { eof_of(STDERR_FILENO); }

static void eof_of_sockets(void) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  watch_start();
  stall(40);
  turn_begin();
  compute(40);
  close(ends[0]);
  struct pollfd wait = {ends[1], POLLIN, 0};
  char byte;
  int ready = poll(&wait, 1, 1500);
  say("ready: %d, read: %zd", ready, ready > 0 ? read(ends[1], &byte, 1) : -1);
  turn_end();
  watch_stop();
}

static void port_is_free_after_close(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  watch_start();
  stall(40);
  turn_begin();
  compute(40);
  close(listener);
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  say("bind: %d", bind(listener, (struct sockaddr *)&address, length));
  turn_end();
  watch_stop();
}

// -- Locks

// What another process, which has no descriptor of ours, can lock.
static int lock_elsewhere(const char *path, bool is_posix) {
  pid_t child = fork();
  if (child == 0) {
    closefrom_3();
    int file = open(path, is_posix ? O_RDWR : O_RDONLY);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    _exit((is_posix ? fcntl(file, F_SETLK, &lock) : flock(file, LOCK_EX | LOCK_NB)) == 0 ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

static void flock_lives(void) {
  int file = open("locked", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  require(flock(file, LOCK_EX) == 0, "flock");
  watch_start();
  stall(60);
  say("while held: %d", lock_elsewhere("locked", false));
  turn_begin();
  compute(60);
  close(file);
  say("after close: %d", lock_elsewhere("locked", false));
  turn_end();
  watch_stop();
}

// A process loses its lock of a file when it closes any descriptor of that file: here of a program that is mapped, whose
// symbols a monitor may read.
static void fcntl_lock_lives(void) {
  char program[512];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  require(length > 0, "readlink");
  program[length] = 0;
  if (strcmp(strrchr(program, '/'), "/locked-program") != 0) {
    // A copy, which nobody else locks; a program that runs cannot be opened for writing, so the lock is a reader's.
    char command[1200];
    snprintf(command, sizeof command, "cp '%s' locked-program", program);
    require(system(command) == 0, "cp");
    char *arguments[] = {"locked-program", "host", "fcntl-lock-of-the-program", is_watched ? "watched" : "unwatched", NULL};
    execv("./locked-program", arguments);
    require(false, "execv");
  }
  int file = open(program, O_RDONLY | O_CLOEXEC);
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  require(fcntl(file, F_SETLK, &lock) == 0, "F_SETLK");
  watch_start();
  for (int i = 0; i < 4; i++) stall(80);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    struct flock test = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    _exit(fcntl(file, F_GETLK, &test) == 0 && test.l_type == F_RDLCK && test.l_pid == parent ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say("lock lost: %d", WEXITSTATUS(status));
  unlink("locked-program");
  watch_stop();
}

const struct scenario descriptor_hosts[] = {
    {"closefrom-with-the-sink-stdout", closefrom_then_reuse},
    {"closefrom-with-a-file-as-sink", closefrom_then_reuse},
    {"closefrom-with-an-agent-as-sink", closefrom_agent},
    {"close-0-in-a-stall", close_0_in_a_stall},
    {"open-to-the-limit", open_to_the_limit},
    {"all-numbers-taken-at-start", all_taken_at_start},
    {"list-of-descriptors", descriptor_list},
    {"dup2-over-0-to-23", dup2_over_all},
    {"end-of-file-of-stdout", eof_of_stdout},
    {"end-of-file-of-stderr", eof_of_stderr},
    {"end-of-file-of-a-socket", eof_of_sockets},
    {"port-is-free-after-close", port_is_free_after_close},
    {"flock-lives", flock_lives},
    {"fcntl-lock-of-the-program", fcntl_lock_lives},
    {NULL, NULL},
};
