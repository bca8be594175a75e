// Hosts that fork, execute, and change who and where they are.
#include "host.h"

#include <dirent.h>
#include <spawn.h>

extern char **environ;

static void say_status(const char *what, pid_t child) {
  int status = -1;
  pid_t reaped = waitpid(child, &status, 0);
  say("%s: reaped %d, exit %d, signal %d", what, reaped == child, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
      WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void fork_with_work(void) {
  watch_start();
  for (int i = 0; i < 3; i++) {
    turn_begin();
    compute(40);
    pid_t child = fork();
    if (child == 0) {
      char name[32];
      snprintf(name, sizeof name, "child-%d", i);
      compute(60);
      void *memory = malloc(1 << 20);
      memset(memory, 1, 1 << 20);
      free(memory);
      int file = open(name, O_WRONLY | O_CREAT, 0600);
      dprintf(file, "written by child %d as %d\n", i, file);
      exit(i);  // with all that exit runs
    }
    compute(40);
    turn_end();
    say_status("child", child);
  }
  watch_stop();
}

// The shell lists what it was given: nothing of the monitor's.
#define LIST "for f in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32; do " \
  "[ -e /proc/self/fd/$f ] && echo has $f; done; grep -E '^(SigBlk|SigIgn|SigPnd)' /proc/self/status; exit 5"
static char *const shell[] = {"sh", "-c", LIST, NULL};

static void fork_and_exec(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  pid_t child = fork();
  if (child == 0) {
    execv("/bin/sh", shell);
    _exit(127);
  }
  compute(60);
  turn_end();
  say_status("shell", child);
  watch_stop();
}

static void vfork_and_exec(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  pid_t child = vfork();
  if (child == 0) {
    execv("/bin/sh", shell);
    _exit(127);
  }
  compute(60);
  turn_end();
  say_status("shell", child);
  watch_stop();
}

static void spawn(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  pid_t child = 0;
  int result = posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environ);
  compute(60);
  turn_end();
  say_status("shell", child);
  say("posix_spawn: %d", result);
  watch_stop();
}

static void spawn_often(void) {
  char *const nothing[] = {"true", NULL};
  watch_start();
  int failures = 0;
  for (int i = 0; i < 5; i++) {
    turn_begin();
    compute(15);
    for (int n = 0; n < 10; n++) {
      pid_t child = 0;
      int status = -1;
      failures += posix_spawn(&child, "/bin/true", NULL, NULL, nothing, environ) != 0;
      failures += waitpid(child, &status, 0) != child || status != 0;
    }
    turn_end();
    pause_for(3);
  }
  say("failures: %d", failures);
  watch_stop();
}

static void exec_of_itself(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(60);
  execv("/bin/sh", shell);
  say("execv: errno %d", errno);
}

static void daemonize(void) {
  int ends[2];
  require(pipe(ends) == 0, "pipe");
  watch_start();
  stall(60);
  pid_t watcher = fork();
  if (watcher == 0) {
    close(ends[0]);
    if (daemon(1, 1) != 0) _exit(1);
    compute(60);
    dprintf(ends[1], "daemon works\n");
    _exit(0);
  }
  close(ends[1]);
  say_status("parent of the daemon", watcher);
  char bytes[64] = "";
  ssize_t n = read(ends[0], bytes, sizeof bytes - 1);
  say("%zd bytes: %s", n, bytes);
  watch_stop();
}

// The child of a fork can start a monitor of its own.
static void start_in_the_child(void) {
  watch_start();
  stall(60);
  pid_t child = fork();
  if (child == 0) {
    watch_start();
    for (int i = 0; i < 3; i++) stall(50);
    watch_stop();
    exit(4);
  }
  stall(60);
  say_status("child", child);
  watch_stop();
}

static void say_ids(void) {
  DIR *tasks = opendir("/proc/self/task");
  require(tasks != NULL, "/proc/self/task");
  int strangers = 0;
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[64], line[256];
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
      unsigned ids[4];
      if (sscanf(line, "Uid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) == 4)
        strangers += ids[0] != getuid() || ids[1] != getuid() || ids[2] != getuid() || ids[3] != getuid();
    }
    if (file != NULL) fclose(file);
  }
  closedir(tasks);
  say("threads with another id: %d", strangers);
}

static void setuid_at_run_time(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  int group = setgid(65534), user = setuid(65534);
  compute(40);
  turn_end();
  say("setgid: %d, setuid: %d, now %d:%d", group, user, (int)getuid(), (int)getgid());
  say_ids();
  for (int i = 0; i < 4; i++) stall(60);
  int file = open("/etc/shadow", O_RDONLY);
  say("a file of root's: %d, errno %d", file < 0 ? -1 : 0, errno);
  watch_stop();
}

static void chroot_at_run_time(void) {
  watch_start();
  stall(60);
  mkdir("jail", 0700);
  turn_begin();
  compute(40);
  int result = chroot("jail");
  result |= chdir("/");
  compute(40);
  turn_end();
  say("chroot: %d", result);
  int file = open("/inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  dprintf(file, "written inside\n");
  for (int i = 0; i < 4; i++) stall(60);
  say("outside: %d", open("/etc/passwd", O_RDONLY) < 0 ? errno : 0);
  watch_stop();
}

static void *outlive(void *ignored) {
  watch_thread("survivor");
  for (int i = 0; i < 4; i++) stall(50);
  say("the last thread");
  exit(6);
  return ignored;
}

static void main_thread_ends(void) {
  watch_start();
  stall(60);
  pthread_t thread;
  pthread_create(&thread, NULL, outlive, NULL);
  turn_begin();
  compute(40);
  pthread_exit(NULL);
}

static void quick_exit_in_a_stall(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(80);
  say("leaving");
  exit(9);
}

static void killed_in_a_stall(void) {
  watch_start();
  stall(60);
  turn_begin();
  compute(80);
  say("leaving");
  raise(SIGTERM);
}

const struct scenario process_hosts[] = {
    {"fork-with-work-in-the-child", fork_with_work},
    {"fork-and-exec-in-a-stall", fork_and_exec},
    {"vfork-and-exec-in-a-stall", vfork_and_exec},
    {"posix_spawn-in-a-stall", spawn},
    {"posix_spawn-of-fifty", spawn_often},
    {"exec-in-a-stall", exec_of_itself},
    {"daemon", daemonize},
    {"monitor-in-the-child-of-a-fork", start_in_the_child},
    {"setuid-at-run-time", setuid_at_run_time},
    {"chroot-at-run-time", chroot_at_run_time},
    {"main-thread-ends", main_thread_ends},
    {"exit-in-a-stall", quick_exit_in_a_stall},
    {"killed-in-a-stall", killed_in_a_stall},
    {NULL, NULL},
};
