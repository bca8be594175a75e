// Hosts whose output goes nowhere.
#include "host.h"

// sys/mount.h of glibc before 2.36 does not go with these.
#include <linux/fs.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/un.h>

// A pipe that holds no further byte, and that only root may open.
static int full_pipe(const char *name) {
  require(mkfifo(name, 0600) == 0, "mkfifo");
  int pipe = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  require(pipe >= 0, "open");
  char bytes[4096] = {0};
  while (write(pipe, bytes, sizeof bytes) > 0) {}
  // The last bytes, one by one; then as a service gets it.
  while (write(pipe, bytes, 1) > 0) {}
  fcntl(pipe, F_SETFL, fcntl(pipe, F_GETFL) & ~O_NONBLOCK);
  return pipe;
}

static int pipe_bytes(int pipe) {
  int bytes = 0;
  ioctl(pipe, FIONREAD, &bytes);
  return bytes;
}

static void stall_and_stop(void) {
  for (int i = 0; i < 4; i++) {
    stall(60);
    say("turn %d ended", i);
  }
  // Bounded, or this process never ends.
  watch_stop();
  say("stopped");
}

static void full_stdout(bool is_root) {
  say_to("facts");
  int pipe = full_pipe("full");
  dup2(pipe, STDOUT_FILENO);
  if (!is_root) become_unprivileged();
  int before = pipe_bytes(pipe);
  watch_start();
  stall_and_stop();
  say("bytes added: %d", pipe_bytes(pipe) - before);
  say("non-blocking: %d", (fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK) != 0);
}
static void full_stdout_as_root(void) { full_stdout(true); }
static void full_stdout_unprivileged(void) { full_stdout(false); }

// Messages of the monitor's go to standard error: here that its file cannot be opened.
static void full_stderr(void) {
  int pipe = full_pipe("full");
  dup2(pipe, STDERR_FILENO);
  become_unprivileged();
  setenv("STALLMONITOR_SINK", "file:/proc/nowhere/lines", 1);
  watch_start();
  stall_and_stop();
  say("non-blocking: %d", (fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) != 0);
}

static void stdout_closed(void) {
  say_to("facts");
  close(STDOUT_FILENO);
  watch_start();
  stall_and_stop();
  say("number: %d", open("/dev/null", O_RDONLY));
}

static void stdout_without_reader(void) {
  int ends[2];
  say_to("facts");
  require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  dup2(ends[1], STDOUT_FILENO);
  close(ends[0]);
  watch_start();
  stall_and_stop();
}

// The sink is a socket whose reader does not read.
static void stdout_is_a_full_socket(void) {
  int ends[2];
  say_to("facts");
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  char bytes[4096] = {0};
  while (send(ends[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
  dup2(ends[1], STDOUT_FILENO);
  watch_start();
  stall_and_stop();
  say("non-blocking: %d", (fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK) != 0);
}

// -- A service manager that waits for signs of life while the sink takes nothing

static int manager_socket(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "notify"};
  int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  require(bind(manager, (struct sockaddr *)&address, sizeof address) == 0 && chmod("notify", 0777) == 0, "bind");
  char path[600];
  require(getcwd(path, sizeof path - 8) != NULL, "getcwd");
  setenv("NOTIFY_SOCKET", strcat(path, "/notify"), 1);
  setenv("WATCHDOG_USEC", "400000", 1);
  setenv("STALLMONITOR_SYSTEMD_WATCHDOG", "true", 1);
  return manager;
}

// The loop is healthy: turns are short. Waits for as many messages; an unwatched host has nobody who would send them.
static bool gets_messages(int manager, int wanted) {
  if (!is_watched) return true;
  for (int seen = 0; seen < wanted;) {
    turn_begin();
    turn_end();
    struct pollfd wait = {manager, POLLIN, 0};
    if (poll(&wait, 1, 6000) <= 0) return false;
    char message[256];
    ssize_t n = recv(manager, message, sizeof message - 1, 0);
    if (n <= 0) return false;
    message[n] = 0;
    seen += strcmp(message, "WATCHDOG=1") == 0;
  }
  return true;
}

static void stuck_sink_with_manager(void (*prepare)(void)) {
  say_to("facts");
  int manager = manager_socket();
  prepare();
  watch_start();
  say("messages at first: %d", gets_messages(manager, 2));
  for (int i = 0; i < 4; i++) stall(60);
  // What the stalls left is taken: only later messages count.
  char message[256];
  while (recv(manager, message, sizeof message, MSG_DONTWAIT) > 0) {}
  say("messages with a stuck sink: %d", gets_messages(manager, 6));
  watch_stop();
  say("stopped");
}

static void prepare_stdout(void) {
  dup2(full_pipe("full"), STDOUT_FILENO);
  become_unprivileged();
}
static void prepare_fifo(void) {
  full_pipe("full");
  char path[600];
  require(getcwd(path, sizeof path - 8) != NULL, "getcwd");
  char sink[640];
  snprintf(sink, sizeof sink, "file:%s/full", path);
  setenv("STALLMONITOR_SINK", sink, 1);
}
static void manager_and_stuck_stdout(void) { stuck_sink_with_manager(prepare_stdout); }
static void manager_and_stuck_fifo(void) { stuck_sink_with_manager(prepare_fifo); }

// -- A disk that hangs: a frozen file system of this process's own

static int *is_thawed;
static int guard_life[2];
static pid_t guard;

// Thaws when the host asks for it, ends, or takes too long: no frozen disk is left.
static void start_guard(int directory) {
  require(pipe2(guard_life, O_CLOEXEC) == 0, "pipe");
  is_thawed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  guard = fork();
  if (guard == 0) {
    close(guard_life[1]);
    struct pollfd wait = {guard_life[0], POLLIN, 0};
    poll(&wait, 1, 30000);
    *(volatile int *)is_thawed = 1;
    ioctl(directory, FITHAW, 0);
    _exit(0);
  }
  close(guard_life[0]);
}

static int mount_image(void) {
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
  mkdir("disk", 0700);
  if (system("truncate -s 8M image && mke2fs -q -t ext4 image && mount -o loop image disk") != 0) return -1;
  unlink("image");
  return open("disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void frozen_disk(void) {
  say_to("facts");
  int directory = mount_image();
  if (directory < 0) {
    // The same, watched and unwatched.
    say("no file system can be mounted here");
    return;
  }
  int manager = manager_socket();
  char path[600], sink[640];
  require(getcwd(path, sizeof path) != NULL, "getcwd");
  snprintf(sink, sizeof sink, "file:%s/disk/lines", path);
  setenv("STALLMONITOR_SINK", sink, 1);
  start_guard(directory);
  watch_start();
  stall(60);
  require(ioctl(directory, FIFREEZE, 0) == 0, "FIFREEZE");
  for (int i = 0; i < 4; i++) stall(60);
  char message[256];
  while (recv(manager, message, sizeof message, MSG_DONTWAIT) > 0) {}
  say("messages with a hung disk: %d", gets_messages(manager, 6));
  watch_stop();
  say("stopped before the disk came back: %d", !*(volatile int *)is_thawed);
  close(guard_life[1]);
  waitpid(guard, NULL, 0);
}

const struct scenario output_hosts[] = {
    {"stdout-is-a-full-pipe", full_stdout_as_root},
    {"stdout-is-a-full-pipe-of-roots", full_stdout_unprivileged},
    {"stderr-is-a-full-pipe-of-roots", full_stderr},
    {"stdout-is-closed", stdout_closed},
    {"stdout-has-no-reader", stdout_without_reader},
    {"stdout-is-a-full-socket", stdout_is_a_full_socket},
    {"service-manager-and-a-stuck-stdout", manager_and_stuck_stdout},
    {"service-manager-and-a-stuck-fifo", manager_and_stuck_fifo},
    {"service-manager-and-a-frozen-disk", frozen_disk},
    {NULL, NULL},
};
